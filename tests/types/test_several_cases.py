"""Several aggregates and GROUP BY: columns of every type, HAVING, what is refused, and the rules of clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from prosem_client import LocalState

from prosem.language.parse import parse
from prosem.types.base import Bound, PackedForm, SpaceContext
from prosem.types.registry import TYPES, recognise
from prosem.values.columns import column_type
from prosem.values.errors import InputError, LanguageError
from prosem.values.model import JsonObject
from prosem.values.wire import decode, encode
from tests.support.folded import FoldedSpace, table_of

# -- types of columns ----------------------------------------------------------------------------------------------
KINDS = {
    "k": "integer", "g": "double precision", "b": "boolean", "n": "numeric(6,2)", "w": "numeric(30,4)",
    "d": "double precision", "s": "text", "day": "date", "at": "timestamptz", "raw": "bytea", "i": "bigint", "j": "jsonb",
}  # fmt: skip
TYPED = table_of(KINDS)


def typed_row(**cells: Any) -> tuple[Any, ...]:
    return tuple(
        None if cells.get(name) is None else column_type(kind).read(cells[name])
        for name, kind in KINDS.items()
    )


ROWS = {
    (number,): typed_row(k=number, **cells)
    for number, cells in enumerate([
        {"g": -0.0, "b": True, "n": "1.50", "w": "12345678901234567890.5", "d": 1e300, "s": "é", "i": 2**62},
        {"g": 0.0, "b": False, "n": "-2.25", "w": "-1", "d": -1e300, "s": "", "at": "2024-03-01T00:00:00.5Z", "i": 2**62},
        {"g": 5e-324, "n": None, "d": 5e-324, "raw": "AP8=", "day": "2023-01-01"},
        {"g": None, "b": True, "n": "0.00", "d": 0.1, "raw": "", "at": "2024-03-01T00:00:00Z"},
        {"g": None, "n": "0.01", "d": 0.2, "s": "z"},
    ])
}  # fmt: skip


def folded(
    sql: str, answer: Any, *, key: Sequence[str] = ("k",), params: Mapping[str, Any] | None = None
) -> FoldedSpace:
    space = FoldedSpace(parse(sql), TYPED, {}, lambda row, _: True, answer, key)
    space.subscribe(1, params or {})
    for row in ROWS:
        space.apply([(row, ROWS[row])])
    return space


def test_values_of_every_type_are_answered_as_alone() -> None:
    """Each aggregate beside others is the one that a subscription to it alone gives."""
    asked = [f"{function}({name})" for name in KINDS if name != "j" for function in ("MIN", "MAX", "COUNT")]
    asked += [f"{function}({name})" for name in ("n", "w", "d", "i") for function in ("SUM", "AVG")]
    alone = [recognise(parse(f"SELECT {text} FROM t"), [TYPED], None) for text in asked]

    def answer(rows: list[JsonObject], _: Mapping[str, Any]) -> JsonObject:
        stored = {(row["k"],): tuple(row.values()) for row in rows}
        found = {}
        for number, form in enumerate(alone):
            space = form.open_space(1, SpaceContext((stored,), lambda sid: Bound(b"", None), 8))
            found[f"c{number}"] = form.snapshot(space, stored, form.bind({}))["value"]
        return {"columns": found}

    columns = ", ".join(f"{text} AS c{number}" for number, text in enumerate(asked))
    space = folded(f"SELECT {columns} FROM t", answer)
    for row in ROWS:
        space.apply([(row, None)])


@pytest.mark.parametrize("name", [name for name in KINDS if name != "j"])
def test_groups_of_every_type(name: str) -> None:
    """Zeros with and without a sign are one group, and NULL is one."""

    def answer(rows: list[JsonObject], _: Mapping[str, Any]) -> JsonObject:
        counts: dict[Any, int] = {}
        for row in rows:
            counts[row[name]] = counts.get(row[name], 0) + 1
        return {
            "groups": [
                {name: 0.0 if value == 0.0 and name == "g" else value, "c": n} for value, n in counts.items()
            ]
        }

    space = folded(f"SELECT {name}, COUNT(*) AS c FROM t GROUP BY {name}", answer, key=[name])
    for row in ROWS:
        space.apply([(row, None)])


# -- HAVING --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("condition", "params", "expected"),
    [
        ("COUNT(*) > 1.5", {}, [0.0, None]),
        ("COUNT(*) >= :n / 2", {"n": 4}, [0.0, None]),
        ("SUM(n) = -0.75", {}, [0.0]),
        ("SUM(n) = :n", {"n": "-0.75"}, [0.0]),
        ("AVG(n) < 0.005000000000000001", {}, [0.0, None]),
        ("AVG(n) < 0.005", {}, [0.0]),
        ("AVG(i) = :n", {"n": 2**62}, [0.0]),
        ("SUM(i) = 9223372036854775808", {}, [0.0]),
        ("SUM(d) = 0", {}, [0.0]),
        ("SUM(d) = 0.30000000000000004", {}, [None]),
        ("AVG(d) >= 1e400", {}, []),
        ("MIN(d) <= :d", {"d": 0.1}, [0.0, 5e-324, None]),
        ("MIN(d) < :d", {"d": 0.1}, [0.0, 5e-324]),
        ("MAX(s) = :s", {"s": "é"}, [0.0]),
        ("MIN(day) < '2024-01-01'", {}, [5e-324]),
        ("MAX(at) >= :at", {"at": "2024-03-01T00:00:00.25Z"}, [0.0]),
        ("MIN(raw) = '\\x00ff'", {}, [5e-324]),
        ("MAX(w) BETWEEN 1 AND :w", {"w": "12345678901234567890.5"}, [0.0]),
        ("COUNT(n) <> 0 AND COUNT(*) > 0", {}, [0.0, None]),
        ("COUNT(*) > :n", {"n": None}, []),
        ("SUM(i) IS NULL", None, None),
    ],
)
def test_having(condition: str, params: dict[str, Any] | None, expected: list[Any] | None) -> None:
    sql = f"SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING {condition}"
    if params is None:
        with pytest.raises(LanguageError):
            parse(sql)
        return
    form = recognise(parse(sql), [TYPED], None)
    bound = form.bind(params)
    space = form.open_space(1, SpaceContext((ROWS,), lambda sid: bound, 8))
    found = [group["g"] for group in form.snapshot(space, ROWS, bound)["groups"]]
    assert sorted(found, key=str) == sorted(expected or [], key=str)
    assert isinstance(form, PackedForm)
    state = form.state(space, bound)
    assert form.unpack_state(form.pack_state(state)) == state


@pytest.mark.parametrize(
    ("sql", "params", "at", "says"),
    [
        ("SELECT g, COUNT(*) FROM t GROUP BY g HAVING COUNT(*) > :n", {"n": "q"}, "/params/n", "number"),
        ("SELECT g, COUNT(*) FROM t GROUP BY g HAVING MIN(s) > :n", {"n": 5}, "/params/n", "text"),
        (
            "SELECT g, COUNT(*) FROM t GROUP BY g HAVING MIN(day) > 'soon'",
            {},
            "/sql",
            "MIN in HAVING is of type date",
        ),
        (
            "SELECT g, COUNT(*) FROM t GROUP BY g HAVING SUM(s) > 1",
            {},
            "/sql",
            "SUM needs a column of numbers",
        ),
        ("SELECT g, SUM(s) FROM t GROUP BY g", {}, "/sql", "SUM needs a column of numbers, not s"),
        ("SELECT MIN(j), COUNT(*) FROM t", {}, "/sql", "MIN needs an ordered column, and j is jsonb"),
        (
            "SELECT j, COUNT(*) FROM t GROUP BY j",
            {},
            "/sql",
            "GROUP BY needs an ordered column, and j is jsonb",
        ),
        ("SELECT g, COUNT(*) FROM t GROUP BY nosuch", {}, "/sql", "nosuch"),
        ("SELECT MIN(nosuch), COUNT(*) FROM t", {}, "/sql", "nosuch"),
        ("SELECT MIN(n), COUNT(*) FROM t WHERE s LIKE 'a%'", {}, "/sql", "LIKE"),
    ],
)
def test_what_is_refused(sql: str, params: dict[str, Any], at: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        recognise(parse(sql), [TYPED], None).bind(params)
    assert refused.value.at == at


def test_labels() -> None:
    def label(sql: str) -> str:
        return recognise(parse(sql), [TYPED], None).label

    assert label("SELECT MIN(n) AS a, COUNT(*) FROM t WHERE i > 3") == label(
        "SELECT MIN(n), COUNT(*) AS b FROM t WHERE i < 2"
    )
    one = "SELECT g, COUNT(*) FROM t GROUP BY g HAVING SUM(n) > {}"
    assert label(one.format(1)) == label(one.format(2)) != label(one.replace(">", "<").format(1))
    assert label(one.format(1)).endswith("GROUP BY 'g' HAVING SUM('n') > ?")


def test_groups_with_aliases_and_moves_of_having() -> None:
    """A move of the constants of HAVING alone notifies groups that come and go."""
    sql = "SELECT COUNT(*) AS n, g AS name, b FROM t GROUP BY g, b HAVING COUNT(*) >= :n"

    def answer(rows: list[JsonObject], params: Mapping[str, Any]) -> JsonObject:
        counts: dict[Any, int] = {}
        for row in rows:
            counts[row["g"], row["b"]] = counts.get((row["g"], row["b"]), 0) + 1
        return {"groups": [{"n": n, "name": g, "b": b} for (g, b), n in counts.items() if n >= params["n"]]}

    space = FoldedSpace(parse(sql), TYPED, {}, lambda row, _: True, answer, ("name", "b"))
    space.subscribe(1, {"n": 1})
    for number in range(6):
        space.apply([((number,), typed_row(k=number, g=float(number % 2), b=number < 3))])
    space.move(1, {"n": 2})
    assert len(space.answers[1]["groups"]) == 2
    space.apply([((1,), None)])
    space.move(1, {"n": 1})
    assert len(space.answers[1]["groups"]) == 3


def test_averages_with_other_digits_are_the_same() -> None:
    several = recognise(parse("SELECT AVG(i), MIN(w), COUNT(*) FROM t"), [TYPED], None)
    one = {"columns": {"avg": "1.50000000", "min": "2.5000", "count": 3}}
    other = {"columns": {"avg": "1.5000000000000000", "min": "2.5000", "count": 3}}
    assert several.difference(one, other) is None
    assert several.difference(one, {"columns": {"avg": None, "min": "2.5000", "count": 3}}) is not None
    grouped = recognise(parse("SELECT n, AVG(i) FROM t GROUP BY n"), [TYPED], None)
    assert (
        grouped.difference(
            {"groups": [{"n": "1.00", "avg": "1.50"}]}, {"groups": [{"n": "1.00", "avg": "1.5"}]}
        )
        is None
    )


def test_the_rules_of_a_client() -> None:
    """Raw streams: what a client's SQLite makes of them is the answer that is folded."""
    form = recognise(parse("SELECT g, COUNT(*) AS n FROM t GROUP BY g"), [TYPED], None)
    local = LocalState(next(kind.describe()["rules"] for kind in TYPES if kind.name == "group-by"))
    local.apply(
        [decode(encode(form.opening(encode({"groups": [{"g": None, "n": 1}, {"g": 0.5, "n": 2}]}), None)))]
    )
    change = {"add": [{"g": 2.0, "n": 7}], "update": [{"g": 0.5, "n": 3}], "remove": [{"g": None}]}
    local.apply(decode(encode(form.raw([], form.bind({}), encode(change)))))
    assert local.result() == {"groups": [{"g": 0.5, "n": 3}, {"g": 2.0, "n": 7}]}
    several = recognise(parse("SELECT MIN(n), COUNT(*) FROM t"), [TYPED], None)
    local = LocalState(next(kind.describe()["rules"] for kind in TYPES if kind.name == "aggregates"))
    local.apply([decode(encode(several.opening(encode({"columns": {"min": None, "count": 0}}), None)))])
    assert local.result() == {"columns": {"min": None, "count": 0}}
    local.apply(
        decode(encode(several.raw([], several.bind({}), encode({"columns": {"min": "1.00", "count": 1}}))))
    )
    assert local.result() == {"columns": {"min": "1.00", "count": 1}}
