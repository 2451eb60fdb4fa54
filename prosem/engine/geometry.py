"""The picture of an event in a group, drawn by the group's type. Nothing is applied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prosem.engine.state import EngineState
from prosem.engine.validate import effect
from prosem.language.parse import parse
from prosem.types.base import PicturedForm, Scene
from prosem.types.registry import TYPES
from prosem.values.errors import InputError, NotFoundError
from prosem.values.model import DEFAULT_TENANT, JsonObject


def picture(state: EngineState, group_name: str, event: Any, tenant: str = DEFAULT_TENANT) -> JsonObject:
    """What the event would do to the subscriptions of the group, as axes and panels."""
    group = next((g for g in state.groups.values() if (g.tenant, g.name) == (tenant, group_name)), None)
    if group is None:
        raise NotFoundError(f"there is no group {group_name[:100]!r}; GET /v1/groups lists them")
    query = replace(parse(group.sample_sql), per=group.per)
    form = state.group_store.recognise(query, group.sample_notify, tenant)
    if not isinstance(form, PicturedForm) or not form.has_picture:
        pictured = " or ".join(dict.fromkeys(kind.pictured for kind in TYPES if kind.pictured))
        what = f"{group_name[:100]} is of type {group.type}"
        raise InputError(f"only {pictured} has a picture in two dimensions; {what}", "/group")
    table = form.tables[0]
    tables = state.table_store
    found = tables.complete(lambda: effect(table, tables.whole(table), event, "/event", tables.family(table)))
    scene = Scene(tables.visible[table.id], found.key, found.old, found.new, state.registry.id)
    drawn = form.picture(state.group_store.space(form, group), scene)
    return {"group": group.name, "type": group.type, "table": table.name, **drawn}
