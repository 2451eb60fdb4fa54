"""How compiled expressions are evaluated: lazily, a row at a time, over rows that may be missing; and their limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.language.view_parse import parse_view
from prosem.language.view_syntax import Expression
from prosem.values.errors import LanguageError
from prosem.values.model import Row
from prosem.views.expressions import (
    Compiled,
    EvaluationError,
    compile_condition,
    compile_expression,
    compile_row,
)
from tests.support.compiled import ALL, compiled
from tests.support.effort import examples
from tests.support.expressions import NAMES, ROWS, expressions, resolve

IDS = st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f AND 1 / e > 0", EvaluationError),
        ("g AND 1 / e > 0", False),
        ("f OR 1 / e > 0", True),
        ("g OR 1 / e > 0", EvaluationError),
        ("NULL AND 1 / e > 0", EvaluationError),
        ("CASE WHEN f THEN i ELSE i * 2147483647 END", 5),
        ("CASE WHEN g THEN 0 WHEN i * 2147483647 > 1 THEN 1 END", EvaluationError),
        ("CASE i WHEN 5 THEN 1 WHEN i * 2147483647 THEN 2 END", 1),
        ("COALESCE(i, i * 2147483647)", 5),
        ("COALESCE(j, i * 2147483647)", EvaluationError),
        ("i IN (5, i * 2147483647)", True),
        ("i BETWEEN 6 AND i * 2147483647", False),
        ("(i * 2147483647) IS NULL", EvaluationError),
        ("(i * 2147483647) + NULL", None),
    ],
)
def test_conditions_and_choices_stop_when_they_are_decided(text: str, expected: Any) -> None:
    row = tuple({"i": 5, "e": 0.0, "f": True, "g": False}.get(name) for name in NAMES)
    made = compiled(text)
    if expected is EvaluationError:
        with pytest.raises(EvaluationError):
            made.evaluate([row])
    else:
        assert made.evaluate([row]) == expected


@settings(max_examples=examples(60))
@given(texts=st.lists(expressions(2), min_size=1, max_size=4), ids=IDS)
def test_a_row_is_its_expressions_from_left_to_right(texts: list[str], ids: list[int]) -> None:
    """One function for all of them gives what one function for each gives, though it computes shared parts once."""
    sql = f"SELECT {', '.join(f'{text} AS v{at}' for at, text in enumerate(texts))} FROM t"
    parts: list[Expression] = [item.expression for item in parse_view(sql).items]  # type: ignore[misc]
    alone = [compile_expression(part, resolve, sql) for part in parts]
    together = compile_row(parts, resolve, sql)
    assert together.types == tuple(one.type for one in alone)
    assert together.nullable == tuple(one.nullable for one in alone)
    for id in ids:
        try:
            expected: Row | str = tuple(one.evaluate([ALL[id]]) for one in alone)
        except EvaluationError as error:
            expected = str(error)
        try:
            found: Row | str = together.evaluate([ALL[id]])
        except EvaluationError as error:
            found = str(error)
        assert found == expected


def test_the_columns_of_a_missing_row_are_null() -> None:
    assert compiled("COALESCE(i, -1)").evaluate([None]) == -1
    assert compiled("t IS NULL AND u IS NULL").evaluate([None]) is True
    assert compiled("i + 1").evaluate([None]) is None


def test_a_condition_is_boolean() -> None:
    sql = "SELECT id FROM t WHERE {}"

    def condition(text: str) -> Compiled:
        where = parse_view(sql.format(text)).where
        assert where is not None
        return compile_condition(where, resolve, sql.format(text))

    assert condition("NULL").evaluate([ALL[0]]) is None
    assert condition("'yes'").evaluate([ALL[0]]) is True
    with pytest.raises(
        LanguageError, match="WHERE takes a condition, and this is a value of type integer"
    ) as raised:
        condition("i")
    assert raised.value.highlight.endswith(" " * 23 + "^")


def test_limits() -> None:
    """Results with thousands of digits and deep nesting are refused when the view is made, not when a row comes."""
    with pytest.raises(LanguageError, match="digits"):
        compiled(" * ".join(["CAST(d AS numeric)"] * 7))
    nested = "i"
    for _ in range(40):
        nested = f"CASE WHEN f THEN {nested} ELSE j END"
    assert compiled(nested).evaluate([tuple({"f": True, "i": 5}.get(name) for name in NAMES)]) == 5
    for _ in range(20):
        nested = f"CASE WHEN f THEN {nested} ELSE j END"
    with pytest.raises(LanguageError, match="nested too deeply"):
        compiled(nested)
