"""Several aggregates and GROUP BY by brute force: NULLs, ties, IN, HAVING, composed spaces, both plans, moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.language.parse import parse
from prosem.types.aggregates import space
from prosem.types.shared.exact import average_value, written
from prosem.values.columns import column_type
from prosem.values.model import JsonObject
from tests.support.effort import examples
from tests.types.test_folded_ranges import history, play, selects

INTEGER = column_type("integer")
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
}


def aggregate(text: str, rows: Sequence[JsonObject]) -> Any:
    """MIN(y) and so on of some rows, by their text."""
    function, name = text[:-1].split("(")
    if name == "*":
        return len(rows)
    values = [row[name] for row in rows if row[name] is not None]
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    if function == "AVG":
        return average_value(INTEGER, sum(values), len(values))
    return {"MIN": min, "MAX": max, "SUM": sum}[function](values)


def where(ranges: int, listed: bool) -> str:
    parts = [f"{name} BETWEEN :{name}l AND :{name}h" for name in ("x", "z")[:ranges]]
    parts += ["e IN (:e0, :e1, :e2)"] if listed else []
    return f" WHERE {' AND '.join(parts)}" if parts else ""


SHAPES = [(0, False, "event"), (1, False, "event"), (1, True, "event"), (2, True, "event"), (1, True, "transaction"),
          (2, False, "transaction"), (0, True, "transaction")]  # fmt: skip
SELECTED = [
    ("MIN(y)", "MAX(y)"),
    ("COUNT(*)", "COUNT(y)", "SUM(y)", "AVG(y)"),
    ("MIN(y)", "SUM(z)", "MAX(w)", "COUNT(z)"),
    ("MAX(e)", "MIN(e)", "COUNT(*)"),
]


@pytest.mark.parametrize("selected", SELECTED)
@pytest.mark.parametrize(("ranges", "listed", "per"), SHAPES)
@given(history=history, max_boxes=st.sampled_from([0, 128]))
@settings(max_examples=examples(15), deadline=None)
def test_several(
    selected: Sequence[str], ranges: int, listed: bool, per: str, history: Any, max_boxes: int
) -> None:
    names = {f"c{number}": text for number, text in enumerate(selected)}
    columns = ", ".join(f"{text} AS {name}" for name, text in names.items())
    query = replace(parse(f"SELECT {columns} FROM t{where(ranges, listed)}"), per=per)

    def answer(rows: list[JsonObject], _: Mapping[str, Any]) -> JsonObject:
        return {"columns": {name: written(aggregate(text, rows)) for name, text in names.items()}}

    play(query, answer, history, max_boxes)


GROUPS = [
    (("e",), ("COUNT(*)",), ()),
    (("e",), ("MIN(y)",), (("COUNT(*)", ">=", "xl"),)),
    (("e", "y"), ("SUM(z)", "MAX(w)"), ()),
    (("y",), ("AVG(z)", "COUNT(e)"), (("SUM(z)", "<", "xh"), ("MAX(x)", "<>", "zl"))),
    (("x", "w"), ("MAX(y)", "COUNT(*)"), (("AVG(y)", "=", "xl"),)),
    (("e",), ("SUM(y)",), (("MIN(w)", "=", "e0"),)),
]


@pytest.mark.parametrize(("by", "selected", "having"), GROUPS)
@pytest.mark.parametrize(("ranges", "listed", "per"), SHAPES)
@given(history=history, max_boxes=st.sampled_from([0, 128]), many=st.sampled_from([1, 2, 32]))
@settings(max_examples=examples(15), deadline=None)
def test_groups(
    by: Sequence[str], selected: Sequence[str], having: Any, ranges: int, listed: bool, per: str, history: Any,
    max_boxes: int, many: int,
) -> None:  # fmt: skip
    names = {f"c{number}": text for number, text in enumerate(selected)}
    columns = ", ".join([*by[:1], *(f"{text} AS {name}" for name, text in names.items()), *by[1:]])
    conditions = " AND ".join(f"{text} {op} :{name}" for text, op, name in having)
    sql = f"SELECT {columns} FROM t{where(ranges, listed)} GROUP BY {', '.join(by)}"
    query = replace(parse(sql + (f" HAVING {conditions}" if having else "")), per=per)

    def select(row: JsonObject, params: Mapping[str, Any]) -> bool:
        if ranges < 2:
            params = {name: value for name, value in params.items() if name[0] != "z"}
        if ranges < 1:
            params = {name: value for name, value in params.items() if name[0] != "x"}
        if not listed:
            params = {name: value for name, value in params.items() if name[0] != "e"}
        return selects(row, params)

    def answer(rows: list[JsonObject], params: Mapping[str, Any]) -> JsonObject:
        groups: dict[tuple[Any, ...], list[JsonObject]] = {}
        for row in rows:
            groups.setdefault(tuple(row[name] for name in by), []).append(row)
        found = []
        for key, some in groups.items():
            compared = [(aggregate(text, some), op, params[name]) for text, op, name in having]
            if all(value is not None and COMPARED[op](value, constant) for value, op, constant in compared):
                own = dict(zip(by, key, strict=True))
                aggregates = {name: written(aggregate(text, some)) for name, text in names.items()}
                found.append({by[0]: own[by[0]], **aggregates, **{name: own[name] for name in by[1:]}})
        return {"groups": found}

    with patch.object(space, "MANY_GROUPS", many):
        play(query, answer, history, max_boxes, select, by)
