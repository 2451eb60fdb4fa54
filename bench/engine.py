"""The engine alone, without sockets and commits: where the CPU time of an event goes, and what a registration costs.

- The steps of one event, in requests of 100 updates as JSON: decoding, validation, rows and log, spaces, packing for
  PostgreSQL. One group of range minima.
- Fourteen types, the workload of `prosem bench optimizer` (`bench/mixed.py`), in requests of 100 events of one table each;
  then once more with a clock around each space.
- MIN over two ranges, inserts and deletes.
- Registration of range minima and of joins, and the memory of a join subscription.

Times are CPU times of the process, so that other work on the machine distorts them less; the least and the median of
many requests. Only the clocks around each of fourteen spaces show elapsed time, which is cheaper to read.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.common import Report, as_served, progress, resident_bytes
from bench.mixed import EVENTS as EVENTS_OF
from bench.mixed import Mixed
from bench.stored_rows import PER_REQUEST
from optimizer.choose import Chooser, chooser
from prosem.engine import commands as c
from prosem.engine.publishing import runs_of
from prosem.engine.state import EngineState
from prosem.engine.typed_events import typed_events
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.store.writeset import commands
from prosem.values.wire import encode

BATCH = 16  # requests that share a commit
DOMAIN = 1_000_000
_TABLE = "SELECT {} FROM t WHERE {}"
MINIMA = _TABLE.format("MIN(y)", "x BETWEEN :lo AND :hi")
TWO_RANGES = _TABLE.format("MIN(y)", "x BETWEEN :lo AND :hi AND z BETWEEN :from AND :to")
JOIN = "SELECT * FROM t JOIN s USING (g) WHERE x BETWEEN :lo AND :hi AND w BETWEEN :from AND :to"
Row = dict[str, int]


def run(quick: bool) -> Report:
    """`--quick`: a tenth of the subscriptions and of the rows, few requests."""
    share = 10 if quick else 1
    report = Report("engine", {"per_request": PER_REQUEST, "quick": quick})
    one = steps(10_000 // share, 20_000 // share, 3 if quick else 22)
    mixed = [fourteen(count // share, 1_000 if quick else 32_000) for count in (20_000, 100_000)]
    two = two_ranges(100_000 // share, 10_000 // share, 100 if quick else 1_000)
    registered = registration(1_000_000 // share // share, 100_000 // share // share)
    report.figures = {"steps": one, "fourteen": mixed, "two_ranges": two, "registration": registered}
    report.tables = [
        ("one event, range minima, µs of CPU time", one),
        ("fourteen types", [{k: v for k, v in row.items() if k != "by_type"} for row in mixed]),
        (f"µs per event of each type, {mixed[0]['subscriptions']:,} subscriptions", mixed[0]["by_type"]),
        ("MIN over two ranges", two),
        ("registration", registered),
    ]
    return report


def _state(tables: dict[str, Sequence[str]], choose: Chooser | None = None) -> EngineState:
    """Tables of integers; the first column of each is its key."""
    state = EngineState(choose or chooser("auto"), Metrics())
    for name, columns in tables.items():
        described = [{"name": column, "type": "integer"} for column in columns]
        state.execute(c.CreateTable({"name": name, "columns": described, "primary_key": [columns[0]]}))
        state.begin()
    return state


def _publish(state: EngineState, table: str, rows: Sequence[Row]) -> None:
    state.execute(c.Publish(table, [{"op": "insert", "row": row} for row in rows]))
    state.begin()


def _subscribe(state: EngineState, sql: str, params: Sequence[Row]) -> int:
    """CPU nanoseconds that the requests took."""
    query, took = parse(sql), 0
    for at in range(0, len(params), 10_000):
        command = c.Subscribe(query, None, [(None, one) for one in params[at : at + 10_000]], batch=True)
        begun = time.process_time_ns()
        state.execute(command)
        took += time.process_time_ns() - begun
        state.begin()
    return took


def _range(chance: random.Random, low: str = "lo", high: str = "hi") -> Row:
    start = chance.randrange(DOMAIN)
    return {low: start, high: start + chance.randrange(DOMAIN // 10)}


def _row(chance: random.Random, key: int, *columns: str) -> Row:
    return {"k": key} | {name: chance.randrange(DOMAIN) for name in columns}


_cpu = time.process_time_ns
_clock = time.perf_counter_ns


def _shown(values: Sequence[float]) -> dict[str, float]:
    return {"least": round(min(values), 2), "median": round(statistics.median(values), 2)}


@contextmanager
def _clocked(state: EngineState) -> Iterator[dict[int, int]]:
    """Nanoseconds that each space takes meanwhile, by its id: a clock around every outcome."""
    spent: dict[int, int] = defaultdict(int)
    for at, space in state.spaces.items():
        space.take = partial(_timed, space.take, at, spent)  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        for space in state.spaces.values():
            del space.take


def _timed(take: Any, at: int, spent: dict[int, int], *arguments: Any) -> Iterator[Any]:
    begun = _clock()
    outcomes = iter(take(*arguments))
    spent[at] += _clock() - begun
    while True:
        begun = _clock()
        try:
            outcome = next(outcomes)
        except StopIteration:
            return
        finally:
            spent[at] += _clock() - begun
        yield outcome


def minima_state(
    chance: random.Random, rows: int, subscriptions: int, choose: Chooser | None = None
) -> EngineState:
    """A table of so many rows with one group of range minima."""
    state = _state({"t": ("k", "x", "y")}, choose)
    _publish(state, "t", [_row(chance, key, "x", "y") for key in range(rows)])
    if subscriptions:
        _subscribe(state, MINIMA, [_range(chance) for _ in range(subscriptions)])
    return state


# -- the steps of an event ---------------------------------------------------------------------------------------
def steps(rows: int, subscriptions: int, batches: int) -> list[dict[str, Any]]:
    """A state without subscriptions takes the same requests: what it saves is the time of the spaces.

    Medians alone: some steps are differences, and the least of those is noise.
    """
    progress(f"engine: the steps of an event, {subscriptions:,} range minima")
    chance = random.Random(3)
    state, bare = minima_state(chance, rows, subscriptions), minima_state(random.Random(3), rows, 0)
    seen = defaultdict[str, list[float]](list)
    with as_served():
        for _ in range(batches):
            texts = [_updates(chance, rows) for _ in range(BATCH)]
            for name, ns in _batch(state, bare, texts).items():
                seen[name].append(ns / BATCH / PER_REQUEST / 1e3)
    return [{"step": name, "median": _shown(values)["median"]} for name, values in seen.items()]


def _updates(chance: random.Random, rows: int) -> bytes:
    keys = [chance.randrange(rows) for _ in range(PER_REQUEST)]
    return encode(
        {
            "events": [
                {"op": "update", "key": {"k": key}, "set": {"y": chance.randrange(DOMAIN)}} for key in keys
            ]
        }
    )


def _batch(state: EngineState, bare: EngineState, texts: Sequence[bytes]) -> dict[str, int]:
    """CPU nanoseconds of each step for these requests, which share a commit."""
    begun = _cpu()
    requests = [c.Publish("t", typed_events(state.tables()["t"], text) or ()) for text in texts]
    decoded, validated, plain, full = _cpu() - begun, 0, 0, 0
    for request, text in zip(requests, texts, strict=True):
        begun = _cpu()
        runs_of(state, request)
        validated += _cpu() - begun
        without = c.Publish("t", typed_events(bare.tables()["t"], text) or ())
        begun = _cpu()
        bare.execute(without)
        plain += _cpu() - begun
        begun = _cpu()
        state.execute(request)
        full += _cpu() - begun
    bare.begin()
    writes = state.begin().writes
    begun = _cpu()
    list(commands(writes, {}, (1, 1)))
    return {
        "JSON decoded into structs": decoded,
        "validation: keys, old and new rows": validated,
        "rows, log entries, deltas": plain - validated,
        "spaces: index, plan, messages": full - plain,
        "the engine in all": full,
        "packing for PostgreSQL": _cpu() - begun,
    }


# -- fourteen types ----------------------------------------------------------------------------------------------
def fourteen(subscriptions: int, events: int) -> dict[str, Any]:
    """Requests of one table each: the events of a workload without subscriptions, gathered by table.

    A quarter of them comes before: plans are new then, and are looked at and measured more often.
    """
    progress(f"engine: fourteen types, {subscriptions:,} subscriptions")
    requests = _requests(events)
    mixed = Mixed(chooser("auto"), subscriptions)
    state, half = mixed.state, len(requests) // 2
    new: dict[str, list[float]] = defaultdict(list)
    took: dict[str, list[float]] = defaultdict(list)
    with as_served():
        for at, request in enumerate(requests[:half]):
            begun = _cpu()
            state.execute(request)
            (took if 2 * at >= half else new)[request.table].append((_cpu() - begun) / PER_REQUEST / 1e3)
            state.begin()
    with as_served(), _clocked(state) as spent:
        for request in requests[half:]:
            state.execute(request)
            state.begin()
    names = {group.space: f"{group.type}: {group.sample_sql}" for group in state.groups.values()}
    later = PER_REQUEST * (len(requests) - half) * 1e3
    weighted = _weighted(took)
    return {
        "subscriptions": subscriptions,
        **weighted,
        "median_new": _weighted(new)["median"],
        "events_per_s": round(1e6 / weighted["median"]),
        "by_type": [
            {"space": names.get(at, f"part {at}")[:70], "µs": round(ns / later, 2)}
            for at, ns in sorted(spent.items(), key=lambda one: -one[1])
        ],
    }


def _weighted(took: dict[str, list[float]]) -> dict[str, float]:
    """µs per event, of the tables as often as the workload has events of them."""
    share = {table: EVENTS_OF[table] / sum(EVENTS_OF[one] for one in took) for table in took}
    shown = {table: _shown(took[table]) for table in took}
    return {how: round(sum(share[one] * shown[one][how] for one in took), 1) for how in ("least", "median")}


def _requests(events: int) -> list[c.Publish]:
    mixed = Mixed(chooser("reformulate"), 0)
    waiting: dict[str, list[Any]] = defaultdict(list)
    made = []
    for table, event in mixed.events(events):
        mixed.state.execute(c.Publish(table, [event]))
        mixed.state.begin()
        waiting[table].append(event)
        if len(waiting[table]) == PER_REQUEST:
            made.append(c.Publish(table, waiting.pop(table)))
    return made


# -- two ranges --------------------------------------------------------------------------------------------------
def two_ranges(rows: int, subscriptions: int, events: int) -> list[dict[str, Any]]:
    progress(f"engine: MIN over two ranges, {rows:,} rows")
    chance, state = random.Random(4), _state({"t": ("k", "x", "z", "y")})
    made = [_row(chance, key, "x", "z", "y") for key in range(rows + events)]
    _publish(state, "t", made[:rows])
    _subscribe(
        state, TWO_RANGES, [_range(chance) | _range(chance, "from", "to") for _ in range(subscriptions)]
    )
    inserts = [{"op": "insert", "row": row} for row in made[rows:]]
    deletes = [{"op": "delete", "key": {"k": key}} for key in chance.sample(range(rows), events)]
    found = []
    for name, some in (("insert", inserts), ("delete", deletes)):
        took = []
        with as_served():
            for event in some:
                begun = _cpu()
                state.execute(c.Publish("t", [event]))
                took.append((_cpu() - begun) / 1e3)
                state.begin()
        found.append({"event": name, "rows": rows, "mean": round(statistics.mean(took), 1)} | _shown(took))
    return found


# -- registration ------------------------------------------------------------------------------------------------
def registration(ranges: int, joins: int) -> list[dict[str, Any]]:
    progress(f"engine: registering {ranges:,} ranges and {joins:,} joins")
    chance, found = random.Random(5), []
    state = _state({"t": ("k", "x", "y", "g"), "s": ("h", "g", "w")})
    _publish(state, "t", [_row(chance, key, "x", "y") | {"g": key % 100} for key in range(1_000)])
    _publish(state, "s", [{"h": h, "g": h % 100, "w": chance.randrange(DOMAIN)} for h in range(1_000)])
    for name, sql, count in (("joins", JOIN, joins), ("range minima", MINIMA, ranges)):
        given = [_range(chance) | (_range(chance, "from", "to") if sql is JOIN else {}) for _ in range(count)]
        before = resident_bytes()
        took = _subscribe(state, sql, given)
        found.append(
            {
                "subscriptions": name,
                "count": count,
                "seconds": round(took / 1e9, 2),
                "per_s": round(count / took * 1e9),
                "bytes_each": round((resident_bytes() - before) / count),
            }
        )
    return found
