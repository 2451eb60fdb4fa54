"""From a query to its form, where FROM may be a join: such a query is recognised over an unnamed view of the join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from prosem.language import resolve
from prosem.language.joined import needs_view, over_view
from prosem.language.syntax import Query
from prosem.language.view_parse import parse_view
from prosem.types import registry
from prosem.types.base import Form
from prosem.values.model import JsonObject, Table, View
from prosem.views.definition import ViewDefinition, define

_DIGEST_BYTES = 16  # of the number of an unnamed view: no two can be made to have the same


def recognise(query: Query, catalog: Mapping[str, Table], notify: JsonObject | None) -> Form:
    """The form of a query over the tables and views of a tenant; LanguageError names what is not served."""
    tables = resolve.tables(query, catalog)
    if not needs_view(query):
        return registry.recognise(query, tables, notify)
    view, name, over = over_view(query, tables)
    tenant = tables[0].tenant
    digest = blake2b(f"{tenant}.{name}".encode(), digest_size=_DIGEST_BYTES).digest()
    made = define(view, catalog, -int.from_bytes(digest), name, tenant).view
    return registry.recognise(over, (replace(made, is_unnamed=True, query=view),), notify)


def named_view(sql: str, catalog: Mapping[str, Table], id: int, name: str, tenant: str) -> ViewDefinition:
    """The view that a user defines by this text."""
    query = parse_view(sql)
    definition = define(query, catalog, id, name, tenant)
    return replace(definition, view=replace(definition.view, query=query))


def definition_of(view: View) -> ViewDefinition:
    """The definition that a view has come from."""
    catalog = {table.name: table for table in view.inputs}
    return replace(define(view.query, catalog, view.id, view.name, view.tenant), view=view)
