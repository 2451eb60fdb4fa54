"""The Python client over groups, top-k, several aggregates, views and joins: folds, typed answers, frames."""

from __future__ import annotations

import uuid
from decimal import Decimal
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prosem_client import Client, Order, OutOfStep, SyncSubscription, fold
from prosem_client.folding import Groups, Rows, answer_of, in_order, whole_result
from prosem_client.query import Shape

from tests.support.effort import examples

WAIT_S = 20.0
values = st.one_of(st.none(), st.integers(-3, 3))
states = st.lists(st.dictionaries(values, st.integers(0, 2), max_size=5), min_size=2, max_size=6)


def change_of(before: dict[Any, Any], after: dict[Any, Any], make: Any, key: Any) -> dict[str, Any]:
    return {
        "add": [make(one, after[one]) for one in after if one not in before],
        "update": [make(one, after[one]) for one in after if one in before and before[one] != after[one]],
        "remove": [key(one) for one in before if one not in after],
    }


@settings(max_examples=examples(50))
@given(states)
def test_groups_fold_to_the_next_answer(states: list[dict[Any, int]]) -> None:
    def make(g: Any, n: int) -> dict[str, Any]:
        return {"g": g, "n": n}

    answer = answer_of({"groups": [make(*one) for one in states[0].items()]}, Shape(("g",)))
    assert isinstance(answer, Groups)
    for before, after in pairwise(states):
        answer.apply(change_of(before, after, make, lambda g: {"g": g}))
        answer.check()
        assert {group["g"]: group["n"] for group in answer.result()["groups"]} == after


@settings(max_examples=examples(50))
@given(states, st.booleans(), st.booleans())
def test_rows_of_a_top_k_are_in_order(
    states: list[dict[Any, int]], is_descending: bool, nulls_first: bool
) -> None:
    def make(k: Any, y: int) -> dict[str, Any]:
        return {"k": k, "y": y or None}

    def compare(one: dict[str, Any], other: dict[str, Any]) -> int:
        """ORDER BY y, k, by cases."""
        for name, down, first in (("y", is_descending, nulls_first), ("k", False, False)):
            a, b = one[name], other[name]
            if a == b:
                continue
            if a is None or b is None:
                return (-1 if a is None else 1) * (1 if first else -1)
            return (-1 if a < b else 1) * (-1 if down else 1)
        return 0

    order = (Order("y", is_descending, nulls_first, "integer"), Order("k", type="integer"))
    first = sorted([make(*one) for one in states[0].items()], key=cmp_to_key(compare))
    answer = Rows({"rows": first}, Shape(("k",), order=order))
    for before, after in pairwise(states):
        answer.apply(change_of(before, after, make, lambda k: {"k": k}))
        expected = sorted([make(*one) for one in after.items()], key=cmp_to_key(compare))
        assert answer.result()["rows"] == expected


def test_numerics_are_ordered_by_value_and_keys_have_no_scale() -> None:
    rows = [{"y": "9.50"}, {"y": "10.00"}, {"y": None}]
    assert in_order(rows, [Order("y", True, False, "numeric(6,2)")]) == [rows[1], rows[0], rows[2]]
    answer = Groups({"groups": [{"g": "1.50", "n": 1}]}, Shape(("g",), columns=(("g", "numeric"),)))
    answer.apply({"remove": [{"g": "1.5"}]})
    assert answer.result() == {"groups": []}


def test_columns_are_told_as_a_whole() -> None:
    assert fold({"columns": {"low": 1, "n": 2}}, {"columns": {"low": 0, "n": 3}}) == {
        "columns": {"low": 0, "n": 3}
    }
    assert whole_result({"columns": {"n": 3}}) == {"columns": {"n": 3}}
    told = {"value": 4, "previous": 3, "row": {"k": 1}}
    assert fold({"value": 3, "row": None}, told) == {"value": 4, "row": {"k": 1}}
    with pytest.raises(OutOfStep):
        fold({"columns": {"n": 3}}, {"value": 3})


@pytest.fixture
def tables(client: Client) -> tuple[str, str]:
    orders, users = (f"{name}_{uuid.uuid4().hex[:10]}" for name in ("orders", "users"))
    client.create_table(users, {"id": "integer", "city": "text"}, ["id"])
    client.create_table(orders, {"no": "integer", "user_id": "integer", "price": "numeric(8,2)"}, ["no"])
    client.publish(users, [put(id=1, city="Zug"), put(id=2, city="Bern"), put(id=3, city=None)])
    return orders, users


def put(**row: Any) -> dict[str, Any]:
    return {"op": "upsert", "row": row}


def test_every_form_folds_to_the_answer(client: Client, server: str, tables: tuple[str, str]) -> None:
    orders, users = tables
    view = f"v_{orders}"
    joined = f"{orders} o JOIN {users} u ON o.user_id = u.id"
    client.create_view(view, f"SELECT o.no, u.id, u.city, o.price * 2 AS double FROM {joined}")
    assert client.view(view)["primary_key"] == ["no", "id"]
    queries = [
        f"SELECT city, COUNT(*) AS n, SUM(double) AS total FROM {view} GROUP BY city",
        f"SELECT city, id, MAX(double) AS high FROM {view} GROUP BY city, id HAVING COUNT(*) >= 1",
        f"SELECT no, id, double FROM {view} ORDER BY double DESC LIMIT 2",
        f"SELECT no, price FROM {orders} ORDER BY price LIMIT 3",
        f"SELECT MIN(price) AS low, MAX(price) AS high, COUNT(*) FROM {orders}",
        f"SELECT o.no, u.id, u.city FROM {joined} WHERE o.price < 50",
        f"SELECT DISTINCT double FROM {view}",
        f"SELECT AVG(o.price) FROM {joined}",
        f"SELECT * FROM {view} WHERE double > 5",
    ]
    held = [client.subscribe(sql) for sql in queries]
    other = Client(server)
    again = [other.attach(one.id) for one in held]
    requests = [
        [
            put(no=1, user_id=1, price="10.00"),
            put(no=2, user_id=2, price="9.50"),
            put(no=3, user_id=3, price=7),
        ],
        [put(no=4, user_id=1, price="100"), put(no=1, user_id=3, price="9.5")],
        [{"op": "delete", "key": {"no": 4}}, {"op": "update", "key": {"no": 2}, "set": {"price": None}}],
    ]
    for events in requests:
        client.publish(orders, events)
        for one in [*held, *again]:
            check_folded(client, one)
    other.close()
    groups, pairs, top, lowest, columns, rows, *_ = held
    assert set(groups.groups) == {None, "Bern"}
    assert groups.groups[None]["n"] == 2
    assert Decimal(groups.groups[None]["total"]) == 33
    assert set(pairs.groups) == {(None, 3), ("Bern", 2)}
    assert [row["double"] and Decimal(row["double"]) for row in top.rows] == [None, 19]
    assert [row["no"] for row in lowest.rows] == [3, 1, 2]
    assert columns.columns == {"low": "7.00", "high": "9.50", "count": 3}
    assert {row["no"] for row in rows.rows} == {1, 3}
    with pytest.raises(ValueError, match="has no groups"):
        _ = rows.groups
    check_frames(groups, top, columns)


def check_frames(groups: SyncSubscription, top: SyncSubscription, columns: SyncSubscription) -> None:
    frame = groups.to_pandas().set_index("n").sort_index()
    assert list(frame.columns) == ["city", "total"]
    assert frame.loc[2]["total"] == Decimal("33.00")
    assert top.to_arrow().column("double").to_pylist() == [None, Decimal("19.00")]
    found = columns.to_arrow()
    assert found.column_names == ["low", "high", "count"]
    assert found.to_pylist() == [{"low": Decimal("7.00"), "high": Decimal("9.50"), "count": 3}]


def check_folded(client: Client, subscription: SyncSubscription) -> None:
    """Consume up to the present answer: what is folded must be what the server says, a top-k in its order."""
    expected = client.result(subscription.id)
    is_ordered = "LIMIT" in (subscription._subscription._opened().sql)
    while comparable(subscription.result, is_ordered) != comparable(expected.result, is_ordered):
        change = subscription.next(timeout_s=WAIT_S)
        assert not change.snapshot
        assert change.seq <= expected.seq, "no change led to the answer"


def comparable(result: Any, is_ordered: bool) -> Any:
    return {
        name: sorted(part, key=repr) if isinstance(part, list) and not is_ordered else part
        for name, part in result.items()
        if name != "row"
    }


def test_the_server_says_how_answers_are_folded(client: Client, tables: tuple[str, str]) -> None:
    orders, users = tables
    cases = {
        f"SELECT COUNT(*) FROM {orders}": Shape(type="bigint"),
        f"SELECT SUM(price) FROM {orders}": Shape(type="numeric"),
        f"SELECT MAX(id) FROM {users}": Shape(type="integer", row=(("id", "integer"), ("city", "text"))),
        f"SELECT city FROM {users} WHERE id = 1": Shape(type="text", columns=(("id", "integer"),)),
        f"SELECT DISTINCT price FROM {orders}": Shape(
            type="numeric(8,2)", columns=(("price", "numeric(8,2)"),)
        ),
        f"SELECT * FROM {users} WHERE id > 1": Shape(("id",), columns=(("id", "integer"), ("city", "text"))),
        f"SELECT user_id AS u, COUNT(*) AS n FROM {orders} GROUP BY user_id": Shape(
            ("u",), columns=(("u", "integer"), ("n", "bigint"))
        ),
        f"SELECT no AS k, price AS y FROM {orders} ORDER BY price DESC LIMIT 3": Shape(
            ("k",),
            order=(Order("y", True, True, "numeric(8,2)"), Order("k", type="integer")),
            columns=(("k", "integer"), ("y", "numeric(8,2)")),
        ),
    }
    for sql, shape in cases.items():
        with client.subscribe(sql) as made:
            assert made._subscription._opened().shape == shape, sql
            made.suspend()
        with client.attach(made.id) as found:
            assert found._subscription._opened().shape == shape, sql
