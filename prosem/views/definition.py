"""A view's SELECT against the tables of its tenant: what its columns and its key are, and how its rows are made.

A definition is a value: any number of operators can be opened over it, each with its own rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from prosem.language.positions import located
from prosem.language.view_syntax import AggregateCall, ColumnRef, Expression, HavingCondition, ViewQuery
from prosem.values.columns import ColumnType
from prosem.values.model import Column, Table, View
from prosem.views.aggregate_types import compile_aggregate, compile_having
from prosem.views.aggregates import Aggregate
from prosem.views.expressions import Compiled, CompiledRow, compile_condition, compile_row
from prosem.views.grouping import Grouping, Groups, Having
from prosem.views.join import Join
from prosem.views.joined import Place, row_key, rows_key
from prosem.views.keys import key_of_groups, key_of_sources
from prosem.views.operator import Output, RowsOf, ViewOperator
from prosem.views.projection import Projection
from prosem.views.row_error import RowErrors
from prosem.views.scope import JoinColumns, Scope
from prosem.views.sides import KeyIndex, Side, side_of

Columns = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """`rows` is the select list of a view without GROUP BY, or what is grouped and how."""

    view: View
    sources: tuple[tuple[str, Table], ...]  # alias and table
    joins: tuple[JoinColumns, ...]
    where: Compiled | None
    rows: CompiledRow | Grouping
    reads: frozenset[Place] = frozenset()  # the columns of its sources that it is made of

    def open(self, rows_of: RowsOf) -> ViewOperator:
        """An operator over the live rows of the view's tables, without contents until it is built."""
        tables = [table for _, table in self.sources]
        joins = [self._join(number, columns) for number, columns in enumerate(self.joins, 1)]
        return ViewOperator(tables, joins, self._output(), rows_of)

    def _join(self, number: int, columns: JoinColumns) -> Join:
        return Join(
            columns.is_left,
            rows_key(columns.left),
            row_key(columns.right),
            self._left_side(number, columns),
            side_of(
                self.sources[number][1],
                columns.right,
                [self._column(place) for place in columns.left],
                wrap=False,
            ),
        )

    def _left_side(self, number: int, columns: JoinColumns) -> Side:
        if number > 1:
            return KeyIndex()
        positions = [position for _, position in columns.left]
        others = [self._column((number, at)) for at in columns.right]
        return side_of(self.sources[0][1], positions, others, wrap=True)

    def _column(self, place: Place) -> Column:
        source, at = place
        return self.sources[source][1].columns[at]

    def _output(self) -> Output:
        errors = RowErrors(self.view.name, self.sources)
        where = None if self.where is None else self.where.evaluate
        if isinstance(self.rows, Grouping):
            return Groups(self.view, errors, where, self.rows)
        return Projection(self.view, errors, where, self.rows.evaluate)


def define(query: ViewQuery, tables: Mapping[str, Table], id: int, name: str, tenant: str) -> ViewDefinition:
    """The view of this SELECT; `tables` are the tables and views of the tenant by name.

    LanguageError names what cannot be served.
    """
    scope = Scope(query, tables)
    where = query.where
    condition = None if where is None else compile_condition(scope.typed(where), scope.field, query.sql)
    rows: CompiledRow | Grouping
    if query.by:
        columns, key, rows = _grouped(query, scope)
    else:
        columns, key, rows = _plain(query, scope)
    inputs = tuple(dict.fromkeys(table for _, table in scope.sources))
    view = View(id, name, columns, key, tenant, None, query.sql, inputs)
    reads = frozenset(scope.read)
    return ViewDefinition(view, tuple(scope.sources), tuple(scope.joins), condition, rows, reads)


def _plain(query: ViewQuery, scope: Scope) -> tuple[Columns, tuple[str, ...], CompiledRow]:
    """Columns, key and select list without GROUP BY."""
    expressions: list[Expression] = []
    for item in query.items:
        if isinstance(item.expression, AggregateCall):
            detail = f"{item.expression.function.upper()} without GROUP BY is not supported in a view"
            raise located(detail, query.sql, *item.expression.place)
        expressions.append(scope.typed(item.expression))
    row = compile_row(expressions, scope.field, query.sql)
    names = [item.name for item in query.items]
    return tuple(map(Column, names, row.types, row.nullable)), key_of_sources(query, scope), row


def _grouped(query: ViewQuery, scope: Scope) -> tuple[Columns, tuple[str, ...], Grouping]:
    """Columns, key and groups with GROUP BY."""
    by, key = key_of_groups(query, scope)
    values = [scope.typed(ColumnRef(name)) for name in by.values()]
    calls = _Calls(query, scope, values)
    items: list[int] = []
    for item in query.items:
        if isinstance(item.expression, AggregateCall):
            items.append(len(by) + calls.number(item.expression))
        elif isinstance(item.expression, ColumnRef):
            items.append(list(by).index(scope.place(item.expression.name)))
    having = tuple(
        Having(
            calls.number(one.aggregate),
            compile_having(calls.typed_having(one), scope.field, query.sql).is_true,
        )
        for one in query.having
    )
    row = compile_row(values, scope.field, query.sql)
    types = [*zip(row.types, row.nullable, strict=True)][: len(by)] + calls.types
    columns = tuple(Column(item.name, *types[at]) for item, at in zip(query.items, items, strict=True))
    return columns, key, Grouping(row.evaluate, len(by), tuple(calls.aggregates), tuple(items), having)


class _Calls:
    """The aggregates of a view, each once; their arguments become further values of a joined row."""

    def __init__(self, query: ViewQuery, scope: Scope, values: list[Expression]) -> None:
        self._sql, self._scope, self._values = query.sql, scope, values
        self._numbers: dict[AggregateCall, int] = {}
        self.aggregates: list[Aggregate] = []
        self.types: list[tuple[ColumnType, bool]] = []

    def number(self, call: AggregateCall) -> int:
        typed = self._typed(call)
        if typed not in self._numbers:
            self._numbers[typed] = len(self.aggregates)
            compiled = compile_aggregate(typed, self._scope.field, self._sql)
            self.types.append((compiled.type, compiled.nullable))
            self.aggregates.append(self._aggregate(typed, compiled.argument))
        return self._numbers[typed]

    def typed_having(self, condition: HavingCondition) -> HavingCondition:
        return replace(condition, aggregate=self._typed(condition.aggregate))

    def _aggregate(self, call: AggregateCall, argument: Compiled | None) -> Aggregate:
        if call.argument is None or argument is None:
            return Aggregate(call.function)
        if call.argument not in self._values:
            self._values.append(call.argument)
        return Aggregate(call.function, self._values.index(call.argument), argument.type, argument.nullable)

    def _typed(self, call: AggregateCall) -> AggregateCall:
        argument = None if call.argument is None else self._scope.typed(call.argument)
        return replace(call, argument=argument)
