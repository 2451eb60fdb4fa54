"""The names of a view's FROM: its sources, how they are joined, and which column a name means.

Columns merged by USING are one, as in PostgreSQL: the bare name means the leftmost of them, which is NULL only where all
are, and its type is the common one. A later USING joins with that column. A name that stands for several columns is
ambiguous, unless it is qualified.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from prosem.language.positions import located
from prosem.language.syntax import ColumnName, Source
from prosem.language.view_syntax import Call, Case, Cast, ColumnRef, Expression, Literal, Operation, ViewQuery
from prosem.values.columns import ColumnType
from prosem.values.model import Column, Table
from prosem.views.expressions import Field
from prosem.views.joined import Place

_EXACT_NUMBERS = ("integer", "bigint", "numeric")  # in this order the later one is the common type
_LISTED = 20  # names that a message lists


@dataclass(frozen=True, slots=True)
class JoinColumns:
    """How a source is joined with those before it: the i-th of `left` equals the i-th of `right`."""

    is_left: bool
    left: tuple[Place, ...]
    right: tuple[int, ...]


class Scope:
    """Sources by number, in the order of FROM. LanguageError where FROM cannot be served."""

    def __init__(self, query: ViewQuery, tables: Mapping[str, Table]) -> None:
        self._sql = query.sql
        self.sources: list[tuple[str, Table]] = []  # alias, table
        self.joins: list[JoinColumns] = []
        self.read: set[Place] = set()  # the columns that were named
        self._outer: list[bool] = []  # by source: whether a LEFT JOIN may leave it without a row
        self._visible: dict[str, list[list[Place]]] = {}  # bare name → its columns, merged ones as one
        for source in query.sources:
            self._add(source, self._table(source.table, tables))

    # -- names ----------------------------------------------------------------------------------------------------
    def field(self, name: ColumnName) -> Field:
        """The column that a name means."""
        source, position = self.place(name)
        column = self._column((source, position))
        return Field(source, position, column.type, column.nullable or self._outer[source])

    def place(self, name: ColumnName) -> Place:
        return self._find(name)[0]

    def merged(self, place: Place) -> Sequence[Place]:
        """The columns that USING merges with this one, itself among them, the leftmost first."""
        for columns in self._visible.get(self._column(place).name, ()):
            if place in columns:
                return columns
        raise AssertionError("every column of a source is visible")

    def is_outer(self, source: int) -> bool:
        """Whether a LEFT JOIN may leave the source without a row."""
        return self._outer[source]

    def typed(self, expression: Expression) -> Expression:
        """The expression with every merged column of several types cast to their common type."""
        if isinstance(expression, ColumnRef):
            return self._typed_column(expression)
        if isinstance(expression, Literal):
            return expression
        if isinstance(expression, Cast):
            return replace(expression, expression=self.typed(expression.expression))
        if isinstance(expression, Operation | Call):
            return replace(expression, args=tuple(map(self.typed, expression.args)))
        return self._typed_case(expression)

    def _typed_case(self, case: Case) -> Case:
        typed = self.typed
        return replace(
            case,
            whens=tuple((typed(condition), typed(result)) for condition, result in case.whens),
            default=None if case.default is None else typed(case.default),
            operand=None if case.operand is None else typed(case.operand),
        )

    def _typed_column(self, expression: ColumnRef) -> Expression:
        columns = self._find(expression.name)
        common = _common([self._column(place).type for place in columns])
        if common is None:
            return expression
        source, position = columns[0]
        name = ColumnName(
            self._column((source, position)).name, self.sources[source][0], expression.name.start
        )
        return Cast(replace(expression, name=name), common, expression.place)

    def _find(self, name: ColumnName) -> Sequence[Place]:
        """The columns that a name stands for: one, or for a bare name those that USING merges."""
        found = self._named(name)
        self.read.update(found)
        return found

    def _named(self, name: ColumnName) -> Sequence[Place]:
        if name.table is not None:
            return (self._qualified(name, name.table),)
        found = self._visible.get(name.name, [])
        if not found:
            held = ", ".join(alias for alias, _ in self.sources)
            self._refuse(name, f"there is no column {name.name} in {held}")
        if len(found) > 1:
            choices = ", ".join(f"{self.sources[source][0]}.{name.name}" for (source, _), *_ in found)
            self._refuse(name, f"the column {name.name} is ambiguous; write one of {choices}")
        return found[0]

    def _qualified(self, name: ColumnName, alias: str) -> Place:
        for number, (known, table) in enumerate(self.sources):
            if known == alias:
                position = table.position.get(name.name)
                if position is None:
                    columns = _listed("its columns are", table.names)
                    self._refuse(name, f"{alias} has no column {name.name}{columns}")
                return number, position
        known_ones = ", ".join(alias for alias, _ in self.sources)
        self._refuse(name, f"{alias} of {alias}.{name.name} does not stand in FROM, which has {known_ones}")

    def _column(self, place: Place) -> Column:
        return self.sources[place[0]][1].columns[place[1]]

    # -- FROM -----------------------------------------------------------------------------------------------------
    def _table(self, name: str, tables: Mapping[str, Table]) -> Table:
        table = tables.get(name)
        if table is None:
            listed = _listed("the tables and views are", sorted(tables))
            raise self._in_from(name, f"there is no table or view {name}{listed}")
        return table

    def _add(self, source: Source, table: Table) -> None:
        if any(alias == source.alias for alias, _ in self.sources):
            detail = f"{source.alias} stands twice in FROM; a table that is joined with itself needs aliases"
            raise self._in_from(source.alias, detail)
        number = len(self.sources)
        if number:
            is_left = source.join == "left"
            self.sources.append((source.alias, table))
            self._outer.append(is_left)
            if source.using:
                self._join_using(source.using, number, is_left)
            self._stand(number, table, source.using)
            if not source.using:
                self._join_on(source.on, number, is_left)
        else:
            self.sources.append((source.alias, table))
            self._outer.append(False)
            self._stand(number, table, ())

    def _stand(self, number: int, table: Table, merged: Sequence[str]) -> None:
        for name, at in table.position.items():
            if name not in merged:
                self._visible.setdefault(name, []).append([(number, at)])

    def _join_using(self, names: Sequence[str], number: int, is_left: bool) -> None:
        left: list[Place] = []
        right: list[int] = []
        alias, table = self.sources[number]
        for name in names:
            columns = self._visible.get(name, [])
            before = ", ".join(known for known, _ in self.sources[:number])
            if not columns:
                raise self._in_using(name, f"USING ({name}): there is no column {name} in {before}")
            if name not in table.position:
                raise self._in_using(name, f"USING ({name}): there is no column {name} in {alias}")
            if len(columns) > 1:
                holders = ", ".join(self.sources[one[0][0]][0] for one in columns)
                detail = (
                    f"USING ({name}) is ambiguous: {holders} have a column {name} each; join them by USING it too, "
                    "or join by ON with the alias before the column"
                )
                raise self._in_using(name, detail)
            own = (number, table.position[name])
            wrong = self._mismatch(columns[0][0], own)
            if wrong:
                raise self._in_using(name, wrong)
            left.append(columns[0][0])
            right.append(own[1])
            columns[0].append(own)
            self.read.update(columns[0])
        self.joins.append(JoinColumns(is_left, tuple(left), tuple(right)))

    def _join_on(self, pairs: Sequence[tuple[ColumnName, ColumnName]], number: int, is_left: bool) -> None:
        left: list[Place] = []
        right: list[int] = []
        alias = self.sources[number][0]
        for names in pairs:
            one, other = map(self.place, names)
            if (one[0] == number) == (other[0] == number):
                detail = f"ON compares a column of {alias} with a column of a table before it"
                self._refuse(names[0], f"{detail}; other conditions belong into WHERE")
            wrong = self._mismatch(one, other)
            if wrong:
                self._refuse(names[0], wrong)
            place, own = (other, one) if one[0] == number else (one, other)
            left.append(place)
            right.append(own[1])
        self.joins.append(JoinColumns(is_left, tuple(left), tuple(right)))

    def _mismatch(self, one: Place, other: Place) -> str:
        """Why two columns cannot be compared; empty if they can."""
        kinds = [self._column(place).type for place in (one, other)]
        shown = [f"{self.sources[place[0]][0]}.{self._column(place).name}" for place in (one, other)]
        for kind, name in zip(kinds, shown, strict=True):
            if not kind.ordered:
                return f"the {kind.name} column {name} cannot be compared; join by another"
        plain = {_plain(kind) for kind in kinds}
        if len(plain) == 1 or plain <= set(_EXACT_NUMBERS):
            return ""
        which = ", ".join(f"{name} is {kind.name}" for name, kind in zip(shown, kinds, strict=True))
        return (
            f"columns of different types are joined: {which}; they must be of one type, "
            "or be integer, bigint or numeric"
        )

    # -- errors ---------------------------------------------------------------------------------------------------
    def _refuse(self, name: ColumnName, detail: str) -> NoReturn:
        written = (
            None if name.start is None else re.compile(r'"(?:[^"]|"")*"|\w+').match(self._sql, name.start)
        )
        raise located(detail, self._sql, name.start, written.end() if written else None)

    def _in_from(self, name: str, detail: str) -> Exception:
        return self._at(rf"(?i)\b(?:from|join)\b\s*\(*\s*(\"?{_quoted(name)})", detail)

    def _in_using(self, name: str, detail: str) -> Exception:
        return self._at(rf'(?i)\busing\b\s*\([^)]*?("?\b{_quoted(name)}\b"?)', detail)

    def _at(self, pattern: str, detail: str) -> Exception:
        found = re.search(pattern, self._sql)
        start, end = found.span(1) if found else (None, None)
        return located(detail, self._sql, start, end)


def _plain(kind: ColumnType) -> str:
    return kind.name.partition("(")[0]


def _common(kinds: Sequence[ColumnType]) -> str | None:
    """The common type of columns that are merged; None if they are of one."""
    if len({kind.name for kind in kinds}) == 1:
        return None
    return max(map(_plain, kinds), key=_EXACT_NUMBERS.index)


def _quoted(name: str) -> str:
    return re.escape(name.replace('"', '""'))


def _listed(words: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"; {words} {', '.join(name[:63] for name in names[:_LISTED])}{more}"
