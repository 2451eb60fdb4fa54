"""The tables and views of an archive, and what a statement means over them."""

from __future__ import annotations

from collections.abc import Iterable

from prosem.engine.tables import Tables
from prosem.engine.views import Views
from prosem.language.syntax import Query
from prosem.store.catalog import table_from
from prosem.store.recovery import StoredView
from prosem.types.base import Form
from prosem.values.model import JsonObject, Table, View
from prosem.values.wire import decode
from prosem.views.subscription import named_view, recognise

Definition = tuple[str, int, str, str, str]  # kind (table or view), id, tenant, name, JSON or SQL


class Definitions:
    """The tables and views of an archive, as the server knows them."""

    def __init__(self, definitions: Iterable[Definition]) -> None:
        self.tables: dict[int, Table] = {}
        self.views: list[StoredView] = []
        self._store = Tables()
        views = Views(self._store)
        for kind, id, tenant, name, text in sorted(
            definitions
        ):  # tables first; by id: what they extend first
            if kind == "table":
                table = table_from(id, tenant, decode(text), list(self.tables.values()))
                self.tables[id] = table
                self._store.add(table)
            else:
                views.open(named_view(text, self._store.of(tenant), id, name, tenant))
                self.views.append(StoredView(id, tenant, name, text))

    def recognise(self, query: Query, notify: JsonObject | None, tenant: str) -> Form:
        return recognise(query, self._store.of(tenant), notify)

    def needed(self, form: Form) -> tuple[tuple[Table, ...], tuple[StoredView, ...]]:
        """The tables whose rows and events a form depends on, with those that extend them; and the named views."""
        bases = {
            base for table in form.tables for base in (table.bases if isinstance(table, View) else (table,))
        }
        chosen = {one for one in self.tables.values() if bases & {one, *one.ancestors}}
        chosen |= {ancestor for one in chosen for ancestor in one.ancestors}
        names = set[int]()
        waiting: list[Table] = list(form.tables)
        while waiting:
            one = waiting.pop()
            if isinstance(one, View):
                names.add(one.id)
                waiting += one.inputs
        tables = tuple(one for one in self.tables.values() if one in chosen)
        return tables, tuple(view for view in self.views if view.id in names)
