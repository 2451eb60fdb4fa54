"""Events: applied in their order, passed to every affected space, and explained without being applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from optimizer.choose import Chooser
from optimizer.known import by_way
from optimizer.plan import addresses
from prosem.engine import commands as c
from prosem.engine.effect import Effect
from prosem.engine.explaining import explain_space, rehearse
from prosem.engine.measuring import MOST_TRIED, measure
from prosem.engine.memory import EngineMemory
from prosem.engine.tables import cut
from prosem.engine.transaction import Run, transaction
from prosem.engine.validate import effect, effects, known_table
from prosem.engine.views import Derived
from prosem.store.log import WriteSet
from prosem.types.base import UNAFFECTED, ArrangedSpace, RememberingSpace, Space
from prosem.values.errors import ViewRowError
from prosem.values.model import Delta, Group, JsonObject, Key, Row, Table, View
from prosem.values.undo import net, opposite
from prosem.values.wire import encode
from prosem.views.graph import changes_of

SAMPLE = 97  # the CPU time of every 97th event counts for all: asking for it is dear on a busy machine


_new = tuple.__new__  # a third quicker than calling the class of a named tuple
Deltas = dict[int, tuple[Space, list[Delta]]]  # space id → the space, and what it is to take


def runs_of(memory: EngineMemory, command: c.Publish | c.Transact) -> Sequence[Run]:
    """What the events of a request do, in runs of one table; raises at the first that is wrong. Changes nothing."""
    return memory.table_store.complete(lambda: _runs_of(memory, command))


def read_ahead(memory: EngineMemory, commands: Sequence[c.Command]) -> None:
    """Read the columns that these commands will need and that are not in memory, all together."""
    works = [partial(_runs_of, memory, one) for one in commands if isinstance(one, c.Publish | c.Transact)]
    memory.table_store.read_ahead(works)


def _runs_of(memory: EngineMemory, command: c.Publish | c.Transact) -> Sequence[Run]:
    store, tables = memory.table_store, memory.tables(command.scope.tenant)
    if isinstance(command, c.Transact):
        return transaction(store, tables, command.events)
    table = known_table(tables, command.table)
    found = effects(table, store.whole(table), command.events, command.at, store.family(table))
    return [Run(table, found, lambda number: f"{command.at}/{number}")]


def trial_of(memory: EngineMemory, command: c.Publish | c.Transact) -> WriteSet:
    """The rows and the log entries that a request would write, to be tried. Changes nothing."""
    writes = WriteSet(last_seq=memory.seq)
    for table, found, _ in runs_of(memory, command):
        writes.tables[table.id] = table
        net = writes.rows.setdefault(table.id, {})
        for op, key, old, new in found:
            net[key] = new
            before, after = (None if row is None else encode(row) for row in (old, new))
            writes.last_seq += 1
            writes.events.append((writes.last_seq, table.id, op, before, after, writes.last_seq))
            writes.size_bytes += _length(before) + 2 * _length(after)
    return writes


def _first_plan(space: Space, description: Any) -> str:
    return space.plans[0]


def _length(text: bytes | None) -> int:
    return 0 if text is None else len(text)


class Publishing:
    """What publishers ask for. A request is valid as a whole before its first event is applied."""

    def __init__(self, memory: EngineMemory) -> None:
        self._memory = memory
        self._groups = memory.group_store
        self._tables = memory.table_store
        self._metrics = memory.metrics

    @property
    def _chooser(self) -> Chooser:
        """The one in force: benches put in their own."""
        return self._memory.chooser

    def publish(self, command: c.Publish) -> JsonObject:
        return self.apply(runs_of(self._memory, command), command.idempotency)

    def transact(self, command: c.Transact) -> JsonObject:
        return self.apply(runs_of(self._memory, command), command.idempotency)

    def apply(self, runs: Sequence[Run], idempotency: c.Idempotency | None = None) -> JsonObject:
        """Events that were found valid, in their order; all of one request."""
        derived = self._derive(runs)
        first, last = self._memory.seq + 1, self._memory.seq + sum(len(run.effects) for run in runs)
        deltas: Deltas = {}
        among: dict[int, list[Delta]] = {}  # all, by table
        all_derived = iter(derived)
        for run in runs:
            self._apply_run(run, deltas, among, all_derived, last)
        self._step(deltas, among)
        self._memory.undo.add(self._take_back, runs, derived, deltas, first - 1)
        answer = {"first_seq": first, "last_seq": self._memory.seq, "count": self._memory.seq + 1 - first}
        return answer if idempotency is None else self._remember(idempotency, answer)

    def _take_back(self, runs: Sequence[Run], derived: Sequence[Derived], deltas: Deltas, seq: int) -> None:
        """Undo a request: tables and views event by event, so that views pass through states that there were; then
        spaces, which take the opposite of the net deltas like any request. Messages of that are thrown away.
        """
        views = self._memory.views
        past = [(run.table, one) for run in runs for one in run.effects]
        for at in reversed(range(len(past))):
            table, one = past[at]
            self._tables.put(table, one.key, one.old)
            if derived:
                views.take_back(derived[at])
        self._memory.seq = seq
        for space, taken in deltas.values():
            if not isinstance(space, RememberingSpace):
                for _ in space.take(opposite(taken), _first_plan):
                    pass

    def _derive(self, runs: Sequence[Run]) -> list[Derived]:
        """Pass the events through the views, if any view depends on one of their tables: the last thing that may fail.

        A row that a view cannot have leaves rows and views as they were.
        """
        views, tables = self._memory.views, self._tables
        if not any(views.is_read(run.table) for run in runs):
            return []
        done: list[tuple[Table, Effect, Derived]] = []
        for table, found, at in runs:
            for number, one in enumerate(found):
                try:
                    derived = views.propagate(changes_of(table, *one[1:]))
                except ViewRowError as error:
                    for past, before, taken in reversed(done):
                        tables.put(past, before.key, before.old)
                        views.undo(taken)
                    raise error.moved(at(number)) from None
                tables.put(table, one.key, one.new)
                done.append((table, one, derived))
        for _, _, derived in done:
            views.note(derived)
        return [derived for _, _, derived in done]

    def _apply_run(
        self,
        run: Run,
        deltas: Deltas,
        among: dict[int, list[Delta]],
        all_derived: Iterator[Derived],
        last: int,
    ) -> None:
        """Some events of one table after each other: rows and log entries, and what each space is to take.

        `last` is the seq of the request's last event.
        """
        table, found, _ = run
        writes = self._memory.batch.writes
        net = writes.rows.setdefault(table.id, {})
        writes.tables[table.id] = table
        watched = [
            (one, routes.concerned, among.setdefault(one.id, []))
            for one in (table, *table.ancestors)
            if len(routes := self._groups.routes(one))
        ]
        seq, size_bytes = self._memory.seq, 0
        put, log = self._tables.setter(table), writes.events.append
        for op, key, old, new in found:
            seq += 1
            put(key, new)
            before = None if old is None else encode(old)
            after = None if new is None else encode(new)
            log((seq, table.id, op, before, after, last))
            size_bytes += (0 if before is None else len(before)) + (0 if after is None else 2 * len(after))
            derived = next(all_derived, None)
            if before == after:  # as it is written: for Python the JSON values true and 1 are equal
                continue
            net[key] = new
            for one, concerned, every in watched:
                was, now = (old, new) if one is table else (cut(old, one), cut(new, one))
                delta = _new(Delta, (seq, one, key, was, now))
                every.append(delta)
                for at, space in concerned(was, now):
                    taken = deltas.get(at)
                    if taken is None:
                        taken = deltas[at] = space, []
                    taken[1].append(delta)
            if derived is not None:
                self._add_derived(derived, deltas, seq)
        self._memory.seq = seq
        writes.size_bytes += size_bytes
        self._memory.batch.weight += len(found)
        self._metrics.events += len(found)

    def _add_derived(self, derived: Derived, deltas: Deltas, seq: int) -> None:
        """The changed rows of views, at the seq of their event, for the spaces over these views."""
        for view, rows in derived.effects:
            for space in self._groups.spaces_of(view):
                taken = deltas.setdefault(space.network.id, (space, []))[1]
                taken += [Delta(seq, view, *change) for change in rows]

    def _step(self, deltas: Deltas, among: Mapping[int, Sequence[Delta]]) -> None:
        """Every space takes all its deltas of the request in one call; messages are put in the order of the events.

        A space that is notified per transaction takes the net deltas, all at the seq of the last event. Others may take only
        some of the deltas of a table, `among` all of them.
        """
        batch, parts, began = self._memory.batch, dict[int, int](), self._memory.clock.elapsed_ns()
        frames, messages = len(batch.frames), len(batch.writes.messages)
        for ordered in self._chooser.order([space for space, _ in deltas.values()]):
            at = ordered.network.id
            space, taken = deltas[at]
            every: Sequence[Delta] = among.get(taken[0].table.id, ())
            if at in self._groups.per_transaction:
                taken, every = net(taken, self._memory.seq), ()
            if taken:
                self._step_space(space, taken, every if len(every) > len(taken) else (), parts, began)
        if len(deltas) > 1:  # those of one seq are in the order of their parts
            if len(batch.frames) > frames + 1:
                batch.frames[frames:] = sorted(batch.frames[frames:], key=attrgetter("seq"))
            if len(batch.writes.messages) > messages + 1:
                batch.writes.messages[messages:] = sorted(batch.writes.messages[messages:], key=itemgetter(1))

    def _step_space(
        self, space: Space, deltas: Sequence[Delta], among: Sequence[Delta], parts: dict[int, int], began: int
    ) -> None:
        """The chosen plan makes the messages of each delta; `parts` has the number of the next message of each seq.

        `began` is when the first space of the request began: the others wait for those before them.
        """
        runs, chooser, clock = self._metrics.plan_runs, self._chooser, self._memory.clock
        elapsed_ns, executed, send, at = (
            clock.elapsed_ns,
            chooser.executed,
            self._memory.send,
            space.network.id,
        )
        described = unaffected = 0

        def choose(space: Space, description: Any) -> str:
            nonlocal described
            described = elapsed_ns()
            return chooser.choose(space, description)

        before = elapsed_ns()
        outcomes = space.take(deltas, choose, among)
        for_each = (elapsed_ns() - before) // len(deltas)  # of what was described for all of them at once
        for delta in deltas:
            seq = delta.seq
            is_sampled = seq % SAMPLE == 0
            cpu = clock.cpu_ns() if is_sampled else 0
            start = elapsed_ns() - for_each
            description, plan, drafts = next(outcomes)
            if is_sampled:
                self._metrics.plan_cpu_ns[plan] += SAMPLE * (clock.cpu_ns() - cpu + for_each)
            if description is None:
                unaffected += 1
                continue
            runs[plan] += 1
            part = parts.get(seq, 0)
            size = send(seq, part, space, plan, drafts)
            parts[seq] = part + len(drafts)
            if executed(seq, at, plan, len(drafts), size, elapsed_ns() - start):
                waited_us = (start - began) / 1e3
                self._measure(seq, space, description, plan, (described - start) / 1e3, waited_us)
        if unaffected:
            runs[UNAFFECTED.plan] += unaffected
        if next(outcomes, None) is not None:  # also lets the space finish
            raise AssertionError("a space gives one outcome for each delta")

    def _measure(
        self, seq: int, space: Any, description: Any, executed: str, described_us: float, waited_us: float
    ) -> None:
        """All plans of a space on the event that it has just taken."""
        clock = self._memory.clock
        start, at = clock.elapsed_ns(), space.network.id
        descriptor, affected = space.descriptor(description), space.affected(description)
        group, part = self._groups.measured_as(at)
        for plan in space.plans:
            if addresses(plan) and affected > MOST_TRIED and plan != executed:
                self._chooser.extrapolate(space, plan, descriptor, affected)
                continue
            found = measure(
                seq, space, description, plan, affected, described_us, self._memory.traffic, clock, waited_us
            )
            ways = {way: one.estimate for way, one in found.items()}
            cheapest = self._chooser.cheapest(ways)
            for way, one in found.items():
                is_executed = plan == executed and ways[way] is cheapest
                self._chooser.learn(at, plan, descriptor, ways[way], executed=is_executed, way=way)
                entry = (seq, group, part, at, by_way(plan, way), descriptor, *one)
                self._memory.batch.writes.measurements.append(entry)
        self._chooser.sampled(at, clock.elapsed_ns() - start)

    def _remember(self, idempotency: c.Idempotency, answer: JsonObject) -> JsonObject:
        if idempotency.first_seq is not None:
            answer = answer | {
                "first_seq": idempotency.first_seq,
                "count": answer["count"] + idempotency.lines_before,
            }
        stored = answer | {"errors": idempotency.errors} if idempotency.errors else answer
        if idempotency.batches is not None:
            stored = stored | {"batches": [*idempotency.batches, answer["last_seq"]]}
        self._memory.batch.writes.idempotency.append(
            (idempotency.key, encode(stored), idempotency.done, answer["count"])
        )
        return answer

    def explain(self, command: c.Explain) -> JsonObject:
        """What an event would cost under each plan of each group it touches, in the order in which these are evaluated.

        Nothing stays applied.
        """
        table, tables = known_table(self._memory.tables(command.scope.tenant), command.table), self._tables
        _, key, old, new = tables.complete(
            lambda: effect(table, tables.whole(table), command.event, "/event", tables.family(table))
        )
        groups: list[JsonObject] = []
        with self._memory.undo.paused(), ExitStack() as rehearsals:
            deltas = self._rehearsed(rehearsals, table, key, old, new)
            for space in self._chooser.order([space for space, _ in deltas.values()]):
                at, (_, some) = space.network.id, deltas[space.network.id]
                explained = self._explain_space(rehearsals, space, some, command.analyze)
                groups += [
                    {
                        "group": group.name,
                        "type": group.type,
                        "space": at,
                        **explained,
                        **self._arranged(group, at),
                    }
                    for group in self._groups.groups_in(at)
                    if explained
                ]
        return {
            "table": table.name,
            "seq": self._memory.seq,
            "weights": self._chooser.weights._asdict(),
            "groups": groups,
        }

    def _arranged(self, group: Group, at: int) -> JsonObject:
        """How the space of a group is arranged that another one is a part of."""
        whole = self._groups.spaces[group.space]
        return (
            {"arrangement": whole.arrangement()}
            if group.space != at and isinstance(whole, ArrangedSpace)
            else {}
        )

    def _rehearsed(
        self, rehearsals: ExitStack, table: Table, key: Key, old: Row | None, new: Row | None
    ) -> Deltas:
        """What each space would take of an event that is taken back when the stack is closed."""
        deltas: Deltas = {}
        if old == new:
            return deltas
        seq, views = self._memory.seq + 1, self._memory.views
        try:
            derived = views.propagate(changes_of(table, key, old, new))
        except ViewRowError as error:
            raise error.moved("/event") from None
        rehearsals.callback(views.undo, derived)
        rehearsals.enter_context(self._tables.rehearsed(table, key, old, new))
        seen = [(one, derived.changes[one.id]) for one in (table, *table.ancestors)]
        for one, rows in (*seen, *derived.effects):
            for space in self._groups.spaces_of(one):
                deltas.setdefault(space.network.id, (space, []))[1].extend(
                    Delta(seq, one, *change) for change in rows
                )
        return deltas

    def _explain_space(
        self, rehearsals: ExitStack, space: Space, deltas: Sequence[Delta], analyze: bool
    ) -> JsonObject:
        """The plans of a space. An event that changes several rows of a view is described by the first that counts."""
        clock, traffic = self._memory.clock, self._memory.traffic
        for delta in deltas:
            description, took_us = rehearse(rehearsals, space, delta, clock)
            if description is not None:
                return explain_space(self._chooser, space, description, took_us, analyze, traffic, clock) | (
                    {"rows": len(deltas)} if isinstance(delta.table, View) else {}
                )
        return {}
