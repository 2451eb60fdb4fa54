"""What a run of the statistics job is worth after a restart: CPU time of the server and bytes that leave it, per event.

A market with skewed joins and several columns under ranges (`bench.statistics_workload`) is served for a while, and the job
computes one run. Then servers are started over the same database, in processes of their own: in turn without the run and
with it, each on the same events; and one that has learned for ten minutes. Every server is the product's own: recovered from
PostgreSQL as at a start, its engine, the packing of its batches for PostgreSQL, and its node in a network of brokers that
host all subscriptions. Brokers, commits and sockets are left out.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

from api.server.memory import MemoryBuilder
from api.server.settings import Settings
from bench.common import Report, child_found, progress
from bench.postgres import migrated_postgres
from bench.statistics_workload import SEEDS, Market, subscribe
from cn.model.frames import Data, Frame
from cn.networks.local import LocalNetwork
from cn.networks.registry import SCHEMES
from optimizer.choose import chooser
from pipeline.statistics import StatisticsError
from pipeline.statistics.database import connect
from pipeline.statistics.runs import use_run
from prosem.brokers.dispatcher import Dispatcher
from prosem.brokers.member import Member, RemoteSink
from prosem.delivery.edge import Edge
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import complete
from prosem.store.catalog import RowStatements
from prosem.store.log import Writer
from prosem.store.writeset import commands
from prosem.types.base import ArrangedSpace
from prosem.values.errors import SetupError

BROKERS = 8
REQUESTS = 20  # that share a commit, one event each
PAIRS = 5


class Size(NamedTuple):
    """`rows`: share of the rows of the workload. `each`: subscriptions of a template. `history`: events before the job."""

    rows: float
    each: int
    history: int
    events: int
    learn_s: float


FULL = Size(1.0, 1_000, 20_000, 6_000, 600.0)
QUICK = Size(0.25, 120, 1_200, 1_000, 5.0)


def run(quick: bool) -> Report:
    size = QUICK if quick else FULL
    report = Report("statistics", {"quick": quick, **size._asdict(), "pairs": PAIRS, "seeds": SEEDS})
    with served_market(size) as (url, number):
        report.figures = measure(url, number, size)
    figures = report.figures
    report.tables = [
        (
            "per event, medians",
            [{"server": name, **figures[name]} for name in ("without", "with", "learned")],
        ),
        (
            "with statistics, relative to",
            [{"server": name, **figures[f"to_{name}"]} for name in ("without", "learned")],
        ),
        ("arrangements of the joins", figures["arrangements"]),
    ]
    report.notes = [
        f"{PAIRS} pairs in turn; CPU time of the engine, of packing for PostgreSQL and of the server's node, bytes of"
        f" messages to {BROKERS} brokers",
        f"learned: {size.learn_s:.0f} s of events without a run",
    ]
    return report


def measure(url: str, number: int, size: Size) -> dict[str, Any]:
    """`number` is that of the run."""
    pairs: dict[str, list[dict[str, Any]]] = {"without": [], "with": []}
    for pair in range(PAIRS):
        for name in list(pairs) if pair % 2 else list(pairs)[::-1]:
            _use(url, number if name == "with" else None)
            found = child_found(__name__, url, size.rows, size.events, pair, 0.0)
            progress(
                f"pair {pair + 1}, {name}: {found['cpu_us']:.0f} µs, {found['bytes']:.0f} bytes per event"
            )
            pairs[name].append(found)
    _use(url, None)
    progress(f"a server that learns for {size.learn_s:.0f} s")
    learned = child_found(__name__, url, size.rows, size.events, PAIRS, size.learn_s)
    figures: dict[str, Any] = {
        name: {one: round(median(found[one] for found in some), 1) for one in ("cpu_us", "bytes", "messages")}
        for name, some in (*pairs.items(), ("learned", [learned]))
    }
    ratios = [
        {one: mine[one] / other[one] for one in ("cpu_us", "bytes")}
        for mine, other in zip(pairs["with"], pairs["without"], strict=True)
    ]
    figures["to_without"] = {
        one: round(median(ratio[one] for ratio in ratios), 3) for one in ("cpu_us", "bytes")
    }
    figures["to_learned"] = {
        one: round(figures["with"][one] / figures["learned"][one], 3) for one in ("cpu_us", "bytes")
    }
    figures["pairs"] = [{one: round(value, 3) for one, value in ratio.items()} for ratio in ratios]
    figures["arrangements"] = [
        {"group": group, "without": before, "with": pairs["with"][0]["arrangements"][group]}
        for group, before in pairs["without"][0]["arrangements"].items()
    ]
    return figures


# -- the database --------------------------------------------------------------------------------------------------
@contextmanager
def served_market(size: Size) -> Iterator[tuple[str, int]]:
    """A database in which the market was served for a while, and the number of the run that the job made of it."""
    from pipeline.statistics.job import Options, refresh

    with migrated_postgres() as (url, folder):
        fill(url, size)
        progress("statistics: the job")
        try:
            done = refresh(Options(url, str(folder / "archive"), quiet=True))
        except StatisticsError as error:
            raise SetupError(str(error)) from error
        yield url, done.run


def fill(url: str, size: Size) -> None:
    """Rows, subscriptions, and a server that takes the events before the job."""
    progress(f"statistics: {size.history:,} events before the job")
    writer, state, market = Writer.connect(url), EngineState(chooser("auto"), Metrics()), Market(size.rows)
    try:
        for steps in (market.fill(state), subscribe(state, size.each)):
            for _ in steps:
                writer.write(state.begin().writes)
    finally:
        writer.close()
    with Served(url, is_committing=True) as served:
        market.go_on(served.state, SEEDS["events"])
        served.publish(market.events(size.history))


def _use(url: str, number: int | None) -> None:
    """Make the run the active one, or none."""
    with connect(url) as connection:
        if number is None:
            connection.execute("UPDATE prosem.statistics_run SET active = false")
        else:
            use_run(connection, number)


# -- one server ----------------------------------------------------------------------------------------------------
class Served:
    """A server over a database whose subscriptions are all hosted by brokers; it commits only where it is said to."""

    def __init__(self, url: str, is_committing: bool = False) -> None:
        metrics = Metrics()
        self.size_bytes = self.messages = 0
        self._is_committing = is_committing
        self._statements: dict[int, RowStatements] = {}
        edge = Edge(metrics, LocalNetwork, _never, _never)
        root = SCHEMES[Settings().network].root("server", {})
        self._dispatcher = Dispatcher(
            edge, root, self._sent, Settings().queue, _never, _never, _never, _never, redirects=False
        )
        members = [Member(name, name, "", 1 << 30, "server") for name in (f"b{at}" for at in range(BROKERS))]
        for member in members:
            self._dispatcher.join(member)
        self._writer = Writer.connect(url)
        builder = MemoryBuilder(Settings(), metrics, self._writer, self._dispatcher.traffic)
        self.state = state = builder.recover(0)
        for at, sid in enumerate(list(state.registry.sids())):
            sink = RemoteSink(members[at % BROKERS])
            state.execute(c.Attach(state.registry.id(sid), state.seq, sink, at + 1))
        self._close_batch()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def _sent(self, to: str, frame: Frame, data: bytes) -> None:
        if isinstance(frame, Data):
            self.size_bytes += len(data)
            self.messages += 1

    def _close_batch(self) -> None:
        batch = self.state.begin()
        if self._is_committing:
            self._writer.write(batch.writes)
        else:
            for _ in commands(batch.writes, self._statements, (1, 1)):
                pass
        complete(self._dispatcher.release(batch.frames, self.state.seq))

    def publish(self, requests: Iterable[c.Publish]) -> dict[str, Any]:
        """CPU time, bytes and messages per event."""
        given = list(requests)
        self.size_bytes = self.messages = 0
        begun = time.process_time_ns()
        for at in range(0, len(given), REQUESTS):
            for request in given[at : at + REQUESTS]:
                self.state.execute(request)
            self._close_batch()
        cpu_us = (time.process_time_ns() - begun) / 1e3
        return {
            "cpu_us": cpu_us / len(given),
            "bytes": self.size_bytes / len(given),
            "messages": self.messages / len(given),
        }

    def arrangements(self) -> dict[str, str]:
        """Routing columns and partners of each join, in words."""
        found = {}
        for group in self.state.groups.values():
            space = self.state.spaces[group.space]
            if isinstance(space, ArrangedSpace):
                made = space.arrangement()
                shown = [f"{table}.{column}" for table, column in made["routing"]["columns"].items()]
                shown += [f"{table} by {partner}" for table, partner in made["partners"]["tables"].items()]
                found[group.name] = ", ".join(shown)
        return found


def _never(*_: Any) -> Any:
    raise AssertionError("there are no replays, and no stream ends")


def child() -> None:
    """Start, learn for a while, and be measured; prints what was found."""
    url, (rows, events, pair, learn_s) = sys.argv[1], map(float, sys.argv[2:])
    market = Market(rows)
    with Served(url) as served:
        market.go_on(served.state, SEEDS["events"] + 1 + int(pair))
        ends = time.monotonic() + learn_s
        while time.monotonic() < ends:
            served.publish(market.events(REQUESTS))
        found = served.publish(market.events(int(events)))
        print(json.dumps(found | {"arrangements": served.arrangements()}))
