"""Columns that stay in the store: an engine that holds only those used does exactly what one with all of them does."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.delivery.subscriber import Subscriber
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.values.errors import BusyError, CommitError, ProsemError, RefusedError
from prosem.values.wire import decode, encode
from tests.engine.test_steps import Steps
from tests.support.effort import examples
from tests.support.live import insert, update, upsert

COLUMNS = {
    "k": "integer",
    "x": "integer",
    "y": "integer",
    "a": "text",
    "b": "numeric(6,2)",
    "c": "double precision",
    "d": "jsonb",
}
TABLES = (
    {"name": "t", "columns": [{"name": n, "type": kind} for n, kind in COLUMNS.items()], "primary_key": ["k"]},
    {"name": "u", "columns": [{"name": n, "type": "integer"} for n in ("j", "x", "z", "w")], "primary_key": ["j"]},
)  # fmt: skip
VIEW = "SELECT k, a, b * 2 AS twice FROM t WHERE x > 1"
QUERIES = (
    "SELECT MIN(y) FROM t WHERE x BETWEEN :lo AND :hi",
    "SELECT MAX(y) FROM t WHERE x BETWEEN :lo AND :hi AND b >= :lo",
    "SELECT MIN(y) FROM t WHERE a IN ('p', 'q')",
    "SELECT * FROM t WHERE x > :lo",
    "SELECT k, a FROM t WHERE b > :lo OR a = 'p'",
    "SELECT SUM(b) FROM t WHERE x >= :lo",
    "SELECT COUNT(a) FROM t",
    "SELECT DISTINCT a FROM t WHERE x BETWEEN :lo AND :hi",
    "SELECT a, COUNT(*), MAX(c) FROM t GROUP BY a",
    "SELECT k, c, a FROM t ORDER BY c LIMIT 3",
    "SELECT SUM(t.b) FROM t JOIN u ON t.x = u.x WHERE u.z > :lo",
    "SELECT * FROM t JOIN u USING (x) WHERE y > :lo",
    "SELECT * FROM v WHERE twice > :lo",
)
FEW = st.integers(0, 5)
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "x": FEW,
    "a": st.sampled_from(["p", "q", "r", None]),
    "b": st.sampled_from(["1.50", "2.00", "-3.25", None]),
    "c": st.sampled_from([0.5, -0.0, 1e300, None]),
    "d": st.sampled_from([{"m": [1, True]}, "s", None]),
}


@st.composite
def event(draw: st.DrawFn) -> dict[str, Any]:
    """Of table t; no two rows have one y, so that a MIN has one row."""
    k = draw(FEW)
    cells: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=CELLS))
    if draw(st.booleans()):
        cells["y"] = 10 * draw(FEW) + k
    op = draw(st.sampled_from(["upsert", "update", "update", "update", "update", "insert", "delete"]))
    if op == "update":
        return {"op": op, "key": {"k": k}, "set": cells}
    return {"op": op, "key": {"k": k}} if op == "delete" else {"op": op, "row": {"k": k, **cells}}


other_event = st.builds(lambda j, x, z: upsert(j=j, x=x, z=z, w=7), FEW, FEW, FEW)
moved = st.builds(lambda k, to: {"table": "t", "op": "update", "key": {"k": k}, "set": {"k": to}}, FEW, FEW)
asked = st.one_of(
    st.tuples(st.just("publish"), st.lists(event(), min_size=1, max_size=2)),
    st.tuples(st.just("publish"), event().map(lambda one: [one])),
    st.tuples(st.just("publish"), event().map(lambda one: [one])),
    st.tuples(
        st.just("transact"),
        st.lists(
            st.one_of(
                event().map(lambda one: {"table": "t", **one}),
                other_event.map(lambda one: {"table": "u", **one}),
                moved,  # no truncate: it deletes rows in the order of memory, which is none
            ),
            min_size=1,
            max_size=3,
        ),
    ),
    st.tuples(st.just("subscribe"), st.integers(0, len(QUERIES) - 1)),
    st.tuples(st.just("explain"), event()),
    st.tuples(st.sampled_from(["settle", "result"]), st.none()),
    st.tuples(st.just("fail"), st.sampled_from(["refused", "refused", "broken"])),
)
turns = st.lists(st.sampled_from(["engine", "engine", "committer"]), max_size=4)
Step = tuple[str, Any, list[str]]  # what is asked, and which threads take steps then
steps_taken = st.lists(st.builds(lambda one, then: (*one, then), asked, turns), max_size=25)


def plain(value: Any) -> Any:
    """What a value says; lists have no order."""
    if isinstance(value, ProsemError):
        return type(value).__name__, value.detail, value.at
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if name != "timeline"}
    if isinstance(value, list):
        return sorted(map(repr, map(plain, value)))
    return value


class Played:
    """One engine, and all that is seen of it."""

    def __init__(self, is_narrow: bool) -> None:
        self.steps = Steps(is_narrow)
        self.steps.settle()
        for table in TABLES:
            self.steps.call(c.CreateTable(table))
        self.steps.call(c.Publish("u", [insert(j=j, x=j, z=j) for j in range(3)]))
        rows = [insert(k=k, x=k, y=10 * k, a="p", b=k, c=k / 2, d=[k]) for k in range(6)]
        self.steps.call(c.Publish("t", rows))
        prepared = self.steps.call(c.PrepareView("v", VIEW))
        prepared.build.fill()
        self.steps.call(c.InstallView(prepared.build))
        self.said: list[Any] = []
        self._made = 0
        self._waiting: list[Future[Any]] = []
        self._sinks: dict[str, Subscriber] = {}

    def play(self, name: str, given: Any, turns: Sequence[str]) -> None:
        self._ask(name, given)
        for turn in turns:
            (self.steps.pipeline if turn == "engine" else self.steps.pipeline.committer).step()

    def _ask(self, name: str, given: Any) -> None:
        steps = self.steps
        if name == "settle":
            self.settle()
        elif name == "fail":
            failure = RefusedError("no") if given == "refused" else CommitError("broken")
            steps.store.failures.append(failure)
        elif name == "result":
            for id in self._sinks:
                self._submit(c.Result(id))
        elif name == "subscribe":
            self._subscribe(QUERIES[given])
        elif name == "publish":
            self._submit(c.Publish("t", given))
        elif name == "transact":
            self._submit(c.Transact(given))
        else:
            self._submit(c.Explain("t", given, True))

    def _submit(self, command: c.Command) -> None:
        try:
            self._waiting.append(self.steps.pipeline.submit(command))
        except ProsemError as error:
            self.said.append(plain(error))

    def _subscribe(self, sql: str) -> None:
        """While others are under way; it is followed from when it was first seen to be there."""
        params = {name: {"lo": 1, "hi": 4}[name] for name in parse(sql).parameters}
        self._made += 1
        self._submit(c.Subscribe(parse(sql), None, [(f"s{self._made}", params)]))

    def settle(self) -> None:
        steps = self.steps
        steps.settle()
        while not steps.pipeline.ready:
            steps.clock.advance(10.0)
            steps.settle()
        for future in self._waiting:
            try:
                found = future.result(timeout=0)
            except ProsemError as error:
                found = error
            self.said.append(plain(found if isinstance(found, ProsemError) else decode(encode(found))))
            if isinstance(found, dict) and "id" in found and found["id"] not in self._sinks:
                self._follow(found["id"])
        self._waiting.clear()
        steps.settle()
        for id, sink in self._sinks.items():
            got = [(item.kind, item.seq, plain(decode(item.body or b"null"))) for item in sink.take()]
            self.said.append((id, got))

    def _follow(self, id: str) -> None:
        steps = self.steps
        sink = self._sinks[id] = Subscriber(steps.edge, steps.pipeline.submit, steps.metrics, 1_000)
        sink.attach(id, None)

    def end(self) -> tuple[Any, ...]:
        """What is stored, and all answers at the end: as they are, and after a start."""
        self.steps.store.failures.clear()
        self.settle()
        answers = [self._answers()]
        self.steps.store.failures.append(CommitError("the connection broke"))
        self._submit(c.Publish("u", [upsert(j=9, x=1, z=1)]))
        self.settle()
        answers.append(self._answers())
        assert answers[0] == answers[1], "what is recovered answers the same"
        store = self.steps.store
        rows = {table.name: dict(store._rows.get(table.id, {})) for table in store.tables}
        return rows, store.events, answers, self.said

    def _answers(self) -> dict[str, Any]:
        return {id: plain(decode(encode(self.steps.call(c.Result(id))["result"]))) for id in self._sinks}


def played(is_narrow: bool, steps: Sequence[Step]) -> tuple[Played, tuple[Any, ...]]:
    made = Played(is_narrow)
    for step in steps:
        made.play(*step)
    return made, made.end()


@settings(deadline=None, max_examples=examples(150))
@given(steps=steps_taken)
def test_unused_columns_make_no_difference(steps: list[Step]) -> None:
    _, expected = played(False, steps)
    made, found = played(True, steps)
    for one, other in zip(found, expected, strict=True):
        assert one == other
    state = made.steps.pipeline.state
    assert state is not None
    for table in made.steps.store.tables:
        stored = made.steps.store._rows.get(table.id, {})
        held = state.table_store.held(table)
        assert {key: [row[at] for at in held] for key, row in state.rows[table.id].items()} == {
            key: [row[at] for at in held] for key, row in stored.items()
        }


# -- what is read, and when ----------------------------------------------------------------------------------------
def narrow() -> Steps:
    """An engine with table t, in which a sum uses x and b, and three rows."""
    made = Steps(is_narrow=True)
    made.settle()
    made.call(c.CreateTable(TABLES[0]))
    made.call(c.Subscribe(parse("SELECT SUM(b) FROM t WHERE x > 0"), None, [("sum", {})]))
    made.call(c.Publish("t", [insert(k=k, x=k, y=10 * k, a="old", b=k, c=k / 2) for k in range(1, 4)]))
    made.call(c.Result("sum"))  # a batch after that of the rows: they are taken from the store
    made.store.reads.clear()
    return made


def held(made: Steps) -> list[str]:
    assert made.pipeline.state is not None
    table = made.pipeline.state.tables()["t"]
    return [table.names[at] for at in made.pipeline.state.table_store.held(table)]


def stored(made: Steps, key: int) -> Any:
    (rows,) = made.store._rows.values()
    return rows.get((key,))


def test_only_what_is_used_is_in_memory() -> None:
    made = narrow()
    assert held(made) == ["k", "x", "b"]
    assert made.pipeline.view.columns_in_memory == {1: ("k", "x", "b")}
    late = "SELECT MIN(y) FROM t WHERE a = 'old'"
    assert made.call(c.Subscribe(parse(late), None, [("late", {})]))["result"]["value"] == 10
    assert held(made) == ["k", "x", "y", "a", "b"]
    assert made.pipeline.view.columns_in_memory == {1: ("k", "x", "y", "a", "b")}
    row = made.call(c.Result("late"))["result"]["row"]
    assert decode(encode(row)) == {"k": 1, "x": 1, "y": 10, "a": "old", "b": "1.00", "c": 0.5, "d": None}


def test_requests_that_wait_are_read_for_together() -> None:
    made = narrow()
    waiting = [made.pipeline.submit(c.Publish("t", [update(k, c=7.5)])) for k in (1, 2, 3)]
    waiting.append(made.pipeline.submit(c.Publish("t", [update(1, c=8.5), insert(k=4, a="new")])))
    made.settle()
    assert [future.result(timeout=0)["count"] for future in waiting] == [1, 1, 1, 2]
    assert made.store.reads == [3]
    assert stored(made, 1) == (1, 1, 10, "old", 1, 8.5, None)
    made.call(c.Publish("t", [insert(k=5, a="new")]))
    assert made.store.reads == [3], "a new row has nothing to read"
    made.call(c.Publish("t", [{"op": "delete", "key": {"k": 1}}]))
    assert made.store.reads == [3, 1]
    assert decode(made.store.events[-1][3] or b"")[5] == 8.5, "the log has the whole old row"


def test_rows_of_batches_on_their_way_are_not_read() -> None:
    made = narrow()
    pipeline = made.pipeline
    first = pipeline.submit(c.Publish("t", [update(1, a="first")]))
    assert pipeline.step()
    assert pipeline.step()  # handed over
    second = pipeline.submit(c.Publish("t", [update(1, c=0.25)]))
    assert pipeline.step()
    assert made.store.reads == [1]
    third = pipeline.submit(c.Publish("t", [update(1, d=[1])]))
    assert pipeline.step()
    assert made.store.reads == [1]
    late = pipeline.submit(
        c.Subscribe(parse("SELECT COUNT(a) FROM t WHERE a = 'first'"), None, [("late", {})])
    )
    assert pipeline.step(), "the column is loaded while its new value is not committed"
    made.settle()
    for future in (first, second, third):
        future.result(timeout=0)
    assert late.result(timeout=0)["result"]["value"] == 1
    assert stored(made, 1) == (1, 1, 10, "first", 1, 0.25, [1])


def test_truncate_logs_whole_rows() -> None:
    made = narrow()
    made.call(c.Publish("t", [update(2, c=7.5)]))
    made.call(c.Transact([{"table": "t", **update(3, d=[3])}, {"table": "t", "op": "truncate"}]))
    gone = sorted(decode(old or b"") for _, _, op, old, *_ in made.store.events if op == "delete")
    assert gone == [
        [1, 1, 10, "old", "1.00", 0.5, None],
        [2, 2, 20, "old", "2.00", 7.5, None],
        [3, 3, 30, "old", "3.00", 1.5, [3]],
    ]
    assert made.call(c.Result("sum"))["result"]["value"] is None


def test_a_read_that_fails_refuses_the_request_alone() -> None:
    made = narrow()
    made.store.read_failures.append(BusyError("not now"))
    with pytest.raises(BusyError, match="not now"):
        made.call(c.Publish("t", [update(1, c=7.5)]))
    assert made.metrics.rebuilds == 0
    made.call(c.Publish("t", [update(1, c=7.5)]))
    assert stored(made, 1)[5] == 7.5


def test_a_read_that_fails_half_way_has_the_memory_rebuilt() -> None:
    made = narrow()
    made.call(c.Subscribe(parse("SELECT MIN(x) FROM t"), None, [("least", {})]))
    made.store.read_failures += [BusyError("not now")]
    made.store.reads.clear()
    with pytest.raises(CommitError, match="not now"):
        made.call(c.Result("least"))
    assert made.metrics.rebuilds == 1
    assert made.call(c.Result("least"))["result"]["value"] == 1
    whole = [update(1, x=9, y=0, a="", b=0, c=0, d=None)]
    made.call(c.Publish("t", whole))
    assert made.call(c.Result("least"))["result"]["row"].f1 == 2, "the next row is shown, and was read"


def test_rows_that_are_gone_have_the_memory_rebuilt() -> None:
    made = narrow()
    (rows,) = made.store._rows.values()
    del rows[1,]  # by something that is not the server
    with pytest.raises(CommitError, match="not in the database"):
        made.call(c.Publish("t", [update(1, c=7.5)]))
    made.clock.advance(10.0)
    made.settle()
    assert made.metrics.rebuilds == 1
    with pytest.raises(ProsemError, match="no row with the key"):
        made.call(c.Publish("t", [update(1, c=7.5)]))


def test_a_table_that_another_extends_is_held_whole() -> None:
    made = narrow()
    made.call(c.CreateTable({"name": "h", "extends": "t", "columns": [{"name": "e", "type": "text"}]}))
    assert held(made) == list(COLUMNS)
    made.call(c.Publish("h", [insert(k=7, x=1, y=1, a="heir", e="own")]))
    made.call(c.Publish("h", [update(7, e="other")]))
    made.call(c.Publish("t", [update(1, a="own")]))
    found = c.Subscribe(parse("SELECT k, a FROM t WHERE x = 1"), None, [("both", {})])
    assert plain(made.call(found)["result"]) == plain({"rows": [{"k": 1, "a": "own"}, {"k": 7, "a": "heir"}]})
    assert made.store.reads == []
