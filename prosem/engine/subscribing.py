"""Subscriptions: made, moved, suspended, listened to and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from prosem.engine import commands as c
from prosem.engine.columns_used import used_by_form
from prosem.engine.marks import Unmarked
from prosem.engine.memory import EngineMemory
from prosem.language import resolve
from prosem.language.notify import radius_names
from prosem.language.predicates import check_given, restricted
from prosem.language.syntax import Query
from prosem.store.recovery import StoredSubscription
from prosem.types.base import (
    Bound,
    Draft,
    Form,
    MarkedSpace,
    PackedForm,
    RememberingSpace,
    Space,
    folding,
    parts_of,
)
from prosem.values.access import WHOLE, Predicates, Scope
from prosem.values.errors import ConflictError, InputError, LanguageError, LimitError, NotFoundError, pointer
from prosem.values.model import DEFAULT_TENANT, JsonObject, Table, View
from prosem.values.wire import decode, decode_exact, encode, encode_exact

MAX_ID_LENGTH = 200
EXPIRED_AT_ONCE = 1_000  # events wait meanwhile


class Subscribing:
    """What subscribers ask for. A request is valid as a whole before anything changes."""

    def __init__(self, memory: EngineMemory) -> None:
        self._memory = memory
        self._registry = memory.registry
        self._groups = memory.group_store
        self._marks = memory.marks
        self._tables = memory.table_store
        self._undo = memory.undo

    def subscribe(self, command: c.Subscribe) -> JsonObject:
        self._check_count(command)
        form, query, constants = self.recognise(
            command.query, command.notify, command.scope.tenant, command.predicates
        )
        bounds = self._bind_all(form, command, constants)
        self._check_ids([id for id, _ in command.rows], command.batch, command.scope.tenant)
        if self._tables.stored is not None and self._groups.of(form) is None:
            self._tables.hold(used_by_form(form))
        writes = self._memory.batch.writes
        statement, is_new = self._groups.statement(query.sql, command.notify, form)
        if is_new:
            writes.statements.append(statement)
        group, is_new = self._groups.group(form, query.sql, command.notify)
        if is_new:
            writes.groups.append(group)
        space = self._groups.space(form, group)
        sids = range(self._registry.next_sid, self._registry.next_sid + len(command.rows))
        ids = []
        for sid, (chosen, params) in zip(sids, command.rows, strict=True):
            id, encoded = chosen or self._registry.given_id(sid), encode_exact(params | constants)
            values = (sid, id, statement.id, group.id, encoded, True, command.durable, self._memory.seq)
            self._registry.put(
                sid,
                id,
                group.id,
                statement.id,
                encoded,
                self._memory.seq,
                command.durable,
                None,
                command.scope,
            )
            writes.subscriptions.append((*values, command.scope.tenant, command.scope.key))
            ids.append(id)
        self._undo.add(self._registry.withdraw, sids.start)
        if not command.durable:
            self._memory.unstreamed.add(sids)
            self._undo.add(self._streamed, sids)
        space.add(sids, bounds)
        self._undo.add(_take_out, space, sids, bounds)
        if isinstance(space, MarkedSpace):
            self._marks.created(self._memory.batch, self._memory.seq, sids, form, space)
        self._groups.join(group.id, statement.id, len(sids))
        self._memory.batch.weight += len(sids)
        answer: JsonObject = {"group": group.name, "type": form.type, **self._moment}
        if command.batch:
            return answer | {"ids": ids}
        result = self._memory.snapshot(*self._memory.place(sids[0]))
        return answer | {"id": ids[0], "result": result, "fold": folding(form)}

    def _streamed(self, sids: Sequence[int]) -> None:
        for sid in sids:
            if self._memory.unstreamed.discard(sid):
                self._undo.add(self._memory.unstreamed.add, [sid])  # its time begins anew

    def folding(self, id: str, scope: Scope) -> JsonObject:
        """What a client needs to fold the answers of a subscription; nothing of one that is gone."""
        sid = self._registry.sid(id, scope)
        return {} if sid is None else folding(self._memory.place(sid)[0])

    def recognise(
        self, query: Query, notify: JsonObject | None, tenant: str, predicates: Predicates
    ) -> tuple[Form, Query, JsonObject]:
        """The form of a query as a key with these predicates may ask it, the query it became, and its constants."""
        store = self._tables
        form = self._groups.recognise(query, notify, tenant) if predicates else None
        tables = resolve.tables(query, store.of(tenant))
        below = [base for table in tables if isinstance(table, View) for base in table.bases]
        heirs = [] if form is None else store.descendants([*tables, *below])
        made, constants = restricted(query, tables, heirs, predicates)
        try:
            return self._groups.recognise(made, notify, tenant), made, constants
        except LanguageError as error:
            if form is None:
                raise
            raise LanguageError(
                f"this key sees only some rows, and a subscription of type {form.type} cannot be held to them: "
                f"with the key's condition it is {made.sql[:2_000]!r}, and {error.detail}"
            ) from None

    def _check_count(self, command: c.Subscribe) -> None:
        if command.most is None:
            return
        present = self._registry.of_key(command.scope.key)
        if present + len(command.rows) > command.most:
            raise LimitError(
                f"this key may have {command.most} subscriptions and has {present}; delete some first",
                retry_after_s=60,
            )

    def _bind_all(self, form: Form, command: c.Subscribe, constants: JsonObject) -> list[Bound]:
        bounds, radii = [], radius_names(command.notify)
        for number, (_, params) in enumerate(command.rows):
            try:
                resolve.check_parameters(command.query, params, radii)
                bounds.append(form.bind(params | constants if constants else params))
            except InputError as error:
                if command.batch and error.at != "/sql":
                    error.moved(pointer("rows", number))
                raise
        return bounds

    def _check_ids(self, ids: Sequence[str | None], batch: bool, tenant: str) -> None:
        seen: set[str] = set()
        for number, id in enumerate(ids):
            if id is None:
                continue
            at = pointer("rows", number, "id") if batch else "/id"
            if self._registry.is_reserved(id):
                raise InputError("ids of the form sub-<number> are given by the server; choose another", at)
            if id in seen or self._registry.sid(id, Scope(tenant)) is not None:
                raise ConflictError(f"the id {id!r} is taken; choose another, or leave it out", at)
            seen.add(id)

    def _known(self, id: str, scope: Scope) -> int:
        sid = self._registry.sid(id, scope)
        if sid is None:
            raise NotFoundError(f"there is no subscription {id!r}")
        return sid

    def delete(self, command: c.Delete) -> JsonObject:
        self._delete(self._known(command.id, command.scope))
        return {"id": command.id, "seq": self._memory.seq}

    def forget(self, command: c.Forget) -> None:
        if self._registry.exists(command.sid) and not self._registry.is_durable(command.sid):
            self._delete(command.sid)

    def expire(self, command: c.Expire) -> bool:
        due = self._memory.unstreamed.due(EXPIRED_AT_ONCE)
        self.end(due)
        return len(due) == EXPIRED_AT_ONCE

    def unstreamed_users(self, table: Table) -> list[int]:
        """Ephemeral subscriptions without a stream that see the table's rows: they do not keep it from being dropped."""
        names = {table.name, *(ancestor.name for ancestor in table.ancestors)}
        groups = self._memory.groups
        using = {id for id, one in groups.items() if one.tenant == table.tenant and names & {*one.tables}}
        return [sid for sid in self._memory.unstreamed if self._registry.group(sid) in using]

    def end(self, sids: Sequence[int]) -> None:
        for sid in sids:
            self._delete(sid)
        self._memory.batch.weight += len(sids)

    def _delete(self, sid: int) -> None:
        self._streamed([sid])
        _, space, bound = self._memory.place(sid)
        if self._registry.frozen(sid) is None:
            space.remove(sid, bound)
            self._undo.add(_put_back, space, sid, bound)
        statement, group = self._registry.statement(sid), self._registry.group(sid)
        left = self._groups.leave(group, statement, self._memory.seq)
        if left.statement:
            self._memory.batch.writes.unused_statements.append(statement)
        if left.group:
            self._memory.batch.writes.unused_groups.append(group)
        self._marks.forget(sid)
        self._undo.add(self._registry.put_back, self._registry.remove(sid))
        self._memory.batch.writes.deleted.append(sid)
        self._memory.batch.frames.append(c.Gone(sid))

    def result(self, command: c.Result) -> JsonObject:
        sid = self._known(command.id, command.scope)
        self._memory.unstreamed.renew(sid)
        form, space, bound = self._memory.place(sid)
        frozen = self._registry.frozen(sid)
        if frozen is not None and isinstance(space, MarkedSpace):  # the answer is what was notified last
            answer = decode(frozen)
        else:
            answer = self._memory.snapshot(form, space, bound)
        return {"id": command.id, **self._moment, "result": answer}

    @property
    def _moment(self) -> JsonObject:
        return {"seq": self._memory.seq, "timeline": self._memory.timelines.current}

    def attach(self, command: c.Attach) -> None:
        sid = self._known(command.id, command.scope)
        timelines = self._memory.timelines
        if not timelines.knows(command.timeline, sid) and self._registry.is_reserved(command.id):
            raise NotFoundError(
                f"there is no subscription {command.id!r} any more: the database was restored"
            )
        self._streamed([sid])  # from now on the edge reports when its last stream is gone
        form, space, bound = self._memory.place(sid)
        frozen = self._registry.frozen(sid)
        oldest = max(self._registry.created(sid), self._memory.retained_after())
        needs_snapshot = (
            command.after is None
            or not oldest <= command.after <= self._memory.seq
            or not timelines.shares(command.timeline, command.after)
        )
        answer = (frozen or encode(self._memory.snapshot(form, space, bound))) if needs_snapshot else b""
        self._memory.batch.weight += 1  # the loop takes no more of them at once than of events
        self._memory.batch.frames.append(
            c.Hosted(
                sid,
                command.id,
                command.sink,
                form,
                space.network,
                bound if frozen is None else None,
                self._memory.seq,
                None if needs_snapshot else command.after,
                self._registry.created(sid),
                answer,
                self._registry.is_durable(sid),
                command.token,
                form.state(space, bound) if frozen is None else None,
                self._groups.statements[self._registry.statement(sid)],
                timelines.current,
                command if command.follows else None,
                parts_of(space),
            )
        )

    # -- moving a subscription -----------------------------------------------------------------------------------
    def patch(self, command: c.Patch) -> JsonObject:
        """Move the point, suspend or resume; a change of the answer takes a seq of its own."""
        sid = self._known(command.id, command.scope)
        self._memory.unstreamed.renew(sid)
        form, space, bound = self._memory.place(sid)
        params, moved, is_retuned = self._registry.params(sid), bound, False
        frozen = self._registry.frozen(sid)
        was_active, active = frozen is None, frozen is None if command.active is None else command.active
        if command.params is not None:
            old = decode_exact(params)
            given = self._given(sid, form, old, command.params)
            moved, params = form.bind(given), encode_exact(given)
            is_retuned = all(old[name] == given[name] for name in form.query.parameters)
        before = self._memory.snapshot(form, space, bound) if frozen is None else decode(frozen)
        if is_retuned and was_active and active and isinstance(space, MarkedSpace):
            packed, after = None, before
            self._retune(sid, form, space, moved)
        else:
            after = self._memory.snapshot(form, space, moved)
            packed = self._packed_state(form, space, bound) if was_active else None
            self._shift(sid, form, space, bound if was_active else None, moved if active else None)
        if not isinstance(space, MarkedSpace):  # kept once: a point that never moved needs no history
            created = (
                sid,
                self._registry.created(sid),
                0,
                "created",
                self._registry.params(sid),
                None,
                None,
            )
            self._memory.batch.writes.history.append(created)
        self._undo.add(self._registry.set_params, sid, self._registry.params(sid))
        self._undo.add(self._registry.freeze, sid, frozen)
        self._registry.set_params(sid, params)
        change = form.difference(_plain(before), _plain(after)) if active else None
        if was_active and not active:
            self._registry.freeze(sid, encode(before))
        elif active:
            self._registry.freeze(sid, None)
        if change is not None:
            self._undo.keep_attribute(self._memory, "seq")
            self._memory.seq += 1
            self._memory.send(
                self._memory.seq,
                0,
                space,
                "address",
                [Draft("change", targets=(sid,), payload=encode(change))],
            )
        kind = "suspended" if not active else "patched" if was_active else "resumed"
        self._memory.batch.writes.updates[sid] = (params, active, self._registry.frozen(sid))
        self._marks.moved(self._memory.batch, self._memory.seq, sid, kind, params, packed, space)
        self._memory.batch.weight += 1
        return {"id": command.id, **self._moment, "result": after, "active": active}

    def _given(self, sid: int, form: Form, old: JsonObject, params: JsonObject) -> JsonObject:
        """The parameters of a subscription with some of them changed."""
        check_given(params)
        given = old | params
        statement = self._groups.statements[self._registry.statement(sid)]
        resolve.check_parameters(form.query, given, radius_names(statement.notify))
        return given

    def _retune(self, sid: int, form: Form, space: MarkedSpace, bound: Bound) -> None:
        """Other radii, if any, of a subscription that stays where it is."""
        space.retune(sid, bound)
        self._marks.relabelled(self._memory.batch, self._memory.seq, {sid}, form, space)
        placed = space.locate(sid)
        self._memory.batch.frames.append(c.Moved(sid, placed, form.state(cast(Space, space), placed)))

    def _packed_state(self, form: Form, space: Space, bound: Bound) -> bytes | None:
        if not form.replay.stores_states:
            return None
        assert isinstance(form, PackedForm), "a state that is stored can be packed"
        return form.pack_state(form.state(space, bound))

    def _shift(self, sid: int, form: Form, space: Space, before: Bound | None, after: Bound | None) -> None:
        if before == after:
            return
        if before is None:
            assert after is not None
            space.add([sid], [after])
            self._undo.add(_take_out, space, [sid], [after])
        elif after is None:
            space.remove(sid, before)
            self._undo.add(_put_back, space, sid, before)
        else:
            space.move(sid, before, after)
            self._undo.add(_move_back, space, sid, after, before)
        if isinstance(space, MarkedSpace):
            self._marks.relabelled(self._memory.batch, self._memory.seq, {sid}, form, space)
            after = None if after is None else space.locate(sid)
        self._memory.batch.frames.append(
            c.Moved(sid, after, None if after is None else form.state(space, after))
        )

    # -- recovery ------------------------------------------------------------------------------------------------
    def restore(self, subscriptions: Sequence[StoredSubscription]) -> None:
        """Take a chunk of stored subscriptions in."""
        points: dict[int, Unmarked] = {}
        for sid, id, statement, group, params, active, durable, created, frozen, tenant, key in subscriptions:
            kept = None if active else frozen or b"{}"
            scope = WHOLE if tenant == DEFAULT_TENANT and not key else Scope(tenant, key)
            self._registry.put(sid, id, group, statement, params, created, durable, kept, scope)
            if not durable:
                self._memory.unstreamed.add([sid])  # streams that there were attach again
            self._groups.join(group, statement, 1)
            if active:
                form = self._groups.form(statement)
                space = self._groups.space(form, self._memory.groups[group])
                _, sids, bounds = points.setdefault(space.network.id, (space, [], []))
                sids.append(sid)
                bounds.append(form.bind(decode_exact(params)))
        for space, sids, bounds in points.values():
            if isinstance(space, MarkedSpace):
                self._marks.expect(space, sids, bounds)
            else:
                space.add(sids, bounds)


def _take_out(space: Space, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
    """Undo an `add`; spaces that remember have recorded it themselves, as the two below."""
    if not isinstance(space, RememberingSpace):
        for sid, bound in zip(sids, bounds, strict=True):
            space.remove(sid, bound)


def _put_back(space: Space, sid: int, bound: Bound) -> None:
    if not isinstance(space, RememberingSpace):
        space.add([sid], [bound])


def _move_back(space: Space, sid: int, before: Bound, after: Bound) -> None:
    if not isinstance(space, RememberingSpace):
        space.move(sid, before, after)


def _plain(answer: JsonObject) -> JsonObject:
    """An answer as it travels, so that one from memory and one from the store compare."""
    plain: JsonObject = decode(encode(answer))
    return plain
