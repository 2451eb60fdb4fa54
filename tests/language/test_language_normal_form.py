"""WHERE as extents, against brute force in SQL's three-valued logic: random predicates on random rows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.model.geometry import Extent
from prosem.language.parse import parse
from prosem.language.resolve import check_parameters, normal_form
from prosem.values.columns import column_type
from prosem.values.model import Column, Table
from tests.support.effort import examples

TYPES = {"x": "integer", "d": "double precision", "y": "numeric(6,2)", "name": "text", "day": "date"}
T = Table(1, "t", tuple(Column(name, column_type(kind)) for name, kind in TYPES.items()), ("x",))
FROM = "SELECT * FROM t WHERE "

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TURN = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
Truth = bool | None


@dataclass(frozen=True)
class Made:
    """A piece of a predicate: its text, how it binds (OR 0, AND 1, NOT 2, others 3), and its meaning."""

    sql: str
    binds: int
    truth: Callable[[dict[str, Any]], Truth]

    def within(self, binds: int) -> str:
        return self.sql if self.binds >= binds else f"({self.sql})"


Case = tuple[Made, dict[str, Any], list[dict[str, Any]]]  # a predicate, its parameters, rows to try


def both(a: Truth, b: Truth) -> Truth:
    return False if a is False or b is False else None if a is None or b is None else True


def neither(a: Truth) -> Truth:
    return None if a is None else not a


def either(a: Truth, b: Truth) -> Truth:
    return neither(both(neither(a), neither(b)))


def comparable(name: str, value: Any) -> Any:
    """A value or constant so that Python compares it as PostgreSQL does."""
    if value is None or name in ("name", "day"):
        return value
    exact = Fraction(Decimal(repr(value)) if isinstance(value, float) else value)
    return Fraction(float(exact)) if name == "d" else exact


def written(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + str(value).replace("'", "''") + "'" if isinstance(value, str | date) else str(value)


NUMBERS = st.one_of(st.integers(-4, 4), st.sampled_from([Decimal("1.5"), Decimal("-0.25"), Decimal("0.1")]))
TEXTS = st.text(alphabet="ab'é\ud7ff\U0010ffff", max_size=3)
DAYS = st.integers(-3, 3).map(lambda n: date(2024, 2, 28) + timedelta(n))


def constants(name: str) -> st.SearchStrategy[Any]:
    found: st.SearchStrategy[Any] = {"name": TEXTS, "day": DAYS}.get(name, NUMBERS)
    return st.one_of(found, found, found, found, st.none())


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    values: dict[str, st.SearchStrategy[Any]] = {
        "x": st.integers(-4, 4),
        "d": st.sampled_from([-4.0, -0.25, 0.0, 0.1, 1.0, 1.5, 2.0, 0.1 + 2**-56]),
        "y": st.sampled_from([Decimal(n) / 100 for n in (-400, -25, 0, 10, 11, 100, 150, 300)]),
        "name": TEXTS,
        "day": DAYS,
    }
    return {name: draw(st.one_of(found, found, found, st.none())) for name, found in values.items()}


@st.composite
def terms(draw: st.DrawFn, name: str, params: dict[str, Any]) -> tuple[str, Any]:
    """A constant as a literal, a parameter or a sum, and its value."""
    value = draw(constants(name))
    form = draw(st.sampled_from(["literal", "literal", "parameter", "sum"]))
    if form == "parameter":
        given = str(value) if isinstance(value, date) else value
        if isinstance(value, Decimal) and draw(st.booleans()):
            given = float(value)
        params[f"p{len(params)}"] = given
        return f":p{len(params) - 1}", value
    if form == "sum" and name in ("x", "y") and value is not None:
        other = draw(NUMBERS)
        return f"{written(value - other)} + {written(other)}", value
    return written(value), value


@st.composite
def atoms(draw: st.DrawFn, params: dict[str, Any]) -> Made:
    name = draw(st.sampled_from(sorted(TYPES)))
    form = draw(st.sampled_from([*COMPARE, "BETWEEN", "IN", "IS", "LIKE"]))
    negated = draw(st.booleans())
    word = "NOT " if negated else ""

    def made(sql: str, truth: Callable[[Any], Truth]) -> Made:
        def of_row(row: dict[str, Any]) -> Truth:
            return truth(comparable(name, row[name]))

        return Made(sql, 3, (lambda row: neither(of_row(row))) if negated else of_row)

    def compared(op: str, constant: Any) -> Callable[[Any], Truth]:
        right = comparable(name, constant)
        return lambda value: None if value is None or right is None else COMPARE[op](value, right)

    if form == "IS":
        return made(f"{name} IS {word}NULL", lambda value: value is None)
    if form == "LIKE":
        pattern = draw(st.text(alphabet="ab", max_size=2)) + draw(st.sampled_from(["", "%"]))
        name = "name"

        def like(value: Any) -> Truth:
            if value is None:
                return None
            return bool(value.startswith(pattern[:-1]) if pattern.endswith("%") else value == pattern)

        return made(f"name {word}LIKE '{pattern}'", like)
    if form == "BETWEEN":
        (low, a), (high, b) = draw(terms(name, params)), draw(terms(name, params))
        truths = compared(">=", a), compared("<=", b)
        return made(f"{name} {word}BETWEEN {low} AND {high}", lambda v: both(truths[0](v), truths[1](v)))
    if form == "IN":
        listed = draw(st.lists(terms(name, params), min_size=1, max_size=3))
        equal = [compared("=", value) for _, value in listed]

        def among(value: Any) -> Truth:
            result: Truth = False
            for test in equal:
                result = either(result, test(value))
            return result

        return made(f"{name} {word}IN ({', '.join(text for text, _ in listed)})", among)
    negated = False
    text, value = draw(terms(name, params))
    turned = draw(st.booleans())
    return made(f"{text} {TURN[form]} {name}" if turned else f"{name} {form} {text}", compared(form, value))


@st.composite
def predicates(draw: st.DrawFn, params: dict[str, Any], depth: int) -> Made:
    form = draw(st.sampled_from(["atom", "AND", "OR", "NOT", "truth"] if depth else ["atom"]))
    if form == "atom":
        return draw(atoms(params))
    if form == "truth":
        value = draw(st.sampled_from([True, False, None]))
        return Made(written(value).upper(), 3, lambda row: value)
    if form == "NOT":
        inner = draw(predicates(params, depth - 1))
        return Made(f"NOT {inner.within(2)}", 2, lambda row: neither(inner.truth(row)))
    parts = draw(st.lists(predicates(params, depth - 1), min_size=2, max_size=3))
    binds, combine, start = (1, both, True) if form == "AND" else (0, either, False)

    def truth(row: dict[str, Any]) -> Truth:
        result: Truth = start
        for part in parts:
            result = combine(result, part.truth(row))
        return result

    return Made(f" {form} ".join(part.within(binds) for part in parts), binds, truth)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    params: dict[str, Any] = {}
    return draw(predicates(params, 3)), params, draw(st.lists(rows(), min_size=1, max_size=12))


def admits(form: tuple[dict[int, Extent], ...], values: dict[str, Any]) -> bool:
    codes = [None if values[c.name] is None else c.type.code(values[c.name]) for c in T.columns]
    return any(all(codes[at] in extent for at, extent in conj.items()) for conj in form)


@settings(max_examples=examples(150), deadline=None)
@given(cases())
def test_the_normal_form_is_the_predicate(case: Case) -> None:
    check_normal_form(*case)


@pytest.mark.slow
@settings(max_examples=examples(5_000), deadline=None)
@given(cases())
def test_the_normal_form_is_the_predicate_at_length(case: Case) -> None:
    check_normal_form(*case)


def check_normal_form(made: Made, params: dict[str, Any], sample: list[dict[str, Any]]) -> None:
    query = parse(FROM + made.sql)
    check_parameters(query, params)
    form = normal_form(query, T, params)
    for values in sample:
        assert admits(form, values) is (made.truth(values) is True), (made.sql, params, values)
    for conj in form:
        for one in conj.values():
            assert not one.is_empty()
            pairs = list(zip(one.intervals, one.intervals[1:], strict=False))
            assert all(a.high is not None and b.low is not None and a.high <= b.low for a, b in pairs)
