"""What a query would become as a subscription: type, group, plans, and the place it is reformulated into."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cn.model.geometry import BOTTOM, INT64_MAX, INT64_MIN, TOP, Extent
from prosem.engine.state import EngineState
from prosem.language import resolve
from prosem.language.syntax import Query
from prosem.types.base import Bound, Form, SpaceContext
from prosem.types.filter.form import FilterForm
from prosem.types.join.form import JoinForm
from prosem.types.registry import TYPES
from prosem.types.shared.ranges import RangeForm
from prosem.types.value.form import ValueForm
from prosem.types.value.measure import value_of
from prosem.values.access import NO_PREDICATES, Predicates
from prosem.values.columns import ColumnType
from prosem.values.model import DEFAULT_TENANT, JsonObject, Table
from prosem.values.wire import decode

_MOST_VALUES = 8  # of an IN that are shown


def describe(
    state: EngineState,
    query: Query,
    notify: JsonObject | None,
    params: Mapping[str, Any],
    tenant: str = DEFAULT_TENANT,
    predicates: Predicates = NO_PREDICATES,
) -> JsonObject:
    """The description; parameters that are missing leave the place out. The space is opened over no rows: O(1)."""
    form, _, constants = state.subscribing.recognise(query, notify, tenant, predicates)
    resolve.check_parameters(query, {**dict.fromkeys(query.parameters), **params})
    names = sorted(query.parameters, key=lambda name: (query.sql.find(f":{name}"), name))  # as they are read
    is_placed = query.parameters <= params.keys()
    bound = form.bind({**params, **constants}) if is_placed else None
    name, known = state.group_store.name(form), state.group_store.of(form)
    empty = SpaceContext(tuple({} for _ in form.tables), lambda sid: Bound(b"", None), 1)
    space = form.open_space(0, empty)
    kind = next(kind for kind in TYPES if kind.name == form.type).describe()
    return {
        "type": form.type,
        "group": name,
        "subscriptions": 0 if known is None else state.group_sizes[known.id],
        "template": form.label,
        "tables": [table.name for table in form.tables],
        "parameters": names,
        "missing": [name for name in names if name not in params],
        "plans": list(space.plans),
        "dimensions": space.network.dimensions,
        "place": None if bound is None else place_in_words(form, bound),
        "messages": kind["messages"],
        "update": kind["update"],
        "transform": kind["transform"],
    }


def place_in_words(form: Form, bound: Bound) -> JsonObject:
    """Where the subscription stands, in the values of its columns.

    `equal` holds the values that select its messages, `point` the coordinates that their regions must hold; a filter has
    `any` instead: a list of conjunctions, each a text a column. `nowhere`: no row can ever satisfy the conditions.
    """
    if bound.place is None:
        return {"nowhere": True}
    if isinstance(form, RangeForm):
        return _point(form, bound)
    if isinstance(form, FilterForm):
        table = form.table
        return {
            "any": [
                {table.names[at]: in_words(extent, table.columns[at].type) for at, extent in filter.items()}
                for filter in bound.place
            ]
        }
    if isinstance(form, ValueForm):
        table = form.items.table
        return {"equal": equal_values(table, table.key_positions, bound.topic)}
    if isinstance(form, JoinForm):
        ranged = [
            (table, at, f"{table.name}.{table.names[at]}")
            for table, some in zip(form.tables, form.shape.ranged, strict=True)
            for at in some
        ]
        return {"equal": {}, "point": _ends(ranged, bound.place)}
    return {}


def _point(form: RangeForm, bound: Bound) -> JsonObject:
    shape, table = form.shape, form.shape.table
    ranged = [(table, at, table.names[at]) for at in shape.ranged]
    return {"equal": equal_values(table, shape.equal, bound.topic), "point": _ends(ranged, bound.place)}


def _ends(ranged: Sequence[tuple[Table, int, str]], place: Any) -> JsonObject:
    """Both ends of each range by its name; they stand in pairs in the place."""
    return {
        name: [end_value(table.columns[at].type, code) for code in place[2 * number : 2 * number + 2]]
        for number, (table, at, name) in enumerate(ranged)
    }


def equal_values(table: Table, equal: tuple[int, ...], topic: bytes) -> JsonObject:
    """The values of the equality conditions that a topic stands for."""
    codes = decode(topic) if equal else []
    return {
        table.names[at]: value_of(table.columns[at].type, code) for at, code in zip(equal, codes, strict=True)
    }


def end_value(kind: ColumnType, code: Any) -> Any:
    """The value at an end of a range; None where the range has no end, or it lies beyond all values of the type."""
    if code is BOTTOM or code is TOP or code is None or (kind.int64 and code in (INT64_MIN, INT64_MAX)):
        return None
    try:
        value = value_of(kind, code)
    except (ValueError, ArithmeticError, struct.error):
        return None
    return value if not isinstance(value, float) or math.isfinite(value) else None


def in_words(extent: Extent, kind: ColumnType) -> str:
    """An extent as people write it.

    >>> from cn.model.geometry import Interval
    >>> from prosem.values.columns import column_type
    >>> in_words(Extent((Interval(None, 3), Interval(7, 7)), null=True), column_type("integer"))
    '≤ 3 or = 7 or NULL'
    """
    parts = list(_parts(extent, kind))
    shown = (
        parts if len(parts) <= _MOST_VALUES else [*parts[:_MOST_VALUES], f"{len(parts) - _MOST_VALUES} more"]
    )
    return " or ".join(shown) or "nothing"


def _parts(extent: Extent, kind: ColumnType) -> Iterator[str]:
    for interval in extent.intervals:
        low, high = interval.low, interval.high
        if low is None and high is None:
            yield "any value"
        elif low == high:
            yield f"= {_shown(kind, low)}"
        elif low is None:
            yield f"{'<' if interval.high_open else '≤'} {_shown(kind, high)}"
        elif high is None:
            yield f"{'>' if interval.low_open else '≥'} {_shown(kind, low)}"
        else:
            left, right = ("<" if is_open else "≤" for is_open in (interval.low_open, interval.high_open))
            yield f"{_shown(kind, low)} {left} … {right} {_shown(kind, high)}"
    if extent.null:
        yield "NULL"


def _shown(kind: ColumnType, code: Any) -> str:
    value = end_value(kind, code)
    return "…" if value is None else repr(value) if isinstance(value, str) else str(value)
