"""The primary key of a view: which of its columns identify its rows.

Without GROUP BY these are the key columns of all sources in order, each of which must be selected as it is. Of columns
merged by USING one suffices where it has the value of all of them: the leftmost, or one of an inner join. A source without
a partner in a LEFT JOIN needs no column of its own for that: the row of the left side has either no partner or some.
"""

from __future__ import annotations

from collections.abc import Sequence

from prosem.language.positions import located
from prosem.language.syntax import ColumnName
from prosem.language.view_syntax import AggregateCall, ColumnRef, ViewQuery
from prosem.values.errors import LanguageError
from prosem.views.joined import Place
from prosem.views.scope import Scope


def key_of_sources(query: ViewQuery, scope: Scope) -> tuple[str, ...]:
    """The names of the columns that are the key of a view without GROUP BY; LanguageError names a missing one."""
    selected: dict[Place, str] = {}
    for item in query.items:
        if isinstance(item.expression, ColumnRef):
            selected.setdefault(scope.place(item.expression.name), item.name)
    key: list[str] = []
    for number, (alias, table) in enumerate(scope.sources):
        for name in table.primary_key:
            own = (number, table.position[name])
            names = [selected[place] for place in _sufficient(scope, own) if place in selected]
            if not names:
                raise LanguageError(
                    f"the key column {alias}.{name} is not selected; a view selects the key columns of all its "
                    f"tables, as they are: {_keys(scope)}"
                )
            if not any(one in key for one in names):
                key.append(names[0])
    return tuple(key)


def _sufficient(scope: Scope, own: Place) -> Sequence[Place]:
    """The columns that stand for a column of a key, the best first."""
    columns = scope.merged(own)
    same = [place for place in columns if place == columns[0] or not scope.is_outer(place[0])]
    return list(dict.fromkeys((own, *same)))


def _keys(scope: Scope) -> str:
    return ", ".join(f"{alias}.{name}" for alias, table in scope.sources for name in table.primary_key)


def key_of_groups(query: ViewQuery, scope: Scope) -> tuple[dict[Place, ColumnName], tuple[str, ...]]:
    """The grouping columns, each once, and the names that they are selected by."""
    by: dict[Place, ColumnName] = {}
    for name in query.by:
        by.setdefault(scope.place(name), name)
        kind = scope.field(name).type
        if not kind.ordered:
            detail = f"{name.name} is of the type {kind.name}, which cannot be grouped by"
            raise located(detail, query.sql, name.start)
    selected: dict[Place, str] = {}
    for item in query.items:
        if isinstance(item.expression, AggregateCall):
            continue
        if not isinstance(item.expression, ColumnRef) or scope.place(item.expression.name) not in by:
            detail = f"{item.name} must be a column of GROUP BY, or an aggregate"
            raise located(detail, query.sql, *item.expression.place)
        selected.setdefault(scope.place(item.expression.name), item.name)
    for place, name in by.items():
        if place not in selected:
            detail = f"the grouping column {name.name} must be selected: it is a part of the view's key"
            raise located(detail, query.sql, name.start)
    return by, tuple(selected[place] for place in by)
