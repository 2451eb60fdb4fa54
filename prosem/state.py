"""The state of the server in memory, and what each command does to it.

Owned by the engine thread alone. Every command is validated as a whole before anything changes; then the rows, the
indexes, the write set and the frames of the batch are extended together. `PostgreSQL` holds the truth: this state is a
function of it, and is thrown away when a commit fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from cn.message import Message
from optimizer.choose import Chooser
from optimizer.plan import addresses
from prosem import commands as c
from prosem.access import WHOLE, Predicates, Scope
from prosem.batch import Batch
from prosem.errors import (
    ConflictError,
    InputError,
    LanguageError,
    LimitError,
    NotFoundError,
    pointer,
)
from prosem.explaining import explain_space, rehearse
from prosem.groups import Groups
from prosem.language import resolve
from prosem.language.parse import parse
from prosem.language.syntax import Query
from prosem.marks import Marks, Unmarked
from prosem.measuring import MOST_TRIED, measure
from prosem.metrics import Metrics
from prosem.model import DEFAULT_TENANT, Delta, Group, JsonObject, Key, Row, Table
from prosem.predicates import check_given, restricted
from prosem.registry import Registry
from prosem.store.log import Counters
from prosem.store.recovery import StoredSubscription
from prosem.tables import Tables, cut
from prosem.transaction import transaction
from prosem.types.base import (
    LOGGED_ONLY,
    RETOLD,
    SENT_ONLY,
    AdaptiveSpace,
    Bound,
    Draft,
    Form,
    MarkedSpace,
    Space,
    StatefulForm,
)
from prosem.validate import Effect, effect, effects, known_table, table_definition
from prosem.wire import decode, decode_exact, encode, encode_exact, pack

MAX_ID_LENGTH = 200
SAMPLE = 97  # the CPU time of every 97th event counts for all: asking for it is dear on a busy machine


class State:
    """`retained_after`: what happened after this seq can still be replayed; `max_boxes`: of one event's regions.

    After every `look_events` events spaces may arrange themselves anew.
    """

    def __init__(
        self,
        chooser: Chooser,
        metrics: Metrics,
        retained_after: Callable[[], int] = lambda: 0,
        max_boxes: int = 128,
        plan: str = "auto",
        look_events: int = 20_000,
    ) -> None:
        self.chooser, self._metrics = chooser, metrics
        self.statistics: JsonObject | None = None  # the run that is in force
        self.retained_after = retained_after
        self.seq = self._looked = 0
        self._look_events = look_events
        self.next_table = 1
        self.table_store = Tables()
        self.registry = Registry()
        self.marks = Marks(self.registry)
        self.group_store = Groups(self.table_store, lambda sid: self._place(sid)[2], max_boxes, plan)
        self.group_store.on_close = chooser.forget
        self.batch = Batch()

    def tables(self, tenant: str = DEFAULT_TENANT) -> Mapping[str, Table]:
        """The tables of a tenant by their names."""
        return self.table_store.of(tenant)

    @property
    def rows(self) -> Mapping[int, dict[Key, Row]]:
        return self.table_store.rows

    @property
    def groups(self) -> Mapping[int, Group]:
        return self.group_store.by_id

    @property
    def group_sizes(self) -> Mapping[int, int]:
        return self.group_store.sizes

    @property
    def spaces(self) -> Mapping[int, Space]:
        return self.group_store.spaces

    def execute(self, command: c.Command) -> Any:
        """Carry a command out in the present batch; raises without having changed anything."""
        return _HANDLERS[type(command)](self, command)

    def begin(self) -> Batch:
        """Close the present batch and start another."""
        if self.seq - self._looked >= self._look_events:
            self._look()
        self.marks.renew(self.batch, self.seq, lambda sid: self._place(sid)[1])
        for space, keeping in self.group_store.keeping.items():
            for topic, kept in keeping.changed_items().items():
                self.batch.writes.items[space, topic] = kept
        done, self.batch = self.batch, Batch()
        done.writes.last_seq = self.seq
        done.writes.counters = Counters(
            self.next_table,
            self.group_store.next_group,
            self.group_store.next_statement,
            self.registry.next_sid,
        )
        self.group_store.tidy(self.seq)
        return done

    def _look(self) -> None:
        """Spaces that count arrange themselves anew where that pays; this is between two events."""
        self._looked = self.seq
        for space in list(self.spaces.values()):
            if isinstance(space, AdaptiveSpace) and space.rearrange():
                self._metrics.rearranged += 1
                self.batch.frames.append(c.Rearranged(space.network.id))

    # -- tables --------------------------------------------------------------------------------------------------
    def create_table(self, command: c.CreateTable) -> c.Created:
        tenant = command.scope.tenant
        wanted = table_definition(command.body, self.next_table, self.tables(tenant), tenant)
        known = self.tables(tenant).get(wanted.name)
        if known is not None:
            if known.definition() != wanted.definition():
                raise ConflictError(
                    f"a different table {wanted.name!r} exists; drop it first, or choose another name",
                    "/name",
                )
            return c.Created(known, False)
        self.next_table += 1
        self.table_store.add(wanted)
        self.batch.writes.created = wanted
        return c.Created(wanted, True)

    def drop_table(self, command: c.DropTable) -> None:
        table = known_table(self.tables(command.scope.tenant), command.name)
        count = self.group_store.users(table)
        if count:
            raise ConflictError(f"{count} subscriptions use the table {table.name!r}; delete them first")
        heirs = [heir.name for heir in self.table_store.heirs(table)]
        if heirs:
            raise ConflictError(
                f"the table {table.name!r} is extended by {', '.join(heirs)}; drop that first"
            )
        self.group_store.forget(table)
        self.table_store.drop(table)
        self.batch.writes.dropped = table

    # -- events --------------------------------------------------------------------------------------------------
    def publish(self, command: c.Publish) -> JsonObject:
        table = known_table(self.tables(command.scope.tenant), command.table)
        family = self.table_store.family(table)
        found = effects(table, self.rows[table.id], command.events, command.at, family)
        return self._apply([(table, found)], command.idempotency)

    def transact(self, command: c.Transact) -> JsonObject:
        tables = self.tables(command.scope.tenant)
        return self._apply(transaction(self.table_store, tables, command.events), command.idempotency)

    def _apply(
        self, runs: Sequence[tuple[Table, Sequence[Effect]]], idempotency: c.Idempotency | None
    ) -> JsonObject:
        """Events that were found valid, in their order; all of one request."""
        first = self.seq + 1
        for table, found in runs:
            self._apply_run(table, found)
        answer = {"first_seq": first, "last_seq": self.seq, "count": self.seq + 1 - first}
        return answer if idempotency is None else self._remember(idempotency, answer)

    def _apply_run(self, table: Table, found: Sequence[Effect]) -> None:
        """Some events of one table after each other."""
        writes = self.batch.writes
        net = writes.rows.setdefault(table.id, {})
        writes.tables[table.id] = table
        spaces_of, order = self.group_store.spaces_of, self.chooser.order
        spaces = [(one, order(spaces_of(one))) for one in (table, *table.ancestors)]
        for op, key, old, new in found:
            self.seq += 1
            self.table_store.put(table, key, new)
            before = None if old is None else encode(old)
            after = None if new is None else encode(new)
            writes.events.append((self.seq, table.id, op, before, after))
            if before == after:  # as it is written: for Python the JSON values true and 1 are equal
                continue
            net[key] = new
            part = 0
            for one, some in spaces:
                if some:
                    part = self._tell(Delta(self.seq, one, key, cut(old, one), cut(new, one)), some, part)
        self.batch.weight += len(found)
        self._metrics.events += len(found)

    def _tell(self, delta: Delta, spaces: Sequence[Space], part: int) -> int:
        """Every space takes the event, and the chosen plan makes its messages; returns the number of the next one."""
        runs, chooser = self._metrics.plan_runs, self.chooser
        is_sampled = delta.seq % SAMPLE == 0
        for space in spaces:
            cpu = time.thread_time_ns() if is_sampled else 0
            start = time.perf_counter_ns()
            description = space.step(delta)
            if description is None:
                plan, drafts, described = "none", [], 0
            else:
                described = time.perf_counter_ns()
                plan = chooser.choose(space, description)
                drafts = space.messages(description, plan)
            runs[plan] += 1
            if is_sampled:
                self._metrics.plan_cpu_ns[plan] += SAMPLE * (time.thread_time_ns() - cpu)
            if description is None:
                continue
            size = 0
            for draft in drafts:
                size += self._send(delta.seq, part, space, plan, draft)
                part += 1
            took = time.perf_counter_ns() - start
            if chooser.executed(delta.seq, space.network.id, plan, len(drafts), size, took):
                self._measure(delta.seq, space, description, plan, (described - start) / 1e3)
        return part

    def _measure(self, seq: int, space: Any, description: Any, executed: str, described_us: float) -> None:
        """All plans of a space on the event that it has just taken."""
        start, at = time.perf_counter_ns(), space.network.id
        descriptor, affected = space.descriptor(description), space.affected(description)
        for plan in space.plans:
            if addresses(plan) and affected > MOST_TRIED and plan != executed:
                self.chooser.extrapolate(at, plan, descriptor, affected)
                continue
            found = measure(seq, space, description, plan, affected, described_us)
            self.chooser.learn(at, plan, descriptor, found.estimate, executed=plan == executed)
            entry = (seq, self.group_store.first_of(at), at, plan, descriptor, *found)
            self.batch.writes.measurements.append(entry)
        self.chooser.sampled(at, time.perf_counter_ns() - start)

    def _send(self, seq: int, part: int, space: Space, plan: str, draft: Draft) -> int:
        """Put a message into the outbox and among the frames; its size in bytes."""
        message = Message(seq, part, space.network.id, *draft)
        body = None
        if message.kind != SENT_ONLY:
            body = None if message.kind in RETOLD else pack(message)
            self.batch.writes.messages.append((message.space, seq, part, message.kind, plan, body))
        if message.kind == LOGGED_ONLY:
            return 0
        self.batch.frames.append(message)
        self._metrics.messages[plan] += 1
        return len(message.payload if body is None else body)

    def explain(self, command: c.Explain) -> JsonObject:
        """What an event would cost under each plan of each group it touches; nothing stays applied."""
        table = known_table(self.tables(command.scope.tenant), command.table)
        family = self.table_store.family(table)
        _, key, old, new = effect(table, self.rows[table.id], command.event, "/event", family)
        groups: list[JsonObject] = []
        with ExitStack() as rehearsals:
            self.table_store.put(table, key, new)
            try:
                for one in (table, *table.ancestors) if old != new else ():
                    delta = Delta(self.seq + 1, one, key, cut(old, one), cut(new, one))
                    for space in self.group_store.spaces_of(one):
                        description, took_us = rehearse(rehearsals, space, delta)
                        if description is None:
                            continue
                        plans = explain_space(self.chooser, space, description, took_us, command.analyze)
                        groups += [
                            {"group": group.name, "type": group.type, "space": group.space, **plans}
                            for group in self.group_store.groups_in(space.network.id)
                        ]
            finally:
                self.table_store.put(table, key, old)
        return {
            "table": table.name,
            "seq": self.seq,
            "weights": self.chooser.weights._asdict(),
            "groups": groups,
        }

    def weigh(self, command: c.Weigh) -> JsonObject:
        """Other weights, from the next event on."""
        self.chooser.weigh(command.weights)
        self.batch.writes.weights = command.weights._asdict()
        return command.weights._asdict()

    def adopt(self, command: c.Adopt) -> None:
        """Take over a run of the statistics job, or none."""
        self.chooser.adopt(command.prepared)
        self.statistics = command.run

    def _remember(self, idempotency: c.Idempotency, answer: JsonObject) -> JsonObject:
        if idempotency.first_seq is not None:
            answer = answer | {
                "first_seq": idempotency.first_seq,
                "count": answer["count"] + idempotency.lines_before,
            }
        self.batch.writes.idempotency.append(
            (idempotency.key, encode(answer), idempotency.done, answer["count"])
        )
        return answer

    # -- subscriptions -------------------------------------------------------------------------------------------
    def subscribe(self, command: c.Subscribe) -> JsonObject:
        self._check_count(command)
        form, query, constants = self.recognise(
            command.query, command.notify, command.scope.tenant, command.predicates
        )
        bounds = self._bind_all(form, command, constants)
        self._check_ids([id for id, _ in command.rows], command.batch, command.scope.tenant)
        writes = self.batch.writes
        statement, is_new = self.group_store.statement(query.sql, command.notify, form)
        if is_new:
            writes.statements.append(statement)
        group, is_new = self.group_store.group(form, query.sql, command.notify)
        if is_new:
            writes.groups.append(group)
        space = self.group_store.space(form, group)
        sids = range(self.registry.next_sid, self.registry.next_sid + len(command.rows))
        ids = []
        for sid, (chosen, params) in zip(sids, command.rows, strict=True):
            id, encoded = chosen or self.registry.given_id(sid), encode_exact(params | constants)
            values = (sid, id, statement.id, group.id, encoded, True, command.durable, self.seq)
            self.registry.put(
                sid, id, group.id, statement.id, encoded, self.seq, command.durable, None, command.scope
            )
            writes.subscriptions.append((*values, command.scope.tenant, command.scope.key))
            ids.append(id)
        space.add(sids, bounds)
        if isinstance(space, MarkedSpace):
            self.marks.created(self.batch, self.seq, sids, form, space)
        self.group_store.join(group.id, statement.id, len(sids))
        self.batch.weight += len(sids)
        answer: JsonObject = {"group": group.name, "type": form.type, "seq": self.seq}
        if command.batch:
            return answer | {"ids": ids}
        return answer | {"id": ids[0], "result": self._snapshot(*self._place(sids[0]))}

    def recognise(
        self, query: Query, notify: JsonObject | None, tenant: str, predicates: Predicates
    ) -> tuple[Form, Query, JsonObject]:
        """The form of a query as a key with these predicates may ask it, the query it became, and its constants."""
        store = self.table_store
        form = self.group_store.recognise(query, notify, tenant) if predicates else None
        heirs = [] if form is None else store.descendants(form.tables)
        made, constants = restricted(query, () if form is None else form.tables, heirs, predicates)
        try:
            return self.group_store.recognise(made, notify, tenant), made, constants
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
        present = self.registry.of_key(command.scope.key)
        if present + len(command.rows) > command.most:
            raise LimitError(
                f"this key may have {command.most} subscriptions and has {present}; delete some first",
                retry_after_s=60,
            )

    def _bind_all(self, form: Form, command: c.Subscribe, constants: JsonObject) -> list[Bound]:
        bounds = []
        for number, (_, params) in enumerate(command.rows):
            try:
                resolve.check_parameters(command.query, params)
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
            if self.registry.is_reserved(id):
                raise InputError("ids of the form sub-<number> are given by the server; choose another", at)
            if id in seen or self.registry.sid(id, Scope(tenant)) is not None:
                raise ConflictError(f"the id {id!r} is taken; choose another, or leave it out", at)
            seen.add(id)

    def _snapshot(self, form: Form, space: Space, bound: Bound) -> JsonObject:
        return form.snapshot(space, self.table_store.visible[form.tables[0].id], bound)

    def _known(self, id: str, scope: Scope) -> int:
        sid = self.registry.sid(id, scope)
        if sid is None:
            raise NotFoundError(f"there is no subscription {id!r}")
        return sid

    def _place(self, sid: int) -> tuple[Form, Space, Bound]:
        form = self.group_store.form(self.registry.statement(sid))
        space = self.group_store.space(form, self.groups[self.registry.group(sid)])
        if isinstance(space, MarkedSpace) and self.registry.frozen(sid) is None:
            return form, space, space.locate(sid)
        return form, space, form.bind(decode_exact(self.registry.params(sid)))

    def delete(self, command: c.Delete) -> JsonObject:
        self._delete(self._known(command.id, command.scope))
        return {"id": command.id, "seq": self.seq}

    def forget(self, command: c.Forget) -> None:
        if self.registry.exists(command.sid):
            self._delete(command.sid)

    def _delete(self, sid: int) -> None:
        _, space, bound = self._place(sid)
        if self.registry.frozen(sid) is None:
            space.remove(sid, bound)
        statement = self.registry.statement(sid)
        if self.group_store.leave(self.registry.group(sid), statement, self.seq):
            self.batch.writes.unused_statements.append(statement)
        self.marks.forget(sid)
        self.registry.remove(sid)
        self.batch.writes.deleted.append(sid)
        self.batch.frames.append(c.Gone(sid))

    def result(self, command: c.Result) -> JsonObject:
        sid = self._known(command.id, command.scope)
        return {"id": command.id, "seq": self.seq, "result": self._snapshot(*self._place(sid))}

    def attach(self, command: c.Attach) -> None:
        sid = self._known(command.id, command.scope)
        form, space, bound = self._place(sid)
        frozen = self.registry.frozen(sid)
        oldest = max(self.registry.created(sid), self.retained_after())
        wanted = command.after is None or not oldest <= command.after <= self.seq
        answer = (frozen or encode(self._snapshot(form, space, bound))) if wanted else b""
        self.batch.frames.append(
            c.Hosted(
                sid,
                command.id,
                command.sink,
                form,
                space.network,
                bound if frozen is None else None,
                self.seq,
                None if wanted else command.after,
                self.registry.created(sid),
                answer,
                self.registry.is_durable(sid),
                command.token,
                form.state(space, bound) if frozen is None else None,
                self.group_store.statements[self.registry.statement(sid)],
            )
        )

    # -- moving a subscription -----------------------------------------------------------------------------------
    def patch(self, command: c.Patch) -> JsonObject:
        """Move the point, suspend or resume; a change of the answer takes a seq of its own."""
        sid = self._known(command.id, command.scope)
        form, space, bound = self._place(sid)
        params, moved = self.registry.params(sid), bound
        if command.params is not None:
            check_given(command.params)
            given = decode_exact(params) | command.params
            resolve.check_parameters(
                parse(self.group_store.statements[self.registry.statement(sid)].sql), given
            )
            moved, params = form.bind(given), encode_exact(given)
        frozen = self.registry.frozen(sid)
        was_active, active = frozen is None, frozen is None if command.active is None else command.active
        before = self._snapshot(form, space, bound) if frozen is None else decode(frozen)
        after = self._snapshot(form, space, moved)

        packed = self._packed_state(form, space, bound) if was_active else None
        self._shift(sid, form, space, bound if was_active else None, moved if active else None)
        if not isinstance(space, MarkedSpace):  # kept once: a point that never moved needs no history
            created = (sid, self.registry.created(sid), 0, "created", self.registry.params(sid), None, None)
            self.batch.writes.history.append(created)
        self.registry.set_params(sid, params)
        change = form.difference(_plain(before), _plain(after)) if active else None
        if was_active and not active:
            self.registry.freeze(sid, encode(before))
        elif active:
            self.registry.freeze(sid, None)
        if change is not None:
            self.seq += 1
            self._send(self.seq, 0, space, "address", Draft("change", targets=(sid,), payload=encode(change)))
        kind = "suspended" if not active else "patched" if was_active else "resumed"
        self.batch.writes.updates[sid] = (params, active, self.registry.frozen(sid))
        self.marks.moved(self.batch, self.seq, sid, kind, params, packed, space)
        self.batch.weight += 1
        return {"id": command.id, "seq": self.seq, "result": after, "active": active}

    def _packed_state(self, form: Form, space: Space, bound: Bound) -> bytes | None:
        return form.pack_state(form.state(space, bound)) if isinstance(form, StatefulForm) else None

    def _shift(self, sid: int, form: Form, space: Space, before: Bound | None, after: Bound | None) -> None:
        if before == after:
            return
        if before is None:
            assert after is not None
            space.add([sid], [after])
        elif after is None:
            space.remove(sid, before)
        else:
            space.move(sid, before, after)
        if isinstance(space, MarkedSpace):
            self.marks.relabelled(self.batch, self.seq, {sid}, form, space)
            after = None if after is None else space.locate(sid)
        self.batch.frames.append(c.Moved(sid, after, None if after is None else form.state(space, after)))

    # -- recovery ------------------------------------------------------------------------------------------------
    def restore(self, subscriptions: Sequence[StoredSubscription]) -> None:
        """Take a chunk of stored subscriptions in."""
        points: dict[int, Unmarked] = {}
        for sid, id, statement, group, params, active, durable, created, frozen, tenant, key in subscriptions:
            kept = None if active else frozen or b"{}"
            scope = WHOLE if tenant == DEFAULT_TENANT and not key else Scope(tenant, key)
            self.registry.put(sid, id, group, statement, params, created, durable, kept, scope)
            self.group_store.join(group, statement, 1)
            if active:
                form = self.group_store.form(statement)
                space = self.group_store.space(form, self.groups[group])
                _, sids, bounds = points.setdefault(space.network.id, (space, [], []))
                sids.append(sid)
                bounds.append(form.bind(decode_exact(params)))
        for space, sids, bounds in points.values():
            if isinstance(space, MarkedSpace):
                self.marks.expect(space, sids, bounds)
            else:
                space.add(sids, bounds)


def _plain(answer: JsonObject) -> JsonObject:
    """An answer as it travels, so that one from memory and one from the store compare."""
    plain: JsonObject = decode(encode(answer))
    return plain


_HANDLERS: Mapping[type, Callable[[State, Any], Any]] = {
    c.CreateTable: State.create_table,
    c.DropTable: State.drop_table,
    c.Publish: State.publish,
    c.Transact: State.transact,
    c.Subscribe: State.subscribe,
    c.Patch: State.patch,
    c.Delete: State.delete,
    c.Forget: State.forget,
    c.Result: State.result,
    c.Attach: State.attach,
    c.Inspect: lambda state, command: command.look(state),
    c.Explain: State.explain,
    c.Weigh: State.weigh,
    c.Adopt: State.adopt,
}
