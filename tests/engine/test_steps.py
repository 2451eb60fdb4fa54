"""Publish → commit → fold in one thread without a clock: the steps of engine, committer and edge, called one by one.

The engine's state, the edge, the local network and the subscriber are the real ones; the store is in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from cn.networks.local import LocalNetwork
from optimizer.choose import chooser
from prosem.delivery.edge import Edge
from prosem.delivery.subscriber import Subscriber
from prosem.engine import commands as c
from prosem.engine.pipeline import Pipeline
from prosem.engine.recovery import fill
from prosem.engine.state import EngineState
from prosem.runtime.clock import ManualClock
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import Work, complete
from prosem.values.errors import BusyError, CommitError, RecoveringError, RefusedError, ResourceError
from prosem.values.wire import decode
from tests.support.live import insert, update
from tests.support.memory_store import MemoryStore
from tests.support.running import TABLE, publish, subscribe


class Steps:
    """All parts from a command to a sink; nothing happens unless a step is called.

    `is_narrow`: columns that are not used stay in the store.
    """

    def __init__(self, is_narrow: bool = False) -> None:
        self._is_narrow = is_narrow
        self.clock, self.metrics, self.store = ManualClock(), Metrics(), MemoryStore()
        self.posted: list[Work] = []
        self.edge = Edge(self.metrics, LocalNetwork, lambda stream, frame: None, lambda sid: None)
        self.pipeline = Pipeline(
            self.store, self._recover, self.posted.append, self.edge, self.metrics, clock=self.clock
        )
        self.fails_to_recover: list[Exception] = []

    def _recover(self, seen: int) -> EngineState:
        if self.fails_to_recover:
            raise self.fails_to_recover.pop(0)
        stored = self.store if self._is_narrow else None
        state = EngineState(chooser("auto"), self.metrics, clock=self.clock, stored=stored)
        fill(state, self.store, lambda *said: None)
        return state

    def deliver(self) -> None:
        """What the thread of the network side does."""
        posted = self.posted[:]
        del self.posted[: len(posted)]
        for one in posted:
            complete(one())

    def settle(self) -> None:
        """Steps in turn, until there is nothing to do."""
        while self.pipeline.step() or self.pipeline.committer.step() or self.posted:
            self.deliver()

    def call(self, command: c.Command) -> Any:
        future = self.pipeline.submit(command)
        self.settle()
        return future.result(timeout=0)


@pytest.fixture
def steps() -> Iterator[Steps]:
    before = threading.active_count()
    made = Steps()
    made.settle()
    made.call(c.CreateTable(TABLE))
    yield made
    assert threading.active_count() == before, "no thread is started"


def listening(steps: Steps, id: str) -> Subscriber:
    sink = Subscriber(steps.edge, steps.pipeline.submit, steps.metrics, 100)
    sink.attach(id, None)
    steps.settle()
    assert [item.kind for item in sink.take()] == ["snapshot"]
    return sink


def test_a_change_reaches_a_sink_step_by_step(steps: Steps) -> None:
    sink = listening(steps, steps.call(subscribe(0, 9))["id"])
    pipeline, committer = steps.pipeline, steps.pipeline.committer
    reply = pipeline.submit(publish(insert(k=1, x=5, y=42), insert(k=2, x=5, y=41)))
    assert not committer.step(), "nothing is handed over yet"
    assert pipeline.step(), "processed"
    assert pipeline.step(), "handed over"
    assert not pipeline.step()
    assert not steps.store.events, "nothing is stored before the commit"
    before = pipeline.view
    assert committer.step(), "committed"
    assert [seq for seq, *_ in steps.store.events] == [1, 2]
    assert not reply.done()
    assert not sink.take(), "nothing is delivered before its turn"
    steps.deliver()
    assert reply.result(timeout=0)["last_seq"] == 2
    assert (before.seq, pipeline.view.seq) == (0, 2)
    assert [*before.row_counts.values(), *pipeline.view.row_counts.values()] == [0, 2]
    got = sink.take()
    assert [(item.kind, item.seq) for item in got] == [("change", 1), ("change", 2), ("progress", 2)]
    assert [decode(item.body)["value"] for item in got[:2]] == [42, 41]
    assert not pipeline.step()
    assert not committer.step()


def test_the_next_batch_is_processed_while_one_commits(steps: Steps) -> None:
    sink = listening(steps, steps.call(subscribe(0, 9))["id"])
    first = steps.pipeline.submit(publish(insert(k=1, x=5, y=42)))
    assert steps.pipeline.step()
    assert steps.pipeline.step()
    second = steps.pipeline.submit(publish(update(1, y=40)))
    assert steps.pipeline.step(), "processed before the first is committed"
    assert not steps.pipeline.step(), "one batch is committed at a time"
    steps.settle()
    assert [first.result(timeout=0)["last_seq"], second.result(timeout=0)["last_seq"]] == [1, 2]
    assert [item.seq for item in sink.take() if item.kind == "change"] == [1, 2]


def test_a_failing_commit_applies_nothing_and_the_next_one_works(steps: Steps) -> None:
    id = steps.call(subscribe(0, 9))["id"]
    sink = listening(steps, id)
    steps.call(publish(insert(k=1, x=5, y=42)))
    sink.take()
    steps.store.failures.append(CommitError("the connection broke"))
    failing = steps.pipeline.submit(publish(update(1, y=1)))
    assert steps.pipeline.step()
    assert steps.pipeline.step()
    after = steps.pipeline.submit(publish(update(1, y=2)))
    assert steps.pipeline.step()
    assert steps.pipeline.committer.step(), "the commit fails"
    assert steps.pipeline.step(), "all that is not committed is thrown away"
    with pytest.raises(RecoveringError):
        steps.pipeline.submit(publish(update(1, y=3)))
    steps.settle()
    for future in (failing, after):
        assert isinstance(future.exception(timeout=0), CommitError)
    assert [seq for seq, *_ in steps.store.events] == [1]
    assert steps.metrics.rebuilds == 1
    assert steps.call(c.Result(id))["result"]["value"] == 42
    assert not [item for item in sink.take() if item.kind == "change"]  # attaches again where it stands
    steps.call(publish(update(1, y=40)))
    assert [decode(item.body)["value"] for item in sink.take() if item.kind == "change"] == [40]


def test_the_refused_command_alone_is_answered(steps: Steps) -> None:
    steps.store.failures.append(RefusedError("not this one"))
    bad, good = (steps.pipeline.submit(publish(insert(k=k, x=1, y=1))) for k in (1, 2))
    steps.pipeline.step()
    steps.pipeline.step()
    steps.store.probed.clear()
    steps.store.failures.append(RefusedError("not this one"))  # in its trial
    steps.settle()
    assert isinstance(bad.exception(timeout=0), RefusedError)
    assert good.result(timeout=0)["count"] == 1
    assert len(steps.store.probed) == 2, "both were suspects"
    assert (steps.metrics.rebuilds, steps.metrics.undone) == (0, 1)


def test_publishing_is_held_off_until_the_database_can_write(steps: Steps) -> None:
    steps.store.failures.append(ResourceError("the disk is full"))
    with pytest.raises(ResourceError):
        steps.call(publish(insert(k=1, x=1, y=1)))
    steps.settle()
    with pytest.raises(ResourceError):
        steps.pipeline.submit(publish(insert(k=1, x=1, y=1)))
    assert not steps.pipeline.committer.step()
    wait_s = steps.pipeline.committer.wait_s()
    assert wait_s is not None
    steps.clock.advance(wait_s)
    assert steps.pipeline.committer.step(), "the batch is tried again"
    assert steps.call(publish(insert(k=1, x=1, y=1)))["count"] == 1


@pytest.mark.parametrize("is_handed", [True, False])
def test_reads_go_on_when_the_database_cannot_write(steps: Steps, is_handed: bool) -> None:
    """One in the batch that is refused, or processed after it while that was being written."""
    id = steps.call(subscribe(0, 9))["id"]
    steps.store.failures.append(ResourceError("the disk is full"))
    refused = steps.pipeline.submit(publish(insert(k=1, x=1, y=1)))
    if is_handed:
        read = steps.pipeline.submit(c.Result(id))
    while not steps.pipeline.committer.job:
        assert steps.pipeline.step()
    if not is_handed:
        read = steps.pipeline.submit(c.Result(id))
        while steps.pipeline.step():
            pass
    steps.settle()
    assert isinstance(refused.exception(timeout=0), ResourceError)
    assert read.result(timeout=0)["result"]["value"] is None


def test_a_recovery_that_fails_is_tried_again_after_a_while() -> None:
    steps = Steps()
    steps.fails_to_recover.append(OSError("no route to host"))
    steps.settle()
    assert not steps.pipeline.ready
    wait_s = steps.pipeline.wait_s()
    assert wait_s is not None
    assert wait_s > 0
    steps.clock.advance(wait_s)
    steps.settle()
    assert steps.pipeline.ready


def test_what_waits_is_worked_off_before_the_end(steps: Steps) -> None:
    reply = steps.pipeline.submit(publish(insert(k=1, x=1, y=1)))
    steps.pipeline.end()
    with pytest.raises(BusyError):
        steps.pipeline.submit(publish(insert(k=2, x=1, y=1)))
    steps.settle()
    assert steps.pipeline.is_over
    assert reply.result(timeout=0)["count"] == 1
