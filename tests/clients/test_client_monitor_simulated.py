"""The update monitor against a simulated server whose answers and frames overtake each other, or get lost.

Every item the user gets is compared with the rows as of its seq; none may be missing and none be spurious.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from prosem_client import Closed, ConnectionLost, MonitoredSubscription, UpdateMonitor, fold
from prosem_client.conditions import condition
from prosem_client.coverage import Aim
from prosem_client.feed import Feed, Frame
from prosem_client.query import Shape
from prosem_client.registration import registration
from prosem_client.subscription import Opening
from prosem_client.values import Change, Result

from tests.support.monitored import SQL, TABLE, by_key, scan
from tests.support.waiting import until_async


class Simulation:
    """One order of events and updates; answers and frames travel on their own, in bounded random time.

    It stands for the client's calls and for its stream at once. `log[seq]` are the rows as of `seq`.
    """

    def __init__(self, seed: int, losses: float = 0.0) -> None:
        self.dice = random.Random(seed)
        self.losses = losses
        self.tells_all = not losses  # else what happens meanwhile comes in one change
        self.rows: dict[int, dict[str, Any]] = {}
        self.log: list[dict[int, dict[str, Any]]] = [{}]
        self.params: dict[str, Any] = {"lo": None, "hi": None}
        self.is_active = True
        self.told: dict[int, Any] = {}
        self.sent: deque[Frame | int] = deque()  # frames and progress marks
        self.feed: Feed | None = None
        self.expected: int | None = None
        self.progress = -1
        self.patches: list[dict[str, Any]] = []
        self.limits = registration(condition(SQL), TABLE).limits

    @property
    def seq(self) -> int:
        return len(self.log) - 1

    def answer(self, params: dict[str, Any], seq: int | None = None) -> dict[int, Any]:
        rows = self.rows if seq is None else self.log[seq]
        return scan(rows, tuple(limit.end for limit in self.limits), params)

    # -- the calls -------------------------------------------------------------------------------------------
    async def create(self, sql: str, params: dict[str, Any]) -> Opening:
        self.limits = registration(condition(sql), TABLE).limits
        self.params = params
        self.told = self.answer(params)
        return Opening("a", self.seq, {"rows": list(self.told.values())}, params, Shape(("k",)))

    async def define(self, table: str) -> dict[str, Any]:
        return TABLE

    async def patch(self, id: str, body: dict[str, Any]) -> Result:
        self.patches.append(body)
        await self.pause()
        if self.dice.random() < self.losses:
            raise ConnectionLost("on the way there")
        self.params = body.get("params", self.params)
        self.is_active = body.get("active", self.is_active)
        self.tell(own_seq=True)
        seq, rows = self.seq, list(self.answer(self.params).values())
        await self.pause()
        if self.dice.random() < self.losses:
            raise ConnectionLost("on the way back")
        return Result(id, seq, {"rows": rows})

    async def delete(self, id: str) -> None: ...

    async def pause(self) -> None:
        await asyncio.sleep(self.dice.choice([0, 0, 0.001, 0.004]))

    # -- the stream ------------------------------------------------------------------------------------------
    def listen(self, feed: Feed) -> None:
        self.feed = feed
        feed.is_wanted = feed.is_listening = True

    def leave(self, feed: Feed) -> None: ...

    def expect(self, feed: Feed, seq: int) -> None:
        self.expected = seq
        self.mark(self.progress)

    def mark(self, seq: int) -> None:
        self.progress = seq
        if self.expected is not None and self.expected <= seq:
            assert self.feed is not None
            self.expected = None
            self.feed.pass_by(seq)
            self.feed.nudge()

    def deliver_all(self) -> None:
        self.sent.append(self.seq)
        while self.sent:
            self.deliver_one()

    def deliver_one(self) -> None:
        item = self.sent.popleft()
        if isinstance(item, int):
            self.mark(item)
        elif self.feed is not None:
            self.feed.take(item)

    async def deliver(self) -> None:
        while True:
            await self.pause()
            for _ in range(self.dice.randint(0, 3)):
                if self.sent:
                    self.deliver_one()

    # -- the rows --------------------------------------------------------------------------------------------
    def event(self, k: int, x: int | None, *, delete: bool = False) -> None:
        self.rows = {**self.rows, k: {"k": k, "x": x}}
        if delete:
            del self.rows[k]
        self.log.append(self.rows)
        self.tell(own_seq=False)

    def tell(self, *, own_seq: bool) -> None:
        before, after = self.told, self.answer(self.params)
        if self.is_active and before != after:
            if own_seq:
                self.log.append(self.rows)
            change = {
                "add": [row for k, row in after.items() if k not in before],
                "remove": [{"k": k} for k in before if k not in after],
                "update": [row for k, row in after.items() if k in before and before[k] != row],
            }
            self.told = after
            snapshot = not own_seq and self.dice.random() < 0.02
            body: dict[str, Any] = {"rows": list(after.values())} if snapshot else change
            self.sent.append(Frame(self.seq, body, snapshot))
        if self.dice.random() < 0.5 or own_seq:
            self.sent.append(self.seq)


class Watcher:
    """Consumes a monitored subscription, and compares every item with the rows as of its seq."""

    def __init__(self, simulation: Simulation, subscription: MonitoredSubscription) -> None:
        self.simulation, self.subscription = simulation, subscription
        self.items = 0
        self.lost = 0
        assert subscription.result is not None
        self.result, self.seq = subscription.result, subscription.seq
        self.shown = [(subscription.seq, subscription._shown.params)]  # since when which parameters are shown
        show = subscription._show

        def noted(aim: Aim) -> None:
            self.shown.append((subscription._position, aim.params))
            show(aim)

        subscription._show = noted  # type: ignore[method-assign]

    async def run(self) -> None:
        while True:
            try:
                item = await self.subscription.next()
            except ConnectionLost:
                self.lost += 1
                continue
            except Closed:
                return
            self.look(item)

    def look(self, item: Change) -> None:
        simulation, shown = self.simulation, self.subscription._shown.params
        self.items += 1
        assert item.result is not None
        self.subscription._held.check()
        assert by_key(item.result) == simulation.answer(shown, item.seq), (item.seq, shown)
        assert item.seq >= self.seq
        if not item.snapshot:
            assert item.change is not None
            assert by_key(fold(self.result, item.change, key=("k",))) == by_key(item.result)
            assert by_key(item.result) != by_key(self.result), "a spurious change"
            if simulation.tells_all:
                for seq in range(self.seq, item.seq):
                    params = [params for since, params in self.shown if since <= seq][-1]
                    assert simulation.answer(params, seq) == by_key(self.result), f"{seq} was not told"
        self.result, self.seq = item.result, item.seq
        self.shown = self.shown[-1:]


async def monitored(
    simulation: Simulation, params: dict[str, Any], window_s: float, sql: str = SQL
) -> MonitoredSubscription:
    stream: Any = simulation
    subscription = MonitoredSubscription(
        simulation.create,
        simulation,
        stream,
        params=params,
        queue_limit=10_000,
        snapshot=False,
        renewable=True,
        monitor=UpdateMonitor(frequency_hz=20, window_s=window_s),
        condition=condition(sql),
        define=simulation.define,
    )
    await subscription
    return subscription


async def simulated(
    seed: int, steps: int, losses: float = 0.0, pauses: bool = False
) -> tuple[Simulation, MonitoredSubscription, Watcher]:
    """Random assignments and events; at the end the answer must be the exact one.

    How many requests are sent depends on the speed of the machine: with losses it goes on until there is one.
    """
    simulation = Simulation(seed, losses)
    simulation.tells_all &= not pauses
    dice = random.Random(seed)
    for k in range(20):
        simulation.event(k, dice.randint(0, 60))
    subscription = await monitored(simulation, {"lo": 10, "hi": 20}, window_s=0.1)
    watcher = Watcher(simulation, subscription)
    delivering = asyncio.create_task(simulation.deliver())
    watching = asyncio.create_task(watcher.run())
    paths = random_paths(dice)
    for step in itertools.count():
        if step >= steps and (not losses or watcher.lost):
            break
        action = dice.random()
        if action < 0.6:
            low, high = next(paths)
            subscription.params.lo = low
            subscription.params.hi = high
        elif action < 0.98:
            k = dice.randint(0, 25)
            simulation.event(k, dice.choice([None, *range(0, 60, 3)]), delete=dice.random() < 0.2)
        elif pauses:
            with contextlib.suppress(ConnectionLost):
                await (subscription.resume() if not subscription._is_active else subscription.suspend())
        if dice.random() < 0.7:
            await simulation.pause()
        assert not watching.done(), watching.result()
    simulation.losses = 0.0
    if not subscription._is_active:
        await subscription.resume()
    final = {"lo": 5, "hi": 40}
    while subscription._desired.params != final:
        subscription.params.lo, subscription.params.hi = 5, 40
        try:
            await subscription.flush()
        except ConnectionLost:
            continue

    def is_exact() -> bool:
        assert not watching.done(), watching.result()
        return by_key(subscription.result) == simulation.answer(final)

    await until_async(is_exact, what=lambda: f"{subscription.result} {simulation.answer(final)}")
    await until_async(lambda: simulation.params == final, what="at rest the server has the exact range")
    await subscription.close()
    delivering.cancel()
    await watching
    return simulation, subscription, watcher


def random_paths(dice: random.Random) -> Iterator[tuple[int | None, int | None]]:
    """Walks, oscillations, trends, jumps and NULLs, each for a while."""
    middle = 20.0
    while True:
        kind, length = dice.choice(["walk", "swing", "trend", "jump", "null"]), dice.randint(5, 40)
        drift = dice.choice([-0.8, 0.8])
        for at in range(length):
            if kind == "walk":
                middle += dice.choice([-1, 1])
            elif kind == "trend":
                middle += drift
            elif kind == "jump":
                middle = dice.uniform(0, 60)
            offset = 8 * math.sin(at / 3) if kind == "swing" else 0.0
            middle = max(0.0, min(60.0, middle))
            width = dice.choice([5, 5, 5, 9])
            yield (None if kind == "null" else round(middle + offset)), round(middle + offset) + width


@pytest.mark.parametrize("seed", range(4))
async def test_every_item_is_exact_whatever_overtakes_what(seed: int) -> None:
    simulation, subscription, watcher = await simulated(seed, 350)
    assert watcher.items > 50
    assert len(simulation.patches) < 0.8 * subscription.updates


@pytest.mark.parametrize("seed", range(10, 12))
async def test_an_update_of_unknown_fate_is_overcome(seed: int) -> None:
    _, _, watcher = await simulated(seed, 250, losses=0.15)
    assert watcher.lost > 0
    assert watcher.items > 20


@pytest.mark.parametrize(
    ("sql", "offset"), [("x BETWEEN :pos - :reach AND :pos + :reach", 3), ("x = :pos AND k >= :reach", 0)]
)
async def test_arithmetic_and_equality_are_exact(sql: str, offset: int) -> None:
    """Every item is the answer of the registered ends, and the last one that of the user's own conditions."""
    simulation, dice = Simulation(7), random.Random(7)
    for k in range(30):
        simulation.event(k, dice.randint(0, 60))
    subscription = await monitored(
        simulation, {"pos": 20, "reach": 3}, window_s=0.1, sql=f"SELECT * FROM t WHERE {sql}"
    )
    watcher = Watcher(simulation, subscription)
    tasks = [asyncio.create_task(simulation.deliver()), asyncio.create_task(watcher.run())]
    for (low, high), _ in zip(random_paths(dice), range(300), strict=False):
        subscription.params.pos = low
        subscription.params.reach = 3 if high is None else high % 5
        if dice.random() < 0.5:
            simulation.event(dice.randint(0, 35), dice.choice([None, *range(60)]), delete=dice.random() < 0.2)
        if dice.random() < 0.7:
            await simulation.pause()
        assert not tasks[1].done(), tasks[1].result()
    subscription.params.pos, subscription.params.reach = 30, 3
    await subscription.flush()

    def is_exact() -> bool:
        assert not tasks[1].done(), tasks[1].result()
        expected = {
            k: row for k, row in simulation.rows.items()
            if row["x"] is not None and abs(row["x"] - 30) <= offset and (offset or k >= 3)
        }  # fmt: skip
        return by_key(subscription.result) == expected

    await until_async(is_exact)
    assert watcher.items > 30
    assert len(simulation.patches) < 0.8 * subscription.updates
    await subscription.close()
    tasks[0].cancel()
    await tasks[1]


@pytest.mark.parametrize("seed", range(20, 22))
async def test_suspending_and_resuming(seed: int) -> None:
    await simulated(seed, 300, pauses=True)


async def test_an_update_without_a_frame_takes_effect_after_what_was_told_before() -> None:
    """The wider answer stays as it is, so no frame says where the update took effect; a progress mark does."""
    simulation = Simulation(2)
    simulation.event(1, 1)
    subscription = await monitored(simulation, {"lo": 0, "hi": 10}, window_s=60)
    subscription._widening.widen = lambda now, exact: {"lo": 0, "hi": 20}  # type: ignore[method-assign]
    simulation.sent.clear()
    simulation.event(2, 8)
    simulation.event(3, 99)  # concerns nobody
    subscription.params.lo, subscription.params.hi = 5, 12
    await subscription.flush()
    simulation.deliver_all()
    items = [await subscription.next(timeout_s=1) for _ in range(2)]
    assert [(item.seq, sorted(by_key(item.result))) for item in items] == [(2, [1, 2]), (3, [2])]
    with pytest.raises(TimeoutError):
        await subscription.next(timeout_s=0.02)
    await subscription.close()


async def test_an_older_update_does_not_take_a_newer_one_back() -> None:
    simulation = Simulation(3)
    for k in range(30):
        simulation.event(k, k)
    subscription = await monitored(simulation, {"lo": 0, "hi": 5}, window_s=60)
    subscription._widening.widen = lambda now, exact: {"lo": 0, "hi": 25}  # type: ignore[method-assign]
    simulation.sent.clear()
    await subscription.patch(hi=10)
    simulation.deliver_all()
    assert sorted(by_key((await subscription.next(timeout_s=1)).result)) == list(range(11))
    for high in (12, 14):  # these reach the stream only later
        await subscription.patch(hi=high)
    subscription.params.hi = 7
    await subscription.flush()
    seen = [sorted(by_key((await subscription.next(timeout_s=1)).result))]
    simulation.deliver_all()
    with pytest.raises(TimeoutError):
        await subscription.next(timeout_s=0.05)
    assert seen == [list(range(8))]
    assert subscription._coverage.next_seq is None, "all have taken effect by now"
    await subscription.close()


@pytest.mark.slow  # the trend depends on how fast the machine is
async def test_a_slow_request_does_not_hold_up_what_is_covered() -> None:
    """While a PATCH travels, assignments within both ranges take effect; else a slow server would stop them all."""
    simulation = Simulation(1)
    for k in range(200):
        simulation.event(k, k)
    simulation.sent.clear()
    subscription = await monitored(simulation, {"lo": 0, "hi": 5}, window_s=0.5)
    watcher = Watcher(simulation, subscription)
    tasks = [asyncio.create_task(simulation.deliver()), asyncio.create_task(watcher.run())]
    for at in range(40):  # quick answers, until the trend is known
        subscription.params.hi = 5 + at
        await subscription.flush()
    is_answered = asyncio.Event()
    pause, simulation.pause = simulation.pause, is_answered.wait  # type: ignore[assignment,method-assign]
    sent = len(simulation.patches)
    patching = asyncio.create_task(subscription.patch(hi=46))
    await until_async(lambda: len(simulation.patches) > sent)
    before = watcher.items
    for at in range(10):
        subscription.params.hi = 45 - at
        await until_async(lambda at=at: watcher.items - before > at)  # type: ignore[misc]
    assert not patching.done()
    assert watcher.items - before == 10, "each assignment was seen at once"
    assert by_key(subscription.result).keys() == set(range(37))
    simulation.pause = pause  # type: ignore[method-assign]
    is_answered.set()
    await patching
    await subscription.flush()
    await until_async(lambda: not simulation.sent)
    assert by_key(subscription.result).keys() == set(range(37)), "the answer of the request is an older one"
    await subscription.close()
    tasks[0].cancel()
    await tasks[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
async def test_many_simulations(seed: int) -> None:
    await simulated(seed, 1500, losses=random.Random(seed).choice([0.0, 0.05, 0.3]), pauses=seed % 3 == 0)
