"""The subscription types. A new type is one package and one line here.

A package offers its types as `TYPES`. Nothing else names a type: the engine, the edges and the replayer use the protocols of
`base.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module

from prosem.language.dimensions import Dimension
from prosem.language.syntax import Aggregate, Aggregates, Columns, Distinct, Grouped, Query, TopK
from prosem.types.base import Form, SubscriptionType
from prosem.values.errors import InputError, LanguageError
from prosem.values.model import JsonObject, Table

PACKAGES = (
    "prosem.types.notified",
    "prosem.types.extreme",
    "prosem.types.sums",
    "prosem.types.aggregates",
    "prosem.types.distinct",
    "prosem.types.top_k",
    "prosem.types.filter",
    "prosem.types.value",
    "prosem.types.join",
)  # a query is offered to them in this order


def load(packages: Iterable[str]) -> tuple[SubscriptionType, ...]:
    """The types of these packages."""
    return tuple(kind for name in packages for kind in import_module(name).TYPES)


TYPES = load(PACKAGES)
_BY_NAME = {kind.name: kind for kind in TYPES}


def recognise(query: Query, tables: Sequence[Table], notify: JsonObject | None) -> Form:
    """The form of a query, or an error that names what it is and what is served instead."""
    for kind in TYPES:
        form = kind.recognise(query, tables, notify)
        if form is not None:
            if notify is not None and not kind.takes_notify:
                raise InputError(
                    "notify applies to value notification (SELECT y FROM t WHERE key = …) and to a single aggregate, "
                    f"not to {kind.name}",
                    "/notify",
                )
            return form
    raise LanguageError(f"{_construct(query)} is not served by this version; {_served()}")


def dimensions(form: Form) -> tuple[Dimension, ...]:
    """In which constants the subscriptions of a form differ, as its type says."""
    return _BY_NAME[form.type].dimensions(form)


def _construct(query: Query) -> str:
    selection = query.selection
    if isinstance(selection, Aggregate):
        return f"the aggregate {selection.function.upper()}"
    if isinstance(selection, Distinct):
        return "SELECT DISTINCT"
    if isinstance(selection, Aggregates):
        return "a SELECT of several aggregates"
    if isinstance(selection, Grouped):
        return "GROUP BY"
    if isinstance(selection, TopK):
        return "ORDER BY … LIMIT"
    if isinstance(selection, Columns):
        return "a value notification (one column without the key)"
    return "this query"


def _served() -> str:
    return f"served are {', '.join(kind.name for kind in TYPES)}; GET /v1/types shows the form of each"
