"""What a query would become as a subscription: type, group, plans, and the place it is reformulated into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prosem.engine.groups import label
from prosem.engine.state import EngineState
from prosem.language import resolve
from prosem.language.notify import radius_names
from prosem.language.syntax import Query
from prosem.types.base import Bound, Form, SpaceContext, folding
from prosem.types.registry import TYPES
from prosem.values.access import NO_PREDICATES, Predicates
from prosem.values.model import DEFAULT_TENANT, JsonObject


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
    radii = radius_names(notify)
    resolve.check_parameters(query, {**dict.fromkeys(query.parameters | radii), **params}, radii)
    names = sorted(query.parameters, key=lambda name: (query.sql.find(f":{name}"), name))  # as they are read
    names += sorted(radii - query.parameters)
    is_placed = params.keys() >= {*names}
    bound = form.bind({**params, **constants}) if is_placed else None
    name, known = state.group_store.name(form), state.group_store.of(form)
    empty = SpaceContext(tuple({} for _ in form.tables), lambda sid: Bound(b"", None), 1)
    space = form.open_space(0, empty)
    kind = next(kind for kind in TYPES if kind.name == form.type).describe()
    return {
        "type": form.type,
        "group": name,
        "subscriptions": 0 if known is None else state.group_sizes[known.id],
        "template": label(form),
        "per": query.per,
        "tables": [table.name for table in form.tables],
        "parameters": names,
        "missing": [name for name in names if name not in params],
        "plans": list(space.plans),
        "dimensions": space.network.dimensions,
        "place": None if bound is None else _placed(form, bound),
        "messages": kind["messages"],
        "update": kind["update"],
        "transform": kind["transform"],
        "fold": folding(form),
    }


def _placed(form: Form, bound: Bound) -> JsonObject:
    """The place in words. `nowhere`: no row can ever satisfy the conditions."""
    return {"nowhere": True} if bound.place is None else form.place_in_words(bound)
