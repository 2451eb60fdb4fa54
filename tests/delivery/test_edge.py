"""Streams of lazy listeners in any order of events: the real edge, network and queues, the steps chosen by Hypothesis.

The model's engine gives every change a seq, and its replayer sends the past piece by piece, so that a queue may be full,
a stream attached again or detached between any two of them. Whatever the order, a stream holds every change once.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from cn.model.message import Message
from cn.model.network import Space
from cn.networks.local import LocalNetwork
from prosem.delivery.edge import MAX_PUT_ASIDE_BYTES, Edge, Stream
from prosem.delivery.subscriber import Subscriber
from prosem.engine import commands as c
from prosem.runtime import slices
from prosem.runtime.metrics import Metrics
from prosem.types.base import Bound
from tests.support.effort import examples, seeds

SUBSCRIPTIONS = 2
SPACE = Space(1, 1, True)
FAULTY = b"faulty"


def _change(messages: list[Message], bound: Bound, state: None) -> tuple[bytes, None]:
    assert messages[-1].payload != FAULTY
    return messages[-1].payload, state


FORM = SimpleNamespace(change=_change)


class Stepwise(Edge):
    """Anything may happen between two subscriptions that an event concerns."""

    step = 1


class Short(Subscriber):
    """However many streams there are, no more than the capacity may wait."""

    @property
    def _room(self) -> int:
        return self._capacity


class LazyListeners(RuleBasedStateMachine):
    """Two listeners with short queues; the first never detaches."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.at_once, slices.AT_ONCE = (
            slices.AT_ONCE,
            1,
        )  # anything may happen between two attaches of one catching up
        self.metrics = Metrics()
        self.edge = Stepwise(
            self.metrics,
            LocalNetwork,
            lambda stream, frame: self.replays.append([stream, frame.after, frame.seq]),
            lambda sid: None,
        )
        self.log: list[tuple[int, int]] = []  # seq, sid
        self.seq = 0
        self.attaching: list[tuple[c.Attach, Future[Any]]] = []
        self.replays: list[list[Any]] = []
        self.working: deque[Iterator[None]] = deque()  # what was committed, in order
        self.listeners = [Short(self.edge, self._submit, self.metrics, capacity) for capacity in (1, 3)]
        self.got: list[dict[str, list[int]]] = [{}, {}]
        self.progress = [0, 0]
        for id in range(SUBSCRIPTIONS):
            self.listeners[0].attach(str(id), None)
        self.attach_all()

    def _submit(self, command: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.attaching.append((command, future))
        return future

    def teardown(self) -> None:
        try:
            self._end()
        finally:
            slices.AT_ONCE = self.at_once
            self.loop.close()

    def _end(self) -> None:
        """Whoever goes on listening has everything in the end."""
        self.publish([set(range(SUBSCRIPTIONS))])
        for _ in range(10 * len(self.log)):
            if self.progress == [self.seq, self.seq]:
                break
            self.attach_all()
            while self.working:
                self.work(some=1)
            while self.replays:
                self.replay(some=100)
            for which in (0, 1):
                self.turn()
                self.fetch(which)
        for which in (0, 1):
            assert self.progress[which] == self.seq
            for id, seqs in self.got[which].items():
                if id in self.listeners[which]._streams:
                    assert seqs == self._expected(id, seqs[0]), f"stream {id} of listener {which}"
        assert len(self.got[0]) == SUBSCRIPTIONS

    def _expected(self, id: str, snapshot: int) -> list[int]:
        return [snapshot] + [seq for seq, sid in self.log if sid == int(id) and seq > snapshot]

    # -- the engine ----------------------------------------------------------------------------------------------
    @rule(
        batch=st.lists(st.sets(st.integers(0, SUBSCRIPTIONS - 1)), min_size=1, max_size=4),
        faulty=st.booleans(),
    )
    def publish(self, batch: list[set[int]], faulty: bool = False) -> None:
        """A faulty message cannot be folded when it comes live; in the replay it can."""
        frames: list[Any] = []
        for sids in batch:
            self.seq += 1
            for part, sid in enumerate(sids):
                self.log.append((self.seq, sid))
                frames.append(
                    Message(self.seq, part, 1, "change", targets=(sid,), payload=FAULTY if faulty else b"{}")
                )
                faulty = False
        self.working.append(self.edge.release(frames, self.seq))

    @rule()
    def attach_all(self) -> None:
        """Work off what was asked for."""
        waiting, self.attaching = self.attaching, []
        for command, future in waiting:
            future.set_result(None)
            after, sid = command.after, int(command.id)
            frame: Any = c.Hosted(
                sid, command.id, command.sink, FORM, SPACE, Bound(b"", (sid,)), self.seq, after, 0, b"{}", True,
                command.token, None, None,
            )  # type: ignore[arg-type]  # fmt: skip
            self.working.append(self.edge.release([frame], self.seq))

    @rule(some=st.integers(1, 9))
    def work(self, some: int) -> None:
        """Some steps of what follows commits."""
        for _ in range(some):
            if self.working and next(self.working[0], self) is self:
                self.working.popleft()

    @rule(some=st.integers(1, 4))
    def replay(self, some: int) -> None:
        """Tell the eldest stream some of what it missed."""
        if not self.replays:
            return
        stream, after, upto = self.replays[0]
        sent = [seq for seq, sid in self.log if sid == int(stream.id) and after < seq <= upto][:some]
        for seq in sent:
            stream.give("change", seq, b"{}")
        if len(sent) == some:
            self.replays[0][1] = sent[-1]
            return
        del self.replays[0]
        if not stream.sink.is_lagging:
            stream.catch_up()

    # -- the listeners -------------------------------------------------------------------------------------------
    @rule()
    def turn(self) -> None:
        """The loop does what waits for its next turn."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    @rule(which=st.integers(0, 1))
    def fetch(self, which: int) -> None:
        listener = self.listeners[which]
        if not listener._wake.is_set():
            return
        task = self.loop.create_task(listener.fetch())
        self.loop.call_soon(self.loop.call_soon, self.loop.stop)
        self.loop.run_forever()
        if not task.done():
            task.cancel()
            self.loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            return
        for item in task.result():
            if item.kind == "progress":
                self.progress[which] = item.seq
                self._check_progress(which)
            elif item.kind == "snapshot":
                self.got[which][item.id or ""] = [item.seq]
            else:
                assert item.kind == "change"
                seqs = self.got[which][item.id or ""]
                assert item.seq > seqs[-1], "twice, or out of order"
                seqs.append(item.seq)

    def _check_progress(self, which: int) -> None:
        """Everything up to a progress mark has come."""
        for id, seqs in self.got[which].items():
            if id in self.listeners[which]._streams:
                due = [seq for seq in self._expected(id, seqs[0]) if seq <= self.progress[which]]
                assert [seq for seq in seqs if seq <= self.progress[which]] == due

    @rule(id=st.integers(0, SUBSCRIPTIONS - 1))
    def attach(self, id: int) -> None:
        if str(id) not in self.listeners[1]._streams:
            self.listeners[1].attach(str(id), None)

    @rule(id=st.integers(0, SUBSCRIPTIONS - 1))
    def detach(self, id: int) -> None:
        self.listeners[1].detach(str(id))
        self.got[1].pop(str(id), None)

    @rule()
    def rearrange(self) -> None:
        """What a space holds is laid out anew: its streams start again where they stand."""
        self.working.append(self.edge.release([c.Rearranged(1)], self.seq))

    @rule()
    def recover(self) -> None:
        while self.working:
            self.work(some=1)
        self.edge.recovered(self.seq)


TestLazyListeners = LazyListeners.TestCase
TestLazyListeners.settings = settings(max_examples=examples(40), stateful_step_count=40)


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_long_walks(seed: int) -> None:
    """Rare orders of steps: what Hypothesis shrinks, at the length it does not reach."""
    chance, machine = random.Random(seed), LazyListeners()
    steps: list[tuple[int, Callable[[], None]]] = [
        (
            20,
            lambda: machine.publish([{chance.randrange(SUBSCRIPTIONS)} for _ in range(chance.randint(1, 4))]),
        ),
        (20, lambda: machine.attach_all()),
        (40, lambda: machine.work(chance.choice([1, 2, 9]))),
        (20, lambda: machine.replay(chance.choice([1, 2, 9]))),
        (30, lambda: machine.fetch(chance.randrange(2))),
        (20, lambda: machine.turn()),
        (3, lambda: machine.attach(chance.randrange(SUBSCRIPTIONS))),
        (1, lambda: machine.detach(chance.randrange(SUBSCRIPTIONS))),
        (1, lambda: machine.rearrange()),
        (1, lambda: machine.recover()),
    ]
    weights, actions = zip(*steps, strict=True)
    for act in chance.choices(actions, weights, k=2_000):
        act()
    machine.teardown()


def test_stream_that_cannot_take_what_was_put_aside_stays_in_the_past() -> None:
    """The queue is full in the middle of `catch_up`: the rest comes from where the stream stands, not from the present."""

    class Full:
        is_lagging = False
        given: list[int] = []  # noqa: RUF012

        def offer(self, stream: Stream, kind: str, seq: int, body: bytes) -> bool:
            self.given.append(seq)
            return len(self.given) < 3

        def lag(self) -> None:
            self.is_lagging = True

        def attached(self, stream: Stream) -> None:
            raise AssertionError("it has not reached the present")

    stream = Stream("a", Full(), None, 10)  # type: ignore[arg-type]
    stream.replay()
    for seq in (11, 12, 13, 14):
        stream.live(seq, b"{}")
    stream.catch_up()
    stream.rest(14)
    assert stream.seq == 12


def test_what_is_put_aside_during_a_replay_is_bounded_in_bytes() -> None:
    class Lagging:
        is_lagging = False

        def lag(self) -> None:
            self.is_lagging = True

    sink = Lagging()
    stream = Stream("a", sink, None, 10)  # type: ignore[arg-type]
    body = b"x" * (MAX_PUT_ASIDE_BYTES // 4)
    for _ in range(2):  # each replay begins with nothing put aside
        stream.replay()
        for seq in range(11, 15):
            stream.live(seq, body)
        assert not sink.is_lagging
    stream.live(15, b"x")
    assert sink.is_lagging
