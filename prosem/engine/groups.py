"""Groups, the statements their subscriptions were made with, and their spaces.

A statement and a group exist while a subscription uses them. A space is opened by its first subscription (the rows are
indexed then) and closed when it has been empty for a while, or when more than a few others have been emptied since:
repeated subscribing and deleting does not index the rows each time, and unused indexes do not accumulate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import blake2s
from typing import NamedTuple

from optimizer.cost import FOLD_US, Weights
from prosem.engine.routes import Routes
from prosem.engine.tables import Tables
from prosem.engine.views import Views
from prosem.index.shared_indexes import SharedIndexes
from prosem.language.parse import parse
from prosem.language.syntax import Query
from prosem.types.base import (
    Bound,
    Form,
    ItemStateSpace,
    RememberingSpace,
    SharingSpace,
    Space,
    SpaceContext,
)
from prosem.values.model import DEFAULT_TENANT, Group, JsonObject, Statement, Table, View
from prosem.values.statistics import NO_FIGURES
from prosem.values.undo import NO_UNDO, UndoLog
from prosem.values.wire import encode
from prosem.views.subscription import definition_of, recognise

IDLE_SEQS = 100_000  # an empty space is closed after so many events
IDLE_SPACES = 16  # or when so many others have been emptied since
SHORT_BYTES, LONG_BYTES = (
    5,
    32,
)  # of the digest in a group's name; the long one where another group has the short one


_PER = {"event": "", "transaction": " PER TRANSACTION"}
_Text = tuple[str, str, str, bytes]  # tenant, per, sql, notify


class Left(NamedTuple):
    """What went with a subscription, as its last one: the statement, the group."""

    statement: bool
    group: bool


class Groups:
    """`locate` returns the place of a subscription; `max_boxes` limits the regions of one event; `plan` as set.

    What comes and goes is recorded in `undo`. A space that was closed returns as it was then.
    """

    def __init__(
        self,
        tables: Tables,
        views: Views,
        locate: Callable[[int], Bound],
        max_boxes: int,
        plan: str = "auto",
        undo: UndoLog = NO_UNDO,
    ) -> None:
        self._undo = undo
        self._tables, self._views = tables, views
        self._locate, self._max_boxes, self._plan = locate, max_boxes, plan
        self.figures = NO_FIGURES  # of the statistics in force
        self.weights = Weights()  # those in force
        self.reached_us, self.brokers = FOLD_US, 1  # see `SpaceContext`
        self.by_id: dict[int, Group] = {}
        self.sizes: dict[int, int] = {}
        self.statements: dict[int, Statement] = {}
        self.spaces: dict[int, Space] = {}
        self.row_indexes = SharedIndexes()  # of all of them
        self.keeping: dict[int, ItemStateSpace] = {}  # those of them that keep something of items
        self.per_transaction: set[int] = set()  # those of them that take the net deltas of a request
        self.from_log: set[int] = set()  # those of them whose messages no replay reads
        self.next_group = self.next_statement = 1
        self._of_label: dict[str, Group] = {}
        self._of_name: dict[str, Group] = {}
        self._statement_of_text: dict[_Text, Statement] = {}
        self._uses: dict[int, int] = {}
        self._forms: dict[int, Form] = {}
        self._space_of_label: dict[str, int] = {}
        self._label_of_space: dict[int, str] = {}
        self._spaces_of_table: dict[int, list[int]] = {}
        self._parts: dict[int, tuple[int, ...]] = {}  # of spaces that consist of others; they take no events
        self._wholes: dict[int, int] = {}  # how many spaces a space is a part of
        self._routes: dict[int, Routes] = {}  # by table, as asked for
        self._first_of: dict[int, int] = {}
        self._members: dict[int, int] = {}  # of each open space
        self._empty_since: dict[int, int] = {}
        self.on_close: Callable[[int], None] = lambda space: None

    # -- statements ----------------------------------------------------------------------------------------------
    def recognise(self, query: Query, notify: JsonObject | None, tenant: str = DEFAULT_TENANT) -> Form:
        return recognise(query, self._tables.of(tenant), notify)

    def statement(self, sql: str, notify: JsonObject | None, form: Form) -> tuple[Statement, bool]:
        """The statement of this text, and whether it is new."""
        tenant, per = form.tables[0].tenant, form.query.per
        known = self._statement_of_text.get((tenant, per, sql, encode(notify)))
        statement = known or Statement(self.next_statement, sql, notify, tenant, per)
        if known is None:
            self._undo.keep_attribute(self, "next_statement")
            self.next_statement += 1
            self.add_statement(statement)
        self._forms[statement.id] = form
        return statement, known is None

    def add_statement(self, statement: Statement) -> None:
        self._keep_statement(statement)
        self.statements[statement.id] = statement
        self._statement_of_text[_text_of(statement)] = statement
        self._uses.setdefault(statement.id, 0)

    def _keep_statement(self, statement: Statement) -> None:
        for held in (self.statements, self._uses, self._forms):
            self._undo.keep(held, statement.id)
        self._undo.keep(self._statement_of_text, _text_of(statement))

    def form(self, statement_id: int) -> Form:
        """The form of a statement; parsed again after a start, once."""
        form = self._forms.get(statement_id)
        if form is None:
            statement = self.statements[statement_id]
            query = replace(parse(statement.sql), per=statement.per)
            form = self._forms[statement_id] = self.recognise(query, statement.notify, statement.tenant)
        return form

    def form_of(self, group: Group) -> Form:
        """The form of a group, by the statement that made it, whether that is still used or not."""
        text = group.tenant, group.per, group.sample_sql, encode(group.sample_notify)
        known = self._statement_of_text.get(text)
        if known is not None:
            return self.form(known.id)
        return self.recognise(
            replace(parse(group.sample_sql), per=group.per), group.sample_notify, group.tenant
        )

    # -- groups --------------------------------------------------------------------------------------------------
    def of(self, form: Form) -> Group | None:
        """The group of a form, None if it has no subscription."""
        return self._of_label.get(label(form))

    def name(self, form: Form) -> str:
        """The public name of a form's group, whether that exists or not; two groups never have the same."""
        known = self.of(form)
        if known is not None:
            return known.name
        short = f"{form.type}-{_digest(label(form), SHORT_BYTES)}"
        return short if short not in self._of_name else f"{form.type}-{_digest(label(form), LONG_BYTES)}"

    def group(self, form: Form, sql: str, notify: JsonObject | None) -> tuple[Group, bool]:
        """The group of a form, and whether it is new.

        A new space takes the number of its first group: numbers of groups are never given twice, so that the outbox of a
        space that is gone is not taken for that of another.
        """
        known = self.of(form)
        if known is not None:
            return known, False
        space = self._space_of_label.get(space_label(form), self.next_group)
        names = tuple(dict.fromkeys(name for table in form.tables for name in _named(table)))
        tenant, per = form.tables[0].tenant, form.query.per
        group = Group(
            self.next_group, self.name(form), form.type, label(form), space, names, sql, notify, tenant, per
        )
        self._undo.keep_attribute(self, "next_group")
        self.next_group += 1
        self.add_group(group, form)
        return group, True

    def add_group(self, group: Group, form: Form) -> None:
        self._keep_group(group)
        self._undo.keep(self._space_of_label, space_label(form))
        self._undo.keep(self._label_of_space, group.space)
        self.by_id[group.id] = self._of_label[group.label] = self._of_name[group.name] = group
        self.sizes.setdefault(group.id, 0)
        self._space_of_label[space_label(form)] = group.space
        self._label_of_space[group.space] = space_label(form)
        if self._first_of.get(group.space) not in self.by_id:
            self._first_of.pop(group.space, None)

    def _keep_group(self, group: Group) -> None:
        undo = self._undo
        undo.keep(self.by_id, group.id)
        undo.keep(self.sizes, group.id)
        undo.keep(self._of_label, group.label)
        undo.keep(self._of_name, group.name)
        undo.keep(self._first_of, group.space)

    def _keep_counts(self, group: int, statement: int) -> None:
        space, undo = self.by_id[group].space, self._undo
        undo.keep(self.sizes, group)
        undo.keep(self._uses, statement)
        undo.keep(self._members, space)
        undo.keep(self._empty_since, space)

    def join(self, group: int, statement: int, count: int) -> None:
        """So many subscriptions came."""
        self._keep_counts(group, statement)
        self.sizes[group] += count
        self._uses[statement] += count
        space = self.by_id[group].space
        self._members[space] = self._members.get(space, 0) + count
        self._empty_since.pop(space, None)

    def leave(self, group: int, statement: int, seq: int) -> Left:
        """A subscription went; whether its statement and its group went with it."""
        self._keep_counts(group, statement)
        self.sizes[group] -= 1
        space = self.by_id[group].space
        self._members[space] -= 1
        if not self._members[space]:
            self._empty_since[space] = seq
        self._uses[statement] -= 1
        left = Left(not self._uses[statement], not self.sizes[group])
        if left.statement:
            self._keep_statement(self.statements[statement])
            gone = self.statements.pop(statement)
            del self._statement_of_text[_text_of(gone)], self._uses[statement]
            self._forms.pop(statement, None)
        if left.group:
            self._remove(self.by_id[group])
        return left

    def _remove(self, group: Group) -> None:
        """A group without subscriptions; its space may stay for a while, under the number that it is measured by."""
        first = self.first_of(group.space)
        self._keep_group(group)
        del self.by_id[group.id], self._of_label[group.label], self._of_name[group.name], self.sizes[group.id]
        if first == group.id and (self._members[group.space] or group.space in self._wholes):
            del self._first_of[group.space]

    def using(self, table: Table) -> list[Group]:
        """The groups whose subscriptions see the table's rows."""
        names = {table.name, *(ancestor.name for ancestor in table.ancestors)}
        return [group for group in self._of(table.tenant) if names & {*group.tables}]

    def _of(self, tenant: str) -> list[Group]:
        return [group for group in self.by_id.values() if group.tenant == tenant]

    def forget(self, table: Table) -> None:
        """A table or a view without users goes: so does every index that holds its rows, or those of a join with it."""
        joins = [view for view in self._views.readers(table) if view.is_unnamed]
        for one in (*joins, table, *table.ancestors):
            for space in list(self._spaces_of_table.get(one.id, ())):
                self._close(space)
        self._undo.keep(self._spaces_of_table, table.id)
        self._spaces_of_table.pop(table.id, None)
        self._routes.pop(table.id, None)

    # -- spaces --------------------------------------------------------------------------------------------------
    def space(self, form: Form, group: Group) -> Space:
        """The group's space, opened if need be: O(rows)."""
        space = self.spaces.get(group.space)
        return self._open(form, group.space, group) if space is None else space

    def _open(self, form: Form, number: int, group: Group) -> Space:
        """Open a space for a group, and the parts that it consists of."""
        for table in form.tables:
            if isinstance(table, View) and table not in self._views:
                self._views.open(definition_of(table))
        rows = tuple(self._tables.visible[table.id] for table in form.tables)
        parts: list[int] = []
        context = SpaceContext(
            rows,
            self._locate,
            self._max_boxes,
            self._plan,
            self.figures,
            group.id,
            self.row_indexes,
            partial(self._part, group, parts),
            lambda: self.weights,
            self.reached_us,
            self.brokers,
        )
        self._undo.add(self.on_close, number)
        self._keep_space(number)
        space = self.spaces[number] = form.open_space(number, context)
        if isinstance(space, RememberingSpace):
            space.undo = self._undo
        if isinstance(space, SharingSpace):
            self._undo.add(space.release)
        if isinstance(space, ItemStateSpace):
            self.keeping[number] = space
        if group.per == "transaction":
            self.per_transaction.add(number)
        if form.replay.reads_log:
            self.from_log.add(number)
        if parts:
            self._parts[number] = tuple(parts)
            return space
        for table in form.tables:
            self._list(number, table.id)
            self._undo.add(self._unlist, number, table.id)
        return space

    def _part(self, group: Group, parts: list[int], form: Form) -> Space:
        """A space that another one consists of: that of a group, or one that no group has."""
        number = self._space_of_label.get(space_label(form))
        if number is None:
            number = self.next_group
            self._undo.keep_attribute(self, "next_group")
            self._undo.keep(self._space_of_label, space_label(form))
            self._undo.keep(self._label_of_space, number)
            self.next_group += 1
            self._space_of_label[space_label(form)] = number
            self._label_of_space[number] = space_label(form)
        space = self.spaces.get(number)
        if space is None:
            space = self._open(form, number, group)
        self._undo.keep(self._wholes, number)
        self._wholes[number] = self._wholes.get(number, 0) + 1
        parts.append(number)
        return space

    def _keep_space(self, space: int) -> None:
        undo = self._undo
        undo.keep(self.spaces, space)
        undo.keep(self.keeping, space)
        undo.keep(self._parts, space)
        for flags in (self.per_transaction, self.from_log):
            undo.add(flags.add if space in flags else flags.discard, space)

    def _list(self, space: int, table: int) -> None:
        """The table's events concern a space from now on."""
        self._spaces_of_table.setdefault(table, []).append(space)
        self._routes.pop(table, None)

    def _unlist(self, space: int, table: int) -> None:
        self._spaces_of_table[table].remove(space)
        self._routes.pop(table, None)

    def spaces_of(self, table: Table) -> list[Space]:
        """The open spaces that the table's events concern."""
        return [self.spaces[at] for at in self._spaces_of_table.get(table.id, ())]

    def routes(self, table: Table) -> Routes:
        """The same, by the columns that an event changes."""
        found = self._routes.get(table.id)
        if found is None:
            found = self._routes[table.id] = Routes(self.spaces_of(table))
        return found

    def groups_in(self, space: int) -> list[Group]:
        """The groups of a space that have subscriptions, and those of spaces that it is a part of."""
        return [one for one in self.by_id.values() if self._is_in(one, space) and self.sizes[one.id]]

    def taking(self, group: Group) -> tuple[int, ...]:
        """The spaces that take the events of a group: its own, or the parts of that."""
        return self._parts.get(group.space, (group.space,))

    def wholes_of(self, space: int) -> list[int]:
        """The spaces that a space is a part of."""
        return [whole for whole, parts in self._parts.items() if space in parts]

    def _is_in(self, group: Group, space: int) -> bool:
        return group.space == space or space in self.taking(group)

    def measured_as(self, space: int) -> tuple[int, int]:
        """What measurements are kept under: the oldest group of a space, and which part of that group's space it is (0: it
        is the whole). A part has a number of its own only until the next start."""
        group = self.first_of(space)
        parts = self._parts.get(self.by_id[group].space, ())
        return group, parts.index(space) + 1 if space in parts else 0

    def measured_spaces(self) -> dict[tuple[int, int], int]:
        """The spaces that measurements kept so are of, by group and part."""
        found = {(group.id, 0): group.space for group in self.by_id.values()}
        for group in self.by_id.values():
            for number, part in enumerate(self._parts.get(group.space, ()), 1):
                found[group.id, number] = part
        return found

    def first_of(self, space: int) -> int:
        """The number of the oldest group of a space; O(1) after the first time."""
        found = self._first_of.get(space)
        if found is None:
            own = [group.id for group in self.by_id.values() if group.space == space]
            if not own:  # it is but a part
                return min(group.id for group in self.by_id.values() if self._is_in(group, space))
            found = self._first_of[space] = min(own)
        return found

    def tidy(self, seq: int) -> None:
        """Close the spaces that have been empty for long, and all but the last few of the others that are empty."""
        idle = [one for one in self._empty_since.items() if one[0] not in self._wholes]
        for number, (space, since) in enumerate(idle):  # the one emptied first is first
            if number < len(idle) - IDLE_SPACES or seq - since > IDLE_SEQS:
                self._close(space)

    def _close(self, space: int) -> None:
        """Nothing refers to an empty space any more; one that it is a part of is empty too."""
        for whole in self.wholes_of(space):
            self._close(whole)
        if space not in self.spaces and space not in self._members:
            return  # it went with the last space that it was a part of
        self._keep_space(space)
        for kept in (self._label_of_space, self._empty_since, self._members, self._first_of):
            self._undo.keep(kept, space)
        for known in (self.keeping, self._empty_since, self._members, self._first_of):
            known.pop(space, None)
        self.per_transaction.discard(space)
        self.from_log.discard(space)
        known_label = self._label_of_space.pop(space, None)
        if known_label is not None:
            self._undo.keep(self._space_of_label, known_label)
            del self._space_of_label[known_label]
        closed = self.spaces.pop(space, None)
        if isinstance(closed, SharingSpace):
            closed.release()
            self._undo.add(closed.hold_again)
        if closed is not None:
            for table, others in self._spaces_of_table.items():
                if space in others:
                    self._unlist(space, table)
                    self._undo.add(self._list, space, table)
            for view in [one for one in self._views if one.is_unnamed]:
                if not self._spaces_of_table.get(view.id):
                    self._views.close(view)
        self.on_close(space)
        for part in self._parts.pop(space, ()):
            self._undo.keep(self._wholes, part)
            self._wholes[part] -= 1
            if not self._wholes[part]:
                del self._wholes[part]
                if part not in self._members:  # else it is closed when it has been empty for a while
                    self._close(part)


def label(form: Form) -> str:
    """The template in words, one per group."""
    return form.label + _PER[form.query.per]


def space_label(form: Form) -> str:
    """What the groups of one space have in common, in words."""
    return form.space_label + _PER[form.query.per]


def _named(table: Table) -> tuple[str, ...]:
    """A table's name, or those of the tables that an unnamed view joins."""
    is_unnamed = isinstance(table, View) and table.is_unnamed
    return tuple(one.name for one in table.inputs) if is_unnamed else (table.name,)  # type: ignore[attr-defined]


def _text_of(statement: Statement) -> _Text:
    return statement.tenant, statement.per, statement.sql, encode(statement.notify)


def _digest(label: str, size: int) -> str:
    return blake2s(label.encode(), digest_size=size).hexdigest()
