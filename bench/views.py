"""Views: the shared part kept incrementally, the personal part reformulated, beside databases that compute both again.

Two views. `placed` joins 100,000 offers with their 10,000 sellers; a subscription is the lowest price of sellers in a range
of scores. `stock` adds up 100,000 movements of 10,000 articles; a subscription is the lowest stock in a range of articles.
Every tenth event of the first changes a seller, and so about ten rows of the view; all others change one row. The engine
is driven as by the server, in requests of 100 events, without the commit. PostgreSQL and DuckDB take the same events. At the
end a sample of the subscriptions must have the same answer in all of them.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench import views_building
from bench.common import Report, fail, progress
from bench.views_recomputed import SYSTEMS, Recomputed
from cn.model.message import Message
from optimizer.choose import chooser
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics

DOMAIN = 10_000
REQUEST = 100
SAMPLE = 40
Event = dict[str, Any]
Rows = dict[str, list[tuple[int, ...]]]


class Case(NamedTuple):
    """Tables with integer columns, the first being the key; a view over them; and a personal query over the view."""

    name: str
    tables: dict[str, tuple[str, ...]]
    view: str
    definition: str
    sql: str
    rows: Callable[[int, random.Random], Rows]
    event: Callable[[int, random.Random], Event]


def _offers(count: int, chance: random.Random) -> Rows:
    sellers = [(n, chance.randrange(DOMAIN)) for n in range(count // 10)]
    offers = [(n, chance.randrange(count // 10), chance.randrange(100, DOMAIN)) for n in range(count)]
    return {"sellers": [*sellers], "offers": [*offers]}


def _offered(count: int, chance: random.Random) -> Event:
    """One offer has another price; every tenth time, all offers of a seller have another score."""
    if chance.random() < 0.1:
        key, score = chance.randrange(count // 10), chance.randrange(DOMAIN)
        return {"table": "sellers", "op": "update", "key": {"id": key}, "set": {"score": score}}
    price = chance.randrange(100) if chance.random() < 0.005 else chance.randrange(100, DOMAIN)
    return {
        "table": "offers",
        "op": "update",
        "key": {"id": chance.randrange(count)},
        "set": {"price": price},
    }


def _movements(count: int, chance: random.Random) -> Rows:
    articles = range(count // 10)
    return {"movements": [(n, chance.choice(articles), chance.randrange(-50, 100)) for n in range(count)]}


def _moved(count: int, chance: random.Random) -> Event:
    key, quantity = chance.randrange(count), chance.randrange(-50, 100)
    return {"table": "movements", "op": "update", "key": {"id": key}, "set": {"quantity": quantity}}


CASES = (
    Case(
        "join",
        {"sellers": ("id", "score"), "offers": ("id", "seller_id", "price")},
        "placed",
        "SELECT o.id, s.id AS seller_id, s.score, o.price FROM offers o JOIN sellers s ON o.seller_id = s.id",
        "SELECT MIN(price) FROM placed WHERE score BETWEEN :lo AND :hi",
        _offers,
        _offered,
    ),
    Case(
        "groups",
        {"movements": ("id", "article", "quantity")},
        "stock",
        "SELECT article, COUNT(*) AS n, SUM(quantity) AS total FROM movements GROUP BY article",
        "SELECT MIN(total) FROM stock WHERE article BETWEEN :lo AND :hi",
        _movements,
        _moved,
    ),
)


def run(quick: bool) -> Report:
    rows, events, repeats = (2_000, 400, 3) if quick else (100_000, 5_000, 20)
    sizes = [1_000, 10_000] if quick else [10_000, 100_000, 1_000_000]
    report = Report("views", {"rows": rows, "events": events, "request": REQUEST, "quick": quick})
    figures, others = [], []
    for case in CASES:
        kept, recomputed = measure(case, rows, sizes, events, repeats)
        figures += kept
        others += recomputed
    building = views_building.measure(*((5_000, 500) if quick else (1_000_000, 100_000)))
    report.figures = {"by_subscriptions": figures, "recomputed": others, "building": building}
    report.tables = [
        ("kept: growth with subscriptions", figures),
        ("recomputed, for each event", others),
        (
            f"publishing while a view over {building['rows']:,} rows is built in {building['seconds']} s",
            [
                {
                    "when": name,
                    **{
                        f"{figure} ms": building[f"{figure}_ms_{name}"]
                        for figure in ("p50", "p99", "longest")
                    },
                }
                for name in ("before", "during")
            ],
        ),
    ]
    report.notes = [
        "kept: µs of CPU time per event of the median request, everything the engine does, without the commit",
        "recomputed: ms of wall-clock time; the view as a whole, or one subscription from the tables, its update included",
        f"not installed: {', '.join(missing)}"
        if (missing := _missing(others))
        else "all systems are installed",
    ]
    return report


def _missing(others: list[dict[str, Any]]) -> list[str]:
    return [name for name in SYSTEMS if name not in {row["system"] for row in others}]


def measure(
    case: Case, rows: int, sizes: list[int], events: int, repeats: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Figures for each number of subscriptions, and those of the systems that compute again."""
    chance = random.Random(7)
    content = case.rows(rows, chance)
    kept = Kept(case, content)
    taken, figures = [], []
    for size in [0, *sizes]:
        progress(f"views: {case.name}, {rows:,} rows, {size:,} subscriptions, {events:,} events")
        kept.subscribe(size, rows, chance)
        given = [case.event(rows, chance) for _ in range(events)]
        taken += given
        figures.append({"view": case.name, "rows": rows, "subscriptions": size, **kept.take(given)})
    sample = chance.sample(kept.ranges, min(SAMPLE, len(kept.ranges)))
    others = []
    for name, open_system in SYSTEMS.items():
        with open_system() as system:
            if system is None:
                continue
            progress(f"views: {case.name}, {name}")
            system.load(case.tables, content, case.view, case.definition)
            others.append(
                {"view": case.name, "system": name, **_recompute(case, system, taken, sample, repeats)}
            )
            _agree(kept, system, case, sample, name)
    return figures, others


class Kept:
    """The engine with the view, and subscriptions over it; they are added, not made anew."""

    def __init__(self, case: Case, content: Rows) -> None:
        self.case, self.state = case, EngineState(chooser("auto"), Metrics())
        self.ranges: list[tuple[str, int, int]] = []  # id, lo, hi
        for name, columns in case.tables.items():
            described = [{"name": column, "type": "integer"} for column in columns]
            self.state.execute(c.CreateTable({"name": name, "columns": described, "primary_key": ["id"]}))
            self.state.begin()
            self.state.rows[self.state.tables()[name].id].update({(row[0],): row for row in content[name]})
        prepared = self.state.execute(c.PrepareView(case.view, case.definition))
        prepared.build.fill(lambda rows: None)
        prepared.build.catch_up()
        self.state.execute(c.InstallView(prepared.build))
        self.state.begin()

    def subscribe(self, size: int, rows: int, chance: random.Random) -> None:
        """Up to `size` subscriptions, with ranges of the workload of `range-min`, scaled to the column."""
        scale = (DOMAIN if self.case.name == "join" else rows // 10) / DOMAIN
        query = parse(self.case.sql)
        while len(self.ranges) < size:
            given = [_range(chance, scale) for _ in range(min(50_000, size - len(self.ranges)))]
            wanted: list[tuple[str | None, dict[str, Any]]] = [
                (None, {"lo": lo, "hi": hi}) for lo, hi in given
            ]
            ids = self.state.execute(c.Subscribe(query, None, wanted, batch=True))["ids"]
            self.ranges += [(id, *one) for id, one in zip(ids, given, strict=True)]
            self.state.begin()

    def take(self, events: list[Event]) -> dict[str, Any]:
        """Messages per event, and the CPU time of the median request by its events."""
        messages, times_s = 0, []
        for request in _requests(events):
            start = time.process_time()
            self.state.execute(c.Transact(request))
            batch = self.state.begin()
            times_s.append((time.process_time() - start) / len(request))
            messages += sum(isinstance(frame, Message) for frame in batch.frames)
        taken_s = statistics.median(times_s)
        return {
            "messages": round(messages / len(events), 3),
            "us": round(taken_s * 1e6, 1),
            "events_per_s": round(1 / taken_s),
        }

    def answer(self, id: str) -> Any:
        return self.state.execute(c.Result(id))["result"]["value"]


def _range(chance: random.Random, scale: float) -> tuple[int, int]:
    middle, length = chance.gauss(5000, 1500), abs(chance.gauss(1000, 1000))
    return tuple(max(0, int(scale * end)) for end in (middle - length / 2, middle + length / 2))  # type: ignore[return-value]


def _requests(events: list[Event]) -> Iterator[list[Event]]:
    for start in range(0, len(events), REQUEST):
        yield events[start : start + REQUEST]


def _recompute(
    case: Case, system: Recomputed, events: list[Event], sample: list[tuple[str, int, int]], repeats: int
) -> dict[str, Any]:
    """The ms that an event takes if the view, or one subscription, is computed again; the other events go by in bulk."""
    views_s, ones_s = [], []
    for event in events[:repeats]:
        start = time.perf_counter()
        system.update([event])
        system.compute_view()
        views_s.append(time.perf_counter() - start)
    for at, event in enumerate(events[repeats : 2 * repeats]):
        _, lo, hi = sample[at % len(sample)]
        start = time.perf_counter()
        system.update([event])
        system.compute_one(case.sql, lo, hi)
        ones_s.append(time.perf_counter() - start)
    system.update(events[2 * repeats :])
    return {
        "ms_view": round(1000 * statistics.median(views_s), 3),
        "ms_one_subscription": round(1000 * statistics.median(ones_s), 3),
    }


def _agree(kept: Kept, system: Recomputed, case: Case, sample: list[tuple[str, int, int]], name: str) -> None:
    for id, lo, hi in sample:
        expected, found = system.compute_one(case.sql, lo, hi), kept.answer(id)
        if found != expected:
            fail(f"{case.sql} from {lo} to {hi}: the engine has {found}, {name} {expected}")
