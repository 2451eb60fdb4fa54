"""Random subscriptions of every type on a table, a view or a join, each with the query that PostgreSQL is asked instead."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec

from prosem.values.wire import encode
from tests.support.live import Json
from tests.support.random_views import COMPARISONS, NUMBERS, ORDERED, Chance, Origin, Term

Values = Callable[[Origin, str], list[Any]]  # the present values of a column
Answer = (
    Any  # comes as a value that compares: two answers are equal if and only if PostgreSQL calls them equal
)


def compared(kind: str, value: Any) -> Any:
    """A value of PostgreSQL, or the JSON of one, so that values are equal if PostgreSQL's `=` is true."""
    if value is None:
        return None
    if kind in NUMBERS:
        return Fraction(value if not isinstance(value, str) else Decimal(value))
    return json.dumps(json_of(value), sort_keys=True)


def literal(kind: str, value: Any) -> str:
    if kind == "boolean":
        return str(value).upper()
    if kind in NUMBERS:
        return f"{value:f}" if isinstance(value, Decimal) else repr(value)
    return "'" + str(json_of(value)).replace("'", "''") + "'"


def json_of(value: Any) -> Any:
    """A value of PostgreSQL as it travels."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    return msgspec.json.decode(encode(value.astimezone(UTC) if isinstance(value, datetime) else value))


@dataclass
class Question:
    """`sql` with `:pN` for constants. `shape` names the kind of answer, `key` the columns that identify its rows."""

    sql: str
    shape: str
    key: tuple[str, ...] = ()
    notify: Json | None = None
    per: str = "event"
    constants: list[tuple[str, Any]] = field(default_factory=list)
    tables: tuple[tuple[str, int], ...] = ()  # of a select-join: the tables, and how many columns each has
    oracle: str = ""  # the query that PostgreSQL is asked, if it is another one

    @property
    def is_ordered(self) -> bool:
        return " ORDER BY " in self.sql

    def asked(self) -> str:
        """The query with its constants in the text, as PostgreSQL is asked."""
        return self._written(self.oracle or self.sql, range(len(self.constants)))

    def subscription(self, chance: Chance) -> Json:
        """The same as the body of a subscription, some constants being parameters."""
        written = {at for at in range(len(self.constants)) if chance.random() < 0.5}
        params = {
            f"p{at}": [json_of(one) for one in value] if isinstance(value, list) else json_of(value)
            for at, (_, value) in enumerate(self.constants)
            if at not in written
        }
        body: Json = {"sql": self._written(self.sql, written), "params": params, "per": self.per}
        return body if self.notify is None else body | {"notify": self.notify}

    def _written(self, text: str, written: Container[int]) -> str:
        def spelt(found: re.Match[str]) -> str:
            at = int(found[1])
            kind, value = self.constants[at]
            if at not in written:
                return found[0]
            if isinstance(value, list):
                return f"({', '.join(literal(kind, one) for one in value)})"
            return literal(kind, value)

        return re.sub(r":p(\d+)\b", spelt, text)

    # -- answers -------------------------------------------------------------------------------------------------
    def read(self, names: Sequence[str], kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> Answer:
        """The answer of PostgreSQL."""
        found = [tuple(compared(kind, value) for kind, value in zip(kinds, row, strict=True)) for row in rows]
        if self.shape == "value":
            return found[0][0] if found else None
        if self.shape == "columns":
            return found[0]
        if self.shape == "values":
            return frozenset(row[0] for row in found)
        if self.shape == "joined":
            return frozenset(found)
        if self.shape == "items":
            return {row[:-1]: row[-1] for row in found if row[-1] is not None}
        at = [names.index(name) for name in self.key]
        by_key = {tuple(row[position] for position in at): row for row in found}
        assert len(by_key) == len(found), self.sql
        return by_key


@dataclass(frozen=True)
class Reader:
    """Reads what the server returns for a question. `names` and `kinds` are those of PostgreSQL's columns."""

    question: Question
    names: tuple[str, ...]
    kinds: tuple[str, ...]

    def answer(self, result: Json) -> Answer:
        shape = self.question.shape
        if shape == "value":
            return compared(self.kinds[0], result["value"])
        if shape == "columns":
            assert tuple(result["columns"]) == self.names
            return self._row(result["columns"])
        if shape == "values":
            return frozenset(compared(self.kinds[0], value) for value in result["values"])
        if shape == "joined":
            return frozenset(map(self._joined, result["rows"]))
        if shape == "items":
            values = {
                self._key(item["key"]): compared(self.kinds[-1], item["value"]) for item in result["items"]
            }
            return {key: value for key, value in values.items() if value is not None}
        return {self._key(row): self._row(row) for row in result[shape]}

    def folded(self, answer: Answer, change: Json) -> Answer:
        """The answer after a change."""
        shape = self.question.shape
        if shape in ("value", "columns"):
            if "previous" in change:
                assert compared(self.kinds[0], change["previous"]) == answer, (change, answer)
            return self.answer(change)
        if shape == "items":
            return self._folded_items(answer, change.get("items", [change]))
        if shape in ("values", "joined"):
            name = "rows" if shape == "joined" else "values"
            added, removed = (self.answer({name: change[way]}) for way in ("add", "remove"))
            assert removed <= answer, change
            assert not added & answer, change
            return (answer - removed) | added
        after = dict(answer)
        for row in change["remove"]:
            assert set(row) == set(self.question.key), row
            del after[self._key(row)]
        for row in change["update"]:
            assert after[self._key(row)] != self._row(row), change
            after[self._key(row)] = self._row(row)
        for row in change["add"]:
            assert self._key(row) not in after, change
            after[self._key(row)] = self._row(row)
        return after

    def _folded_items(self, answer: Answer, items: Sequence[Json]) -> Answer:
        after = dict(answer)
        for item in items:
            key, value = self._key(item["key"]), compared(self.kinds[-1], item["value"])
            assert after.pop(key, None) == compared(self.kinds[-1], item["previous"]), (item, answer)
            if value is not None:
                after[key] = value
        return after

    def _row(self, row: Json) -> Answer:
        assert set(row) == set(self.names), (row, self.names)
        return tuple(compared(kind, row[name]) for name, kind in zip(self.names, self.kinds, strict=True))

    def _key(self, row: Json) -> Answer:
        return tuple(compared(self.kinds[self.names.index(name)], row[name]) for name in self.question.key)

    def _joined(self, row: Json) -> Answer:
        cells: list[Any] = []
        for table, width in self.question.tables:
            assert len(row[table]) == width
            cells += [row[table][name] for name in self.names[len(cells) : len(cells) + width]]
        return tuple(map(compared, self.kinds, cells))


class Questions:
    """Draws subscriptions of each type. `values` gives values that the ranges and lists are made of."""

    def __init__(self, chance: Chance, values: Values) -> None:
        self._chance, self._values = chance, values
        self._constants: list[tuple[str, Any]] = []
        self._origin: Origin

    def draw(self, kind: str, origin: Origin) -> Question | None:
        """A subscription of a type; None if the columns do not allow one."""
        self._origin, self._constants = origin, []
        maker: Callable[[], Question | None] = getattr(self, "_" + kind.replace("-", "_"))
        made = maker()
        if made is not None:
            made.constants = self._constants
            made.per = self._chance.choice(["event", "event", "transaction"])
        return made

    # -- parts ---------------------------------------------------------------------------------------------------
    def _columns(self, is_fitting: Callable[[Term], bool]) -> list[str]:
        return [name for name, term in self._origin.columns.items() if is_fitting(term)]

    def _sql(self, name: str) -> str:
        return self._origin.columns[name].sql

    def _named(self, name: str) -> str:
        """A selected column, under the name that it has in answers."""
        return f"{self._sql(name)} AS {name}" if self._origin.is_join else name

    def _constant(self, name: str) -> str:
        kind = self._origin.columns[name].kind
        return self._given(kind, self._chance.choice(self._values(self._origin, name)))

    def _given(self, kind: str, value: Any) -> str:
        self._constants.append((kind, value))
        return f":p{len(self._constants) - 1}"

    def _range(self, name: str) -> str:
        column, chance = self._sql(name), self._chance
        form = chance.choice(["between", "pair", "one"])
        if form == "between":
            return f"{column} BETWEEN {self._constant(name)} AND {self._constant(name)}"
        low, high = (f"{column} {chance.choice([sign, sign + '='])} " for sign in "><")
        if form == "pair":
            return f"{low}{self._constant(name)} AND {high}{self._constant(name)}"
        return chance.choice([low, high]) + self._constant(name)

    def _equal(self, name: str, lists: bool = True) -> str:
        if not lists or self._chance.random() < 0.5:
            return f"{self._sql(name)} = {self._constant(name)}"
        kind = self._origin.columns[name].kind
        values = [
            self._chance.choice(self._values(self._origin, name)) for _ in range(self._chance.randint(1, 3))
        ]
        return f"{self._sql(name)} IN {self._given(kind, values)}"

    def _where(self, ranges: int, lists: bool = True) -> str:
        """Up to so many ranges, and equality on other columns, or IN."""
        chance = self._chance
        ordered = self._columns(lambda term: term.kind in ORDERED)
        ranged = chance.sample(ordered, min(len(ordered), chance.randint(0, ranges)))
        rest = [
            name
            for name in self._columns(lambda term: term.kind in (*ORDERED, "boolean"))
            if name not in ranged
        ]
        parts = [self._range(name) for name in ranged]
        if rest and chance.random() < 0.35:
            parts.append(self._equal(chance.choice(rest), lists))
        return f" FROM {self._origin.text}" + (f" WHERE {' AND '.join(parts)}" if parts else "")

    def _aggregate(self, functions: Sequence[str] = ("MIN", "MAX", "COUNT", "SUM", "AVG")) -> str | None:
        function = self._chance.choice(functions)
        if function == "COUNT" and self._chance.random() < 0.4:
            return "COUNT(*)"
        fits = {"COUNT": lambda term: True, "MIN": _is_ordered, "MAX": _is_ordered}.get(function, _is_summed)
        names = self._columns(fits)
        return f"{function}({self._sql(self._chance.choice(names))})" if names else None

    def _one(self, function: str) -> Question | None:
        made = self._aggregate([function])
        return None if made is None else Question(f"SELECT {made}{self._where(2)}", "value")

    # -- the types, by name --------------------------------------------------------------------------------------
    def _range_min(self) -> Question | None:
        return self._one("MIN")

    def _range_max(self) -> Question | None:
        return self._one("MAX")

    def _range_count(self) -> Question | None:
        return self._one("COUNT")

    def _range_sum(self) -> Question | None:
        return self._one("SUM")

    def _range_avg(self) -> Question | None:
        return self._one("AVG")

    def _aggregates(self) -> Question | None:
        some = [one for one in (self._aggregate() for _ in range(self._chance.randint(2, 4))) if one]
        if len(some) < 2:
            return None
        named = ", ".join(f"{text} AS r{at}" for at, text in enumerate(some))
        return Question(f"SELECT {named}{self._where(2)}", "columns")

    def _group_by(self) -> Question | None:
        chance = self._chance
        groupable = self._columns(lambda term: term.kind in (*ORDERED, "boolean"))
        by = chance.sample(groupable, min(len(groupable), chance.choice([1, 1, 2])))
        some = [one for one in (self._aggregate() for _ in range(chance.randint(1, 3))) if one]
        if not by or not some:
            return None
        selected = [*map(self._named, by), *(f"{text} AS r{at}" for at, text in enumerate(some))]
        text = f"SELECT {', '.join(selected)}{self._where(1)} GROUP BY {', '.join(map(self._sql, by))}"
        if chance.random() < 0.5:
            one = self._aggregate(["COUNT", "SUM", "AVG"]) or "COUNT(*)"
            text += (
                f" HAVING {one} {chance.choice(COMPARISONS)} {self._given('integer', chance.randint(-1, 4))}"
            )
        return Question(text, "groups", tuple(by))

    def _distinct(self) -> Question | None:
        names = self._columns(lambda term: term.kind in (*ORDERED, "boolean"))
        if not names:
            return None
        name = self._chance.choice(names)
        return Question(f"SELECT DISTINCT {self._named(name)}{self._where(1, lists=False)}", "values")

    def _top_k(self) -> Question | None:
        chance, key = self._chance, self._origin.key
        ordered = self._columns(_is_ordered)
        if not ordered:
            return None
        by = chance.choice(ordered)
        rest = [name for name in self._origin.columns if name not in (*key, by)]
        columns = [*key, *([] if by in key else [by]), *chance.sample(rest, min(len(rest), 2))]
        chance.shuffle(columns)
        order = (
            self._sql(by)
            + chance.choice(["", " ASC", " DESC"])
            + chance.choice(["", "", " NULLS FIRST", " NULLS LAST"])
        )
        text = f"SELECT {', '.join(map(self._named, columns))}{self._where(1)} ORDER BY {order}"
        limit = chance.randint(1, 6)
        ties = "".join(f", {self._sql(name)}" for name in key)
        return Question(f"{text} LIMIT {limit}", "rows", tuple(key), oracle=f"{text}{ties} LIMIT {limit}")

    def _filter(self) -> Question | None:
        chance, key = self._chance, self._origin.key
        either = [
            " AND ".join(self._atom() for _ in range(chance.randint(1, 3)))
            for _ in range(chance.choice([1, 1, 2]))
        ]
        where = " OR ".join(f"({one})" for one in either)
        columns = [*key, *chance.sample([name for name in self._origin.columns if name not in key],
                                        min(2, len(self._origin.columns) - len(key)))]  # fmt: skip
        chance.shuffle(columns)
        selected = ", ".join(map(self._named, columns))
        if not self._origin.is_join and chance.random() < 0.4:
            selected = "*"
        return Question(f"SELECT {selected} FROM {self._origin.text} WHERE {where}", "rows", tuple(key))

    def _atom(self) -> str:
        chance = self._chance
        name = chance.choice(self._columns(lambda term: term.kind in (*ORDERED, "boolean")))
        term = self._origin.columns[name]
        kind = chance.choice(["compare", "range", "in", "null", "like"])
        if kind == "range" and term.kind != "boolean":
            return self._range(name)
        if kind == "in":
            return self._equal(name)
        if kind == "null":
            return f"{term.sql} IS {chance.choice(['', 'NOT '])}NULL"
        if kind == "like" and term.kind == "text":
            return f"{term.sql} LIKE '{chance.choice(['a%', 'ab%', '%', 'B%'])}'"
        return f"{term.sql} {chance.choice(COMPARISONS)} {self._constant(name)}"

    def _value(self) -> Question | None:
        chance, origin = self._chance, self._origin
        rest = [name for name in origin.columns if name not in origin.key]
        if origin.is_join or not rest:
            return None
        name = chance.choice(rest)
        notify = self._radius(origin.columns[name].kind) if chance.random() < 0.6 else None
        if chance.random() < 0.5:
            where = " AND ".join(f"{key} = {self._constant(key)}" for key in origin.key)
            return Question(f"SELECT {name} FROM {origin.text} WHERE {where}", "value", notify=notify)
        oracle = f"SELECT {', '.join(origin.key)}, {name} FROM {origin.text}"
        return Question(
            f"SELECT {name} FROM {origin.text}", "items", tuple(origin.key), notify, oracle=oracle
        )

    def _radius(self, kind: str) -> Json | None:
        chance = self._chance
        if kind == "date":
            return {"change": "P2D"}
        if kind == "double precision":
            return chance.choice([{"change": 0.5}, {"change": 2}, {"percent": 50}, {"may": 0.5, "must": 2}])
        if kind in NUMBERS:
            return chance.choice([{"change": 1}, {"change": 3}, {"may": 1, "must": 3}])
        return None

    def _notified_aggregate(self) -> Question | None:
        chance = self._chance
        function = chance.choice(["MIN", "MAX", "COUNT", "SUM", "AVG"])
        fits = (lambda term: True) if function == "COUNT" else _is_summed
        names = self._columns(fits)
        if not names:
            return None
        choices: list[Json] = [{"change": 1}, {"change": 2.5}, {"percent": 30}]
        notify = chance.choice([*choices, {"factor": 1.5}] if function == "COUNT" else choices)
        text = f"SELECT {function}({self._sql(chance.choice(names))}){self._where(1)}"
        return Question(text, "value", notify=notify)

    def join(self, one: Origin, other: Origin) -> Question | None:
        """A select-join of two tables or views."""
        self._constants = []
        if one.text == other.text or "j" not in one.columns or "j" not in other.columns:
            return None
        if one.columns["j"].kind != other.columns["j"].kind:
            return None
        parts = []
        for origin in (one, other):
            ordered = [name for name, term in origin.columns.items() if _is_ordered(term)]
            if self._chance.random() < 0.7:
                name = self._chance.choice(ordered)
                self._origin = Origin(
                    origin.text,
                    {name: Term(f"{origin.text}.{name}", origin.columns[name].kind)},
                    (),
                )
                parts.append(self._range(name))
        where = f" WHERE {' AND '.join(parts)}" if parts else ""
        text = f"FROM {one.text} JOIN {other.text} USING (j){where}"
        tables = tuple((origin.text, len(origin.columns)) for origin in (one, other))
        made = Question(f"SELECT * {text}", "joined", constants=self._constants, tables=tables)
        made.oracle = f"SELECT {one.text}.*, {other.text}.* {text}"
        made.per = self._chance.choice(["event", "transaction"])
        return made


def _is_ordered(term: Term) -> bool:
    return term.kind in ORDERED


def _is_summed(term: Term) -> bool:
    return term.is_summed
