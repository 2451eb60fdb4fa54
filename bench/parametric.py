"""Parametric updates: PATCH against delete + create, and against PATCH under the update monitor.

Subscribers to a moving range `x BETWEEN :lo AND :hi`, as cars on a road: each swings around a place of its own while
it drifts. Events move rows under them, and each has a number of its own, so that its receivers are known:

* *missed*: events in the range a subscriber wanted when they were published, and which it never saw, not
  even in the snapshot of a new subscription; *lost* are those of them that were wanted for two seconds on end. An
  event that comes when the range has moved on is missed under the monitor, which checks it, and else stale;
* *stale*: events a subscriber saw although they lay outside the range it wanted by then.

At the end of each run all has to come to rest at the exact answer, or the bench fails. One process holds all the
subscribers and takes its share of the machine. Below its threshold
the monitor gains nothing, and near it, at 5 to 10 updates/s, its worst runs are staler than those without it.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from typing import Any

from prosem_client import AsyncClient

from bench.common import Report, progress
from bench.end_to_end import Served
from bench.moving import DOMAIN, MODES, Subscriber

COLUMNS = {"k": "integer", "x": "integer", "number": "integer"}
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
