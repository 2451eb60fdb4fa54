"""Undo of batches: a state that has taken some back is like one that has never seen them, in memory and in all it does."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.networks.local import LocalNetwork
from optimizer.choose import chooser
from prosem.delivery.edge import Edge, Stream
from prosem.engine import commands as c
from prosem.engine.backlog import EngineLimits
from prosem.engine.batch import Batch
from prosem.engine.pipeline import Pipeline
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.clock import ManualClock
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import Work, complete
from prosem.store.log import WriteSet
from prosem.values.errors import ProsemError, RefusedError
from prosem.values.wire import decode_exact
from tests.support.effort import examples
from tests.support.every_type import EVERY_TYPE, OTHER, plain
from tests.support.heard import Heard
from tests.support.memory_store import MemoryStore
from tests.support.running import TABLE

Made = tuple[int, int, int, int]  # numbers that a command is made of
HEIR = {"name": "heir", "extends": "t", "columns": [{"name": "z", "type": "integer"}]}
VIEWS = {
    "high": "SELECT k, x, y FROM t WHERE y > 4",
    "both": "SELECT t.k AS k, u.k AS l, y, z FROM t JOIN u USING (x)",
    "ratio": "SELECT k, 100 / (x - 7) AS r FROM t",
}
Templates = tuple[tuple[str, dict[str, Any], dict[str, Any] | None], ...]
TEMPLATES: Templates = (
    *EVERY_TYPE,
    ("SELECT y FROM t", {}, {"change": 3}),
    ("SELECT y FROM t", {"r": 3}, {"change": ":r"}),
    ("SELECT y FROM t WHERE k IN (:a, :b)", {"a": 1, "b": 2, "r": 3}, {"change": ":r"}),
    ("SELECT y FROM t WHERE k = :a", {"a": 3, "r": 3}, {"percent": ":r"}),
    ("SELECT y FROM t WHERE k = :a", {"a": 3, "r": 2, "s": 5}, {"may": ":r", "must": ":s"}),
    ("SELECT MIN(y) FROM t WHERE x BETWEEN :a AND :b", {"a": 0, "b": 9, "r": 2}, {"change": ":r"}),
    ("SELECT COUNT(*) FROM t WHERE x >= :a", {"a": 0, "r": 2}, {"change": ":r"}),
    ("SELECT AVG(y) FROM t WHERE x >= :a", {"a": 0, "r": 2}, {"change": ":r"}),
    ("SELECT k, y, x FROM t WHERE x BETWEEN :a AND :b ORDER BY y DESC LIMIT 3", {"a": 0, "b": 9}, None),
    ("SELECT x, COUNT(*) AS n, MIN(y) AS low FROM t WHERE y >= :a GROUP BY x HAVING COUNT(*) > :b", {"a": 0, "b": 1}, None),
    ("SELECT MAX(y) FROM t WHERE x IN (:a, :b)", {"a": 0, "b": 9}, None),
    ("SELECT SUM(y) FROM t JOIN u USING (x) WHERE z >= :a", {"a": 0}, None),
    ("SELECT MIN(y) FROM high WHERE x BETWEEN :a AND :b", {"a": 0, "b": 9}, None),
    ("SELECT * FROM both WHERE y < :a", {"a": 5}, None),
    ("SELECT y FROM high WHERE k = :a", {"a": 3}, {"change": 2}),
    ("SELECT r FROM ratio WHERE k = :a", {"a": 3}, {"change": 2}),
    ("SELECT COUNT(*) FROM heir WHERE x >= :a", {"a": 0}, None),
)  # fmt: skip


NOTIFIED = tuple(
    one for one in TEMPLATES if one[2] is not None and "high" not in one[0] and "ratio" not in one[0]
)
EVENTS_AND_SUBSCRIPTIONS = 36  # the kinds of commands below this are of these


class Comparable(Heard):
    """Frames as they are compared: lists have no order, and the end of a stream is one."""

    def gone(self, stream: Stream) -> None:
        self.frames.append((stream.id, "gone", 0, None))

    def offer(self, stream: Stream, kind: str, seq: int, body: bytes) -> bool:
        self.frames.append((stream.id, kind, seq, plain(body)))
        return True


class World:
    """A state, and views that are being built for it."""

    def __init__(self, plan: str, templates: Templates = TEMPLATES) -> None:
        self.templates = templates
        self.state = EngineState(chooser(plan), Metrics(), clock=ManualClock())
        self.edge = Edge(Metrics(), LocalNetwork, lambda stream, frame: None, lambda sid: None)
        self.sink = Comparable()
        self.hosted: set[str] = set()
        self.state.marks.seqs = 10  # marks are renewed all the time
        self.builds: list[Any] = []
        for table in (TABLE, OTHER):
            self.state.execute(c.CreateTable(table))
        rows = [{"op": "insert", "row": {"k": k, "x": k % 4, "y": 3 * k % 11}} for k in range(6)]
        self.state.execute(c.Publish("t", rows))
        self.state.begin()

    def run(self, made: Made) -> Any:
        """The answer of a command, or why it was refused."""
        try:
            command = self._command(*made)
            answer = None if command is None else self.state.execute(command)
        except ProsemError as error:
            return type(error)  # what it lists has no order
        if isinstance(answer, c.PreparedView):
            if answer.build is not None:
                answer.build.fill()
                self.builds.append(answer.build)
            return answer.view
        return plain(answer) if isinstance(answer, dict) else answer

    def _command(self, kind: int, a: int, b: int, d: int) -> c.Command | None:
        events = [
            {"op": "upsert", "row": {"k": (a + at) % 9, "x": b, "y": (d + 5 * at) % 13}}
            for at in range(1 + d % 3)
        ]
        ids = [self.state.registry.id(sid) for sid in self.state.registry.sids()]
        names, build = list(VIEWS), self.builds[a % len(self.builds)] if self.builds else None
        sql, params, notify = self.templates[a % len(self.templates)]
        id = ids[a % len(ids)] if ids else "none"
        other = {"op": "upsert", "table": "u", "row": {"k": a % 5, "x": b, "z": d}}
        choices: list[c.Command | None] = [
            c.Publish("t", events),
            c.Publish("t", [{"op": "delete", "key": {"k": a % 9}}]),
            c.Publish("t", [{"op": "update", "key": {"k": a % 9}, "set": {"y": d}}]),
            c.Publish("heir", [{"op": "upsert", "row": {"k": 20 + a % 3, "x": b, "y": d, "z": a}}]),
            c.Transact([{"table": "t", **event} for event in events] + [other], c.Idempotency(f"key{a}")),
            c.Subscribe(
                replace(parse(sql), per="transaction" if d == 12 and notify is None else "event"),
                notify,
                [(f"id{a}.{b}.{d}" if d % 2 else None, {name: (b if at % 2 else d) for at, name in enumerate(params)})],
                durable=b % 4 != 0,
            ),
            c.Patch(id, dict.fromkeys(self._params(id, b), d if b % 2 else b)) if ids else None,
            c.Patch(id, None, active=b % 2 == 0),
            c.Delete(id),
            c.Attach(id, None, self.sink),
            c.Result(id),
            c.CreateTable(HEIR),
            c.DropTable(("heir", "u")[b % 2]),
            c.PrepareView(names[a % 3], VIEWS[names[a % 3]]),
            None if build is None else c.InstallView(build),
            c.DropView(names[a % 3]),
            c.Weigh({"bandwidth": 1.0 + d}),
            c.Explain("t", events[0]),
        ]  # fmt: skip
        weights = (6, 3, 3, 2, 3, 8, 4, 3, 3, 1, 1, 1, 1, 2, 3, 1, 1, 1)
        return [one for one, weight in zip(choices, weights, strict=True) for _ in range(weight)][
            kind % sum(weights)
        ]

    def _params(self, id: str, b: int) -> list[str]:
        """Some or all of the parameters of a subscription; radii alone leave it where it is."""
        sid = self.state.registry.sid(id)
        assert sid is not None
        form = self.state.place(sid)[0]
        radii = [name for name in ("r", "s") if name in params_of(self.state, sid)]
        return radii if b % 3 == 0 else [*form.query.parameters, *radii][: 1 + b % 3]

    def known(self) -> dict[str, Any]:
        """Everything that is not a structure over it."""
        state = self.state
        groups, registry, tables = state.group_store, state.registry, state.table_store
        subscriptions = [
            (
                *(sid, registry.id(sid), registry.group(sid), registry.statement(sid), registry.params(sid)),
                *(plain(registry.frozen(sid)), registry.created(sid), registry.is_durable(sid)),
                registry.key(sid),
            )
            for sid in registry.sids()
        ]
        return {
            "counters": (state.seq, state.next_table, groups.next_group, groups.next_statement, registry.next_sid),
            "rows": tables.rows, "visible": tables.visible, "wide": tables.wide,
            "names": {table.name: table for table in tables},
            "groups": groups.by_id, "sizes": groups.sizes, "statements": groups.statements,
            "uses": groups._uses, "members": groups._members, "spaces": set(groups.spaces),
            "labels": groups._space_of_label, "names of groups": groups._of_name, "empty": groups._empty_since,
            "flags": (set(groups.keeping), groups.per_transaction, groups.from_log),
            "of tables": {table: sorted(some) for table, some in groups._spaces_of_table.items() if some},
            "views": set(state.views), "built": {view.name for view in state.views.being_built},
            "subscriptions": subscriptions, "count": len(registry), "by key": registry.of_key(0),
            "unstreamed": set(state.unstreamed), "marked": set(state.marks._marked),
            "weights": state.chooser.weights,
        }  # fmt: skip

    def check(self) -> None:
        for space in self.state.spaces.values():
            check = getattr(space, "check", None)
            if check is not None:
                check()

    def answers(self) -> dict[str, Any]:
        registry = self.state.registry
        ids = [registry.id(sid) for sid in registry.sids()]
        return {id: plain(self.state.execute(c.Result(id))["result"]) for id in ids}

    def heard(self, batch: Batch) -> list[Any]:
        """What the batch sends to all subscriptions; those that are new are attached after it."""
        registry = self.state.registry
        ids = {registry.id(sid) for sid in registry.sids()}
        complete(self.edge.release(batch.frames, batch.writes.last_seq))
        for id in sorted(ids - self.hosted):
            self.state.execute(c.Attach(id, None, self.sink))
        self.hosted = ids
        complete(self.edge.release(self.state.begin().frames, self.state.seq))
        found, self.sink.frames = self.sink.frames, []
        return sorted(found, key=repr)

    def take_back(self, batches: list[list[Made]]) -> None:
        """Commands that are taken back: those of the batch that is refused, and what was processed after it."""
        builds = list(self.builds)
        for made in batches[0]:
            self.run(made)
        refused = self.state.begin()
        for made in batches[1] if len(batches) > 1 else ():
            self.run(made)
        self.state.take_back(refused)
        self.builds = builds
        assert self.state.batch.writes.is_empty()
        assert not self.state.batch.frames


def params_of(state: EngineState, sid: int) -> list[str]:
    return list(decode_exact(state.registry.params(sid)))


def written(writes: WriteSet) -> dict[str, Any]:
    """What is stored; items are compared as they are afterwards, messages as frames, and marks may be renewed earlier."""
    fields = {name: getattr(writes, name) for name in WriteSet.__slots__}  # type: ignore[attr-defined]
    for name in ("measurements", "items", "messages", "size_bytes"):
        del fields[name]
    fields["history"] = [
        (sid, seq, kind, params) for sid, seq, _, kind, params, *_ in writes.history if kind != "marked"
    ]
    fields["updates"] = {
        sid: (params, active, plain(frozen)) for sid, (params, active, frozen) in writes.updates.items()
    }
    return fields


def compare(world: World, other: World) -> None:
    known, expected = world.known(), other.known()
    for what, one in known.items():
        assert one == expected[what], what
    world.check()
    assert world.answers() == other.answers()


Rounds = list[tuple[list[Made], list[list[Made]] | None]]  # what both do, after what one does and takes back


def rounds_of(kinds: int) -> st.SearchStrategy[Rounds]:
    one = st.tuples(st.integers(0, kinds), st.integers(0, 60), st.integers(0, 12), st.integers(0, 12))
    undone = st.lists(st.lists(one, min_size=1, max_size=6), min_size=1, max_size=2)
    return st.lists(st.tuples(st.lists(one, max_size=8), st.one_of(st.none(), undone)), max_size=8)


def undo_here_and_there(plan: str, rounds: Rounds, templates: Templates = TEMPLATES) -> None:
    """Two states do the same, and one of them other things besides, which it takes back."""
    world, other = World(plan, templates), World(plan, templates)
    kept: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
    for together, undone in rounds:
        if undone is not None:
            world.take_back(undone)
            compare(world, other)
        for made in together:
            assert repr(world.run(made)) == repr(other.run(made))
        batches = world.state.begin(), other.state.begin()
        assert written(batches[0].writes) == written(batches[1].writes)
        assert world.heard(batches[0]) == other.heard(batches[1])
        for batch, items in zip(batches, kept, strict=True):
            items |= batch.writes.items
        present = [{at: state for at, state in items.items() if state is not None} for items in kept]
        assert present[0] == present[1]
    compare(world, other)


@pytest.mark.parametrize("plan", ["reformulate", "enumerate"])
@settings(max_examples=examples(40), deadline=None)
@given(rounds_of(45))
def test_what_is_taken_back_has_never_been(plan: str, rounds: Rounds) -> None:
    undo_here_and_there(plan, rounds)


@settings(max_examples=examples(40), deadline=None)
@given(rounds_of(EVENTS_AND_SUBSCRIPTIONS - 2))
def test_notified_values_are_what_they_were(rounds: Rounds) -> None:
    undo_here_and_there("reformulate", rounds, NOTIFIED)


# -- the pipeline --------------------------------------------------------------------------------------------------
class Picky(MemoryStore):
    """Refuses what has a row with this y, or a subscription with this beginning of its id."""

    def write(self, batch: WriteSet) -> None:
        self.probe(batch)
        super().write(batch)

    def probe(self, batch: WriteSet) -> None:
        rows = [row for some in batch.rows.values() for row in some.values() if row is not None]
        if any(row[2] == REFUSED for row in rows) or any(
            one[1].startswith("bad") for one in batch.subscriptions
        ):
            raise RefusedError("not this one")


REFUSED = 7
Replies = list[tuple[c.Command, "Future[Any]"]]


class Piped(World):
    """A pipeline over a store, driven step by step."""

    def __init__(self, store: MemoryStore, limits: EngineLimits) -> None:
        self.templates, self.builds, self.sink = TEMPLATES, [], Comparable()
        self.store, self.metrics = store, Metrics()
        self.edge = Edge(self.metrics, LocalNetwork, lambda stream, frame: None, lambda sid: None)
        self.posted: list[Work] = []
        self.pipeline = Pipeline(
            store,
            self._recover,
            self.posted.append,
            self.edge,
            self.metrics,
            clock=ManualClock(),
            limits=limits,
        )
        self.settle()
        for table in (TABLE, OTHER):
            self.pipeline.submit(c.CreateTable(table))
            self.settle()

    def _recover(self, seen: int) -> EngineState:
        self.state = EngineState(chooser("reformulate"), self.metrics, clock=ManualClock())
        return self.state

    def settle(self) -> None:
        while self.pipeline.step() or self.pipeline.committer.step() or self.posted:
            posted, self.posted[:] = self.posted[:], []
            for one in posted:
                complete(one())

    def outcome(self, future: Future[Any]) -> Any:
        error = future.exception(timeout=0)
        return type(error) if error is not None else plain(future.result())


STEPS = st.sampled_from(["engine", "committer"])


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 34), *[st.integers(0, 60)] * 3, st.lists(STEPS, max_size=3)), max_size=25
    ),
    st.integers(1, 8),
)
def test_commands_around_refused_ones_are_carried_out_as_if_those_had_not_been(
    asked: list[tuple[int, int, int, int, list[str]]], max_batch: int
) -> None:
    world = Piped(Picky(), EngineLimits(max_batch=max_batch))
    replies: Replies = []
    for kind, a, b, d, steps in asked:
        command = world._command(kind, a, b % 13, d % 13)
        if isinstance(command, c.Subscribe) and a % 5 == 0:
            command = replace(command, rows=[(f"bad{len(replies)}", command.rows[0][1])])
        if command is not None:
            replies.append((command, world.pipeline.submit(command)))
        for step in steps:
            (world.pipeline if step == "engine" else world.pipeline.committer).step()
    world.settle()
    assert world.metrics.rebuilds == 0
    other = Piped(MemoryStore(), EngineLimits())
    for command, future in replies:
        found = world.outcome(future)
        if found is not RefusedError:
            expected = other.pipeline.submit(command)
            other.settle()
            assert repr(found) == repr(other.outcome(expected))
    assert world.store.events == other.store.events
    compare(world, other)
    assert world.pipeline.view.row_counts == other.pipeline.view.row_counts
    assert world.pipeline.view.groups == other.pipeline.view.groups
    assert world.pipeline.view.seq == other.pipeline.view.seq
    assert world.pipeline.backlog == 0
