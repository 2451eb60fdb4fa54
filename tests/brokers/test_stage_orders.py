"""Orders of attributes: read from text, and applied to the spaces of a table."""

from __future__ import annotations

import pytest

from api.server.deployment import stage_orders
from api.server.settings import Settings
from prosem.brokers.stage_orders import read_stage_orders, stage_order
from prosem.language.parse import parse
from prosem.store.catalog import table_from
from prosem.types.base import Form
from prosem.values.errors import SetupError
from prosem.views.subscription import recognise

TABLE = table_from(
    1,
    "default",
    {
        "name": "stocks",
        "columns": [
            {"name": name, "type": "integer", "nullable": name != "k"}
            for name in ("k", "price", "sector", "size")
        ],
        "primary_key": ["k"],
    },
    (),
)


def form(sql: str) -> Form:
    return recognise(parse(sql), {"stocks": TABLE}, None)


@pytest.mark.parametrize(
    ("sql", "order"),
    [
        ("SELECT * FROM stocks WHERE price < :a", (2, 1)),
        (
            "SELECT MIN(k) FROM stocks WHERE price BETWEEN :a AND :b AND sector BETWEEN :a AND :b",
            (2, 3, 0, 1),
        ),
        ("SELECT MIN(k) FROM stocks WHERE price BETWEEN :a AND :b AND size BETWEEN :a AND :b", (0, 1)),
        ("SELECT MIN(k) FROM stocks WHERE size BETWEEN :a AND :b", None),
        ("SELECT size FROM stocks WHERE k = :a", None),
    ],
)
def test_the_columns_of_a_table_give_the_order_of_its_spaces(sql: str, order: tuple[int, ...] | None) -> None:
    orders = read_stage_orders("stocks = sector, price, missing; others=a")
    assert stage_order(form(sql), orders) == order
    assert stage_order(form(sql), {}) is None


@pytest.mark.parametrize("text", ["stocks", "stocks=", "=price", "stocks=a,a", "stocks=a,,b"])
def test_what_is_no_order(text: str) -> None:
    with pytest.raises(SetupError, match="--stage-order"):
        stage_orders(Settings(network="stages", stage_order=text))


def test_orders_are_for_stages() -> None:
    with pytest.raises(SetupError, match="stages"):
        stage_orders(Settings(network="cbn", stage_order="stocks=price"))
