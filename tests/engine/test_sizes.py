"""What PostgreSQL cannot hold is refused before anything changes; what it can hold is taken."""

from __future__ import annotations

import asyncio
import os
from decimal import Decimal
from typing import Any

import pytest

from prosem.engine import commands as c
from prosem.engine.sizes import MAX_KEY_BYTES, key_bytes
from prosem.values.errors import InputError, RefusedError, TooLargeError
from tests.support.live import insert, upsert
from tests.support.running import TABLE, outcome, publish, running


def noise(length: int) -> str:
    """A text that no compression makes shorter."""
    return os.urandom(length).hex()[:length]


def table(kind: str, columns: int, keys: int) -> dict[str, Any]:
    names = [f"c{at}" for at in range(columns)]
    described = [{"name": name, "type": kind} for name in names]
    if not keys:  # of a type that no key can have
        names, described = ["k"], [*described[:-1], {"name": "k", "type": "integer"}]
    return {"name": "wide", "columns": described, "primary_key": names[: keys or 1]}


def row(definition: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    has_own_key = len(values) == len(definition["columns"]) - 1
    return insert(**{f"c{at}": value for at, value in enumerate(values)}, **({"k": 1} if has_own_key else {}))


@pytest.mark.parametrize(
    ("definition", "values"),
    [
        (table("text", 8, 8), [noise(500)] * 8),
        (table("text", 2, 1), [noise(5_000), "x"]),
        (table("text", 399, 1), [noise(20)] * 399),
        (table("text", 399, 1), [noise(21)] * 399),
        (table("text", 341, 1), [noise(23)] * 341),
        (table("jsonb", 399, 0), [["abcd", "efgh"]] * 398),
        (table("numeric(1000,0)", 6, 6), [int("1" + "7" * 999)] * 6),
    ],
)
async def test_what_postgresql_cannot_hold_is_refused_before_anything_changes(
    url: str, definition: dict[str, Any], values: list[Any]
) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(definition))
        refused = await outcome(made, c.Publish("wide", [row(definition, values)]))
        assert type(refused) is InputError, refused
        assert (refused.at or "").startswith("/events/0/row")
        assert made.metrics.rebuilds == 0


@pytest.mark.parametrize(
    ("definition", "values"),
    [
        (table("text", 8, 8), [noise(320)] * 8),
        (table("text", 1, 1), [noise(2_684)]),
        (table("numeric(1000,0)", 5, 5), [int("1" + "7" * 999)] * 5),
        (table("text", 400, 1), [noise(300)] * 400),
        (table("text", 380, 1), [noise(20)] * 380),
        (table("text", 399, 1), [noise(24)] * 399),
        (table("text", 330, 1), [noise(23)] * 330),
        (table("jsonb", 399, 0), [True] * 398),
        (table("jsonb", 399, 0), [noise(30)] * 398),
    ],
)
async def test_what_fits_is_taken(url: str, definition: dict[str, Any], values: list[Any]) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(definition))
        assert (await made.call(c.Publish("wide", [row(definition, values)])))["count"] == 1
        assert made.metrics.rebuilds == 0


async def test_values_that_shrink_and_stay_in_the_row_are_refused_without_a_rebuild(url: str) -> None:
    """How large a row is, is known to PostgreSQL alone: it is asked before memory changes."""
    definition = table("text", 399, 1)
    async with running(url) as made:
        await made.call(c.CreateTable(definition))
        await made.call(c.Publish("wide", [insert(c0="a")]))
        shrinking = ["b", *[noise(9) + "x" * 60 for _ in range(398)]]
        refused = await outcome(made, c.Publish("wide", [row(definition, shrinking)]))
        assert (type(refused), refused.status) == (RefusedError, 422)
        assert (await made.call(c.Publish("wide", [insert(c0="c")])))["count"] == 1
        assert made.metrics.rebuilds == 0


async def test_an_update_cannot_make_a_key_or_a_row_that_does_not_fit(url: str) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(table("text", 399, 1)))
        await made.call(c.Publish("wide", [insert(c0="a")]))
        moved = {"table": "wide", "op": "update", "key": {"c0": "a"}, "set": {"c0": noise(5_000)}}
        refused = await outcome(made, c.Transact([moved]))
        assert (type(refused), refused.at) == (InputError, "/events/0/set/c0")
        filled = {
            "op": "update",
            "key": {"c0": "a"},
            "set": {f"c{at}": noise(20) for at in range(1, 399)},
        }
        refused = await outcome(made, c.Publish("wide", [filled]))
        assert (type(refused), refused.at) == (InputError, "/events/0/set")
        assert made.metrics.rebuilds == 0


def test_a_decimal_is_counted_by_its_digits() -> None:
    assert key_bytes((Decimal(1),)) < 32
    assert 500 < key_bytes((Decimal("7" * 1000),)) < 530 < MAX_KEY_BYTES


async def test_a_large_request_is_applied_and_one_beyond_the_limit_is_named(url: str) -> None:
    async with running(url, max_request_events=30_000, max_backlog=1_000) as made:
        await made.call(c.CreateTable(TABLE))
        large = made.submit(c.Transact([{"table": "t", **upsert(k=k, x=k, y=k)} for k in range(20_000)]))
        others = [made.submit(publish(insert(k=-k, x=0, y=0))) for k in range(1, 100)]
        assert (await asyncio.wrap_future(large))["count"] == 20_000
        for other in others:  # delayed, and not refused
            assert (await asyncio.wrap_future(other))["first_seq"] > 20_000
        with pytest.raises(TooLargeError, match=r"at most 30000.*--max-request-events") as caught:
            made.submit(publish(*[upsert(k=1, x=1, y=1)] * 30_001))
        assert caught.value.status == 413
