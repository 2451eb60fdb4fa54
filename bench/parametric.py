"""Parametric updates: PATCH against delete + create, and against PATCH under the update monitor.

Subscribers to a moving range `x BETWEEN :lo AND :hi`, as cars on a road: each swings around a place of its own while
it drifts. Events move rows under them, and each has a number of its own, so that it can be told who saw it:

* *missed*: events in the range a subscriber wanted when they were published, and which it never saw, not
  even in the snapshot of a new subscription; *lost* are those of them that were wanted for two seconds on end. An
  event that comes when the range has moved on is missed under the monitor, which checks it, and else stale;
* *stale*: events a subscriber saw although they lay outside the range it wanted by then.

At the end of each run all has to come to rest at the exact answer, or the bench fails. One process holds all the
subscribers and takes its share of the machine. The monitor loses at low rates, where it only holds more rows.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from typing import Any

from prosem_client import AsyncClient, MonitoredSubscription, ProsemError, Subscription, UpdateMonitor

from bench.common import Report, fail, progress
from bench.end_to_end import Served

SQL = "SELECT * FROM cars WHERE x BETWEEN :lo AND :hi"
COLUMNS = {"k": "integer", "x": "integer", "number": "integer"}
DOMAIN = 10_000
REACH = 250
ROWS = 1_000
EVENTS_PER_S = 500
LONG_S = 2.0  # an event wanted for so long has no excuse not to be seen


def run(quick: bool) -> Report:
    subscribers, seconds, repeats = (4, 1.0, 1) if quick else (10, 3.0, 3)
    rates = [0, 10, 100] if quick else [0, 1, 5, 10, 50, 100]
    params = {
        "subscribers": subscribers,
        "seconds": seconds,
        "repeats": repeats,
        "rates": rates,
        "rows": ROWS,
    }
    report = Report("parametric", params | {"events_per_s": EVENTS_PER_S, "quick": quick})
    runs: dict[tuple[int, str], list[dict[str, Any]]] = {(rate, mode): [] for rate in rates for mode in MODES}
    with Served() as served:
        for _ in range(repeats):  # outermost, so that a busy minute of the machine falls on all alike
            for rate, mode in runs:
                progress(f"parametric: {mode} at {rate} updates/s for each of {subscribers} subscribers")
                found = asyncio.run(measure(served.url, mode, rate, subscribers, seconds))
                runs[rate, mode].append(found)
    by_rate = [_median(found) for found in runs.values()]
    report.figures = {"by_rate": by_rate}
    title = f"{subscribers} subscribers, {EVENTS_PER_S} events/s, median of {repeats}"
    report.tables = [(title, [_short(found) for found in by_rate])]
    report.notes = [
        "recreate: delete + create; patch: assignment to parameters; monitor: the same under the update monitor",
        "rate: updates/s each subscriber wants; in force: those that took effect; requests/s they took",
        "missed: % of the events wanted; lost: events wanted for 2 s and never seen (of all runs); stale: % of the seen",
    ]
    return report


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure, the spread of two of them, and everything that was lost."""
    numbers = [name for name, value in runs[0].items() if not isinstance(value, str)]
    middle = {name: statistics.median(run[name] for run in runs) for name in numbers}
    spread = {
        f"{name}_range": [min(run[name] for run in runs), max(run[name] for run in runs)]
        for name in ("updates_per_s", "stale_percent")
    }
    return {"mode": runs[0]["mode"], **middle, "lost": sum(run["lost"] for run in runs), **spread}


def _short(found: dict[str, Any]) -> dict[str, Any]:
    low, high = found["stale_percent_range"]
    return {
        "mode": found["mode"],
        "rate": found["rate"],
        "in force": found["updates_per_s"],
        "requests": found["requests_per_s"],
        "missed": found["missed_percent"],
        "lost": found["lost"],
        "stale": found["stale_percent"],
        "from to": f"{low:.1f} {high:.1f}",
    }


# -- one run -------------------------------------------------------------------------------------------------
async def measure(url: str, mode: str, rate: int, subscribers: int, seconds: float) -> dict[str, Any]:
    async with AsyncClient(url) as client, AsyncClient(url) as publishing:
        await client.create_table("cars", COLUMNS, ["k"])
        dice = random.Random(7)
        events = [_event(k, dice, -1) for k in range(ROWS)]
        await publishing.publish("cars", events)
        many = [await Subscriber.open(client, mode, number) for number in range(subscribers)]
        published: list[tuple[float, int]] = []  # when, and where
        stop = time.perf_counter() + seconds
        movers = [asyncio.create_task(one.move(rate, stop)) for one in many]
        await _publish(publishing, published, dice, stop)
        await asyncio.gather(*movers)
        for one in many:
            await one.come_to_rest(publishing)
        wanted, missed, lost = _missed(many, published)
        seen, stale = sum(len(one.seen) for one in many), sum(one.stale for one in many)
        each = 1 / (seconds * subscribers)
        found = {
            "mode": mode,
            "rate": rate,
            "updates_per_s": round(sum(one.updates for one in many) * each, 1),
            "requests_per_s": round(sum(one.requests for one in many) * each, 1),
            "events_wanted": wanted,
            "missed": missed,
            "missed_percent": round(100 * missed / max(1, wanted), 2),
            "lost": lost,
            "stale": stale,
            "stale_percent": round(100 * stale / max(1, seen), 2),
        }
        for one in many:
            await one.close()
        return found


def _event(k: int, dice: random.Random, number: int) -> dict[str, Any]:
    return {"op": "upsert", "row": {"k": k, "x": dice.randrange(DOMAIN), "number": number}}


async def _publish(
    client: AsyncClient, published: list[tuple[float, int]], dice: random.Random, stop: float
) -> None:
    """Events at a steady rate; each row is moved in its turn, so that none is overwritten before it can be seen."""
    started = time.perf_counter()
    while (now := time.perf_counter()) < stop:
        due = int((now - started) * EVENTS_PER_S) - len(published)
        events = [_event((len(published) + at) % ROWS, dice, len(published) + at) for at in range(due)]
        if events:
            published += [(now, event["row"]["x"]) for event in events]
            await client.publish("cars", events)
        await asyncio.sleep(0.01)


def _missed(many: list[Subscriber], published: list[tuple[float, int]]) -> tuple[int, int, int]:
    """Events wanted, those of them that were not seen, and those of these that were wanted for long enough."""
    wanted = missed = lost = 0
    for one in many:
        for number, (moment, x) in enumerate(published):
            if one.wants(x, moment, moment):
                wanted += 1
                if number not in one.seen:
                    missed += 1
                    lost += one.wants(x, moment, moment + LONG_S)
    return wanted, missed, lost


# -- a subscriber --------------------------------------------------------------------------------------------
class Subscriber:
    """A range that moves, the way its updates reach the server, and what it has seen."""

    def __init__(self, client: AsyncClient, number: int) -> None:
        self._client = client
        self._middle = DOMAIN * (number + 0.5) / 10 % DOMAIN
        self._consuming: asyncio.Task[None] | None = None
        self._wanted: list[tuple[float, int, int]] = []
        self.subscription: Subscription
        self.seen: set[int] = set()
        self.stale = self.updates = self.requests = 0

    @classmethod
    async def open(cls, client: AsyncClient, mode: str, number: int) -> Subscriber:
        made = MODES[mode](client, number)
        made._want(0.0)
        await made._open()
        return made

    # -- where it wants to be --------------------------------------------------------------------------------
    def _want(self, elapsed_s: float) -> tuple[int, int]:
        """Half a turn a second around a place that drifts."""
        middle = round(self._middle + 60 * elapsed_s + 300 * math.sin(math.pi * elapsed_s))
        self._wanted.append((time.perf_counter(), middle - REACH, middle + REACH))
        return middle - REACH, middle + REACH

    def wants(self, x: int, since: float, until: float) -> bool:
        """Whether x was in the range all the time."""
        first = bisect_right(self._wanted, since, key=lambda entry: entry[0]) - 1
        last = bisect_right(self._wanted, until, key=lambda entry: entry[0])
        return all(low <= x <= high for _, low, high in self._wanted[max(0, first) : last])

    async def move(self, rate: int, stop: float) -> None:
        """Assign at the rate, in time with the clock: what cannot be kept up with is left out."""
        started = time.perf_counter()
        turn = 0
        while rate:
            turn = max(turn + 1, int((time.perf_counter() - started) * rate))
            await asyncio.sleep(max(0.0, started + turn / rate - time.perf_counter()))
            if (now := time.perf_counter()) >= stop:
                break
            self._assign(*self._want(now - started))

    # -- what it sees ----------------------------------------------------------------------------------------
    async def _open(self) -> None:
        low, high = self._wanted[-1][1:]
        self.subscription = await self._client.subscribe(
            SQL, {"lo": low, "hi": high}, monitor=self._monitor()
        )
        self._look((self.subscription.result or {})["rows"])
        self._consuming = asyncio.create_task(self._consume())

    def _monitor(self) -> UpdateMonitor | None:
        return None

    async def _consume(self) -> None:
        try:
            async for item in self.subscription:
                self._look([*(item.change or {}).get("add", ()), *(item.change or {}).get("update", ())])
        except ProsemError as error:
            if error.status != 404:  # it was deleted
                raise

    def _look(self, rows: list[dict[str, Any]]) -> None:
        _, low, high = self._wanted[-1]
        for row in rows:
            if row["number"] >= 0 and row["number"] not in self.seen:
                self.seen.add(row["number"])
                self.stale += not low <= row["x"] <= high

    async def come_to_rest(self, client: AsyncClient) -> None:
        """Everything assigned is in force, and what was told leads to the exact answer."""
        _, low, high = self._wanted[-1]
        await self._settle(low, high)
        exact = await client.subscribe(SQL, {"lo": low, "hi": high}, durable=False)
        expected = sorted(row["k"] for row in (exact.result or {})["rows"])
        await exact.delete()
        deadline = time.perf_counter() + 10
        while sorted(row["k"] for row in (self.subscription.result or {})["rows"]) != expected:
            if time.perf_counter() > deadline or self._consuming is None or self._consuming.done():
                fail(f"{type(self).__name__} did not come to the exact answer of {low} to {high}")
            await asyncio.sleep(0.01)

    async def _settle(self, low: int, high: int) -> None:
        await self.subscription.flush()

    async def close(self) -> None:
        await self.subscription.delete()
        if self._consuming is not None:
            await self._consuming

    def _assign(self, low: int, high: int) -> None:
        """Ask for a range; what it wants moves on with the clock, however long that takes."""
        raise NotImplementedError


class Patched(Subscriber):
    """Assignment to parameters: one PATCH at a time, with the last values."""

    async def _open(self) -> None:
        await super()._open()
        patch: Callable[..., Awaitable[Any]] = self.subscription._patch

        async def counted(body: dict[str, Any]) -> Any:
            self.requests += 1
            answer = await patch(body)
            self.updates += 1
            return answer

        self.subscription._patch = counted  # type: ignore[method-assign]

    def _assign(self, low: int, high: int) -> None:
        self.subscription.params.lo = low
        self.subscription.params.hi = high


class Monitored(Subscriber):
    """The same under the update monitor, as it comes."""

    def _monitor(self) -> UpdateMonitor | None:
        return UpdateMonitor()

    def _assign(self, low: int, high: int) -> None:
        self.subscription.params.lo = low
        self.subscription.params.hi = high

    async def _settle(self, low: int, high: int) -> None:
        await super()._settle(low, high)
        assert isinstance(self.subscription, MonitoredSubscription)
        self.updates, self.requests = self.subscription.updates, self.subscription.patches


class Recreated(Subscriber):
    """Without parametric updates: the old subscription is deleted and a new one made, one at a time, the last range."""

    _working: asyncio.Task[None] | None = None
    _is_behind = False

    def _assign(self, low: int, high: int) -> None:
        self._is_behind = True
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self._is_behind:
            self._is_behind = False
            await self.close()
            await self._open()
            self.updates += 1
            self.requests += 2

    async def _settle(self, low: int, high: int) -> None:
        if self._working is not None:
            await self._working


MODES: dict[str, type[Subscriber]] = {"recreate": Recreated, "patch": Patched, "monitor": Monitored}
