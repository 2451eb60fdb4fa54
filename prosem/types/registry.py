"""The subscription types. A new type is one file and one line here."""

from __future__ import annotations

from collections.abc import Sequence

from prosem.language.syntax import Aggregate, Columns, Distinct, Query
from prosem.types.base import Form, SubscriptionType
from prosem.types.distinct.form import DistinctType
from prosem.types.extreme.form import ExtremeType
from prosem.types.filter.form import FilterType
from prosem.types.join.form import JoinType
from prosem.types.sums.form import SumType
from prosem.types.value.form import ValueType
from prosem.values.errors import InputError, LanguageError
from prosem.values.model import JsonObject, Table

TYPES: tuple[SubscriptionType, ...] = (
    ExtremeType("MIN"),
    ExtremeType("MAX"),
    SumType("COUNT"),
    SumType("SUM"),
    SumType("AVG"),
    DistinctType(),
    FilterType(),
    ValueType(),
    JoinType(),
)
TAKES_NOTIFY = frozenset({"value"})


def recognise(query: Query, tables: Sequence[Table], notify: JsonObject | None) -> Form:
    """The form of a query, or an error that names what it is and what is served instead."""
    for kind in TYPES:
        form = kind.recognise(query, tables, notify)
        if form is not None:
            if notify is not None and kind.name not in TAKES_NOTIFY:
                raise InputError(
                    f"notify applies to value notification (SELECT y FROM t WHERE key = …), not to {kind.name}",
                    "/notify",
                )
            return form
    raise LanguageError(f"{_construct(query)} is not served by this version; {_served()}")


def _construct(query: Query) -> str:
    selection = query.selection
    if isinstance(selection, Aggregate):
        return f"the aggregate {selection.function.upper()}"
    if isinstance(selection, Distinct):
        return "SELECT DISTINCT"
    if isinstance(selection, Columns):
        return "a value notification (one column without the key)"
    return "this query"


def _served() -> str:
    return f"served are {', '.join(kind.name for kind in TYPES)}; GET /v1/types shows the form of each"
