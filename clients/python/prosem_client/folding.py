"""Folding: the answer before and a change give the answer after.

One class a kind of answer, chosen by the one field that names it. Each holds its entries so that a change
costs the size of the change, and `result` one copy of the answer (`versions.py` makes it when it is asked for): against a
scan of a list of 10,000 rows for every row that is removed or updated. A fold from scratch, `fold()`, costs the size of the
answer.
"""

from __future__ import annotations

import base64
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar, Protocol

from prosem_client.errors import OutOfStep
from prosem_client.query import Order, Shape
from prosem_client.values import JsonObject


class Answer(Protocol):
    """An answer that is kept up to date; a result once given is never changed."""

    def apply(self, change: Mapping[str, Any]) -> None: ...

    def result(self) -> JsonObject: ...


def fold(
    result: JsonObject,
    change: Mapping[str, Any],
    key: tuple[str, ...] = (),
    type: str | None = None,
    order: tuple[Order, ...] = (),
) -> JsonObject:
    """The result after a change.

    `key` names the columns by which rows of a filter and groups are told apart (joined rows need none); `type` is
    the column's type of a DISTINCT, whose values are sorted as the database does, NULL last; rows of a top-k are sorted
    by `order`. The server says all three in `fold`, and `Shape.of` reads it.

    >>> fold({"rows": [{"k": 1, "v": 7}]}, {"add": [{"k": 2, "v": 5}], "remove": [{"k": 1}]}, key=("k",))
    {'rows': [{'k': 2, 'v': 5}]}
    >>> fold({"values": ["9.50", None]}, {"add": ["10.00"], "remove": []}, type="numeric(6,2)")
    {'values': ['9.50', '10.00', None]}
    >>> fold({"value": 3}, {"value": 4, "previous": 3})
    {'value': 4}
    >>> fold({"groups": [{"g": "a", "n": 2}]}, {"update": [{"g": "a", "n": 3}]}, key=("g",))
    {'groups': [{'g': 'a', 'n': 3}]}
    """
    answer = answer_of(result, Shape(tuple(key), type, tuple(order)))
    answer.apply(change)
    return answer.result()


def answer_of(result: JsonObject, shape: Shape) -> Answer:
    """The answer of this result, ready for changes."""
    kinds: dict[str, Callable[[JsonObject, Shape], Answer]] = {
        "values": Values,
        "rows": Rows,
        "groups": Groups,
        "items": Items,
    }
    return next((kind(result, shape) for name, kind in kinds.items() if name in result), Whole(result))


def whole_result(change: Mapping[str, Any]) -> JsonObject | None:
    """The answer after a change that tells all of it, else None: what is known without the answer before.

    >>> whole_result({"value": 4, "previous": 3}), whole_result({"add": [4], "remove": []})
    ({'value': 4}, None)
    """
    if not change.keys() & WHOLE or "key" in change:
        return None
    return {name: value for name, value in change.items() if name != "previous"}


WHOLE = {"value", "columns"}  # answers that a change tells all of


class Whole:
    """`{"value"}`, `{"value", "row"}` and `{"columns"}`: a change tells all of the answer."""

    def __init__(self, result: JsonObject) -> None:
        self._result = result

    def apply(self, change: Mapping[str, Any]) -> None:
        if not WHOLE & change.keys() & self._result.keys():
            raise OutOfStep(f"the answer is {_show(self._result)}, but the change is {_show(change)}")
        self._result = {name: change.get(name) for name in self._result}

    def result(self) -> JsonObject:
        return self._result


class Values:
    """`{"values"}`: distinct values, in the order of their type with NULL last.

    Invariant: `_values` is strictly increasing. A change costs a binary search for each of its values.
    """

    def __init__(self, result: JsonObject, shape: Shape) -> None:
        place = _PLACES.get((shape.type or "").partition("(")[0], lambda value: value)
        self._place: Callable[[Any], Any] = lambda value: (
            value is None,
            0 if value is None else place(value),
        )
        self._values = sorted(result["values"], key=self._place)

    def apply(self, change: Mapping[str, Any]) -> None:
        for value in change.get("remove", ()):
            at, is_there = self._find(value)
            if not is_there:
                raise OutOfStep(f"the value {_show(value)} is removed, but it is not in the answer")
            del self._values[at]
        for value in change.get("add", ()):
            if self._find(value)[1]:
                raise OutOfStep(f"the value {_show(value)} is added, but it is already in the answer")
            insort(self._values, value, key=self._place)

    def result(self) -> JsonObject:
        return {"values": list(self._values)}

    def check(self) -> None:
        """The values are sorted, and no two are the same."""
        places = [self._place(value) for value in self._values]
        assert all(before < after for before, after in pairwise(places)), self._values

    def _find(self, value: Any) -> tuple[int, bool]:
        place = self._place(value)
        at = bisect_left(self._values, place, key=self._place)
        return at, at < len(self._values) and self._place(self._values[at]) == place


class Rows:
    """`{"rows"}`: rows told apart by their key, or joined rows, told apart as a whole.

    Invariant: `_rows[identity of row] is row`. Rows of a filter keep their place, and a new one comes last. Those of a top-k
    are sorted for each result: k log k for at most 1,000 rows.
    """

    name: ClassVar[str] = "rows"

    def __init__(self, result: JsonObject, shape: Shape) -> None:
        self._shape = shape
        types = dict(shape.columns)
        self._numerics = [name for name in shape.key if types.get(name) == "numeric"]
        self._rows = {self._identity(row): row for row in result[self.name]}
        if len(self._rows) != len(result[self.name]):
            raise OutOfStep(f"two {self.name} of the answer have the same key")

    def apply(self, change: Mapping[str, Any]) -> None:
        for row in change.get("remove", ()):
            if self._rows.pop(self._identity(row), None) is None:
                raise OutOfStep(f"the row {_show(row)} is removed, but it is not in the answer")
        for verb, must_be_there in (("update", True), ("add", False)):
            for row in change.get(verb, ()):
                identity = self._identity(row)
                if (identity in self._rows) != must_be_there:
                    state = "not" if must_be_there else "already"
                    raise OutOfStep(f"{verb} of the row {_show(row)}, which is {state} in the answer")
                self._rows[identity] = row

    def result(self) -> JsonObject:
        return {self.name: in_order(self._rows.values(), self._shape.order)}

    def check(self) -> None:
        """Every row stands under its identity."""
        assert all(self._identity(row) == identity for identity, row in self._rows.items()), self._rows

    def _identity(self, row: Mapping[str, Any]) -> Hashable:
        if self._numerics:  # 1.5 and 1.50 are one value where the type has no scale of its own
            values = {name: row[name] for name in self._numerics if row.get(name) is not None}
            row = {**row, **{name: Decimal(value) for name, value in values.items()}}
        return row_identity(row, self._shape.key)


class Groups(Rows):
    """`{"groups"}`: told apart by the columns of GROUP BY."""

    name = "groups"


def in_order(rows: Iterable[JsonObject], order: Sequence[Order]) -> list[JsonObject]:
    """The rows as ORDER BY has them; without any, as they come.

    >>> in_order([{"y": None}, {"y": 1}, {"y": 2}], [Order("y", is_descending=True)])
    [{'y': 2}, {'y': 1}, {'y': None}]
    """
    found = list(rows)
    for one in reversed(order):  # sorting is stable, in both directions
        place = _PLACES.get(one.type.partition("(")[0], lambda value: value)
        is_null_last = one.nulls_first == one.is_descending  # before the direction is applied

        def rank(
            row: JsonObject, one: Order = one, place: Any = place, last: bool = is_null_last
        ) -> tuple[bool, Any]:
            value = row[one.column]
            return (value is None) == last, 0 if value is None else place(value)

        found.sort(key=rank, reverse=one.is_descending)
    return found


def row_identity(row: Mapping[str, Any], key: tuple[str, ...]) -> Hashable:
    """What tells a row from the others: its key, or all of it where there is none."""
    if not key:
        return _hashable(row)
    try:
        return tuple([_hashable(row[column]) for column in key])
    except KeyError as error:
        raise OutOfStep(f"the row {_show(row)} has no column {error} of the key") from None


class Items:
    """`{"items"}`: values told one item at a time. An item whose value is told as null is no longer listed.

    A row that disappears and one that becomes NULL are told alike, so both leave the list.
    """

    def __init__(self, result: JsonObject, shape: Shape) -> None:
        self._items = {_hashable(item["key"]): item for item in result["items"]}

    def apply(self, change: Mapping[str, Any]) -> None:
        for told in change.get("items", (change,)):  # an update of parameters may tell several at once
            if "key" not in told:
                raise OutOfStep(f"the change {_show(change)} names no item")
            if told["value"] is None:
                self._items.pop(_hashable(told["key"]), None)
            else:
                self._items[_hashable(told["key"])] = {"key": told["key"], "value": told["value"]}

    def result(self) -> JsonObject:
        return {"items": list(self._items.values())}


# How the values of a type are ordered where their text is not.
_PLACES: dict[str, Callable[[Any], Any]] = {
    "numeric": Decimal,
    "timestamptz": datetime.fromisoformat,
    "bytea": base64.b64decode,
}


def _hashable(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return frozenset([(name, _hashable(part)) for name, part in value.items()])
    if isinstance(value, list):
        return tuple([_hashable(part) for part in value])
    return value  # type: ignore[no-any-return]


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
