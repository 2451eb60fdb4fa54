"""Matching: FASTINT against a vectorised scan and Python's loop, five numeric intervals and one text equality.

Filters are uniform: each interval starts anywhere and is as wide as the wanted number of matches asks; texts are
of 50 values. All strategies see the same events and must agree on every match (the loop on a few of them). The index of
the networks itself is driven. Inserts, updates (one interval moves) and deletes are single calls at full size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.common import Report, fail, progress, resident_bytes
from cn.match.box_index import BoxIndex
from cn.match.kernels import box_index
from cn.model.geometry import Extent, Filters, Interval

DOMAIN = 1_000_000
NUMBERS = 5  # numeric attributes; the text comes after them
TEXTS = [f"SYMBOL {number}" for number in range(50)]
BATCH = 20_000
AGAIN = 20  # events that are matched once more after the changes
MATCHES = (10, 1000)


def run(quick: bool) -> Report:
    sizes = [10_000, 100_000] if quick else [10_000, 100_000, 1_000_000]
    events, changes = (200, 1_000) if quick else (400, 4_000)
    report = Report("matching", {"events": events, "changes": changes, "texts": len(TEXTS), "quick": quick})
    rows = []
    for filters in sizes:
        for matches in MATCHES:
            if matches * len(TEXTS) < filters:  # otherwise not so many filters have the event's text
                progress(f"matching: {filters:,} filters, about {matches:,} matches, {events:,} events")
                with ProcessPoolExecutor(1, get_context("spawn")) as fresh:  # memory that was not used before
                    rows.append(fresh.submit(measure, filters, matches, events, changes).result())
    report.figures = {"by_filters": rows}
    shown = [
        {name.removeprefix("us_").partition("_")[0]: value for name, value in row.items()} for row in rows
    ]
    report.tables = [("µs per event (FASTINT, scan, loop) and per change; bytes a filter", shown)]
    ratios = [f"{row['us_scan'] / row['us_fastint']:.0f}" for row in rows]
    report.notes = [
        f"scan / FASTINT: {', '.join(ratios)}",
        "scan: eleven comparisons of whole columns in numpy; loop: the same for one filter after the other",
    ]
    return report


class Population:
    """Random filters as columns."""

    def __init__(self, filters: int, matches: int, random: np.random.Generator) -> None:
        share = (matches * len(TEXTS) / filters) ** (1 / NUMBERS)
        width = (_width(share) * random.uniform(0.5, 1.5, (NUMBERS, filters))).astype(np.int64)
        self.low = (random.uniform(0, 1, (NUMBERS, filters)) * (DOMAIN + width)).astype(np.int64) - width
        self.high = self.low + width
        self.text = random.integers(0, len(TEXTS), filters)

    def __len__(self) -> int:
        return len(self.text)

    def filters(self, start: int, stop: int, moved: int = 0) -> list[Filters]:
        """Some of them as the index takes them, the first interval moved."""
        low, high = self.low[:, start:stop].copy(), self.high[:, start:stop].copy()
        low[0] += moved
        high[0] += moved
        texts = [TEXTS[text] for text in self.text[start:stop].tolist()]
        made: list[Filters] = []
        for lows, highs, text in zip(low.T.tolist(), high.T.tolist(), texts, strict=True):
            sides = [Interval(a, b) for a, b in zip(lows, highs, strict=True)] + [Interval(text, text)]
            made.append(({at: Extent((side,)) for at, side in enumerate(sides)},))
        return made


def _width(share: float) -> float:
    """How wide intervals are on average that hold this share of the codes."""
    factors, low, high = np.linspace(0.5, 1.5, 1001), 0.0, 1000.0 * DOMAIN
    for _ in range(80):
        middle = (low + high) / 2
        if np.mean(middle * factors / (DOMAIN + middle * factors)) < share:
            low = middle
        else:
            high = middle
    return high


class Scan:
    """What a competent engineer writes first: contiguous columns, compared whole into buffers that are kept."""

    def __init__(self, population: Population) -> None:
        self._low, self._high = [[*map(np.ascontiguousarray, c)] for c in (population.low, population.high)]
        self._text = population.text.astype(np.int32)
        self._found, self._next = np.empty((2, len(population)), np.bool_)

    def match(self, vector: Sequence[Any]) -> NDArray[np.intp]:
        found, following = self._found, self._next
        np.equal(self._text, TEXTS.index(vector[NUMBERS]), out=found)
        for code, low, high in zip(vector[:NUMBERS], self._low, self._high, strict=True):
            found &= np.less_equal(low, code, out=following)
            found &= np.greater_equal(high, code, out=following)
        return np.flatnonzero(found)


def loop(population: Population, vectors: Sequence[Sequence[Any]]) -> tuple[list[list[int]], float]:
    """The matches of each vector by a loop over all filters, and the µs of one."""
    lows, highs = ([column.tolist() for column in columns] for columns in (population.low, population.high))
    texts = [TEXTS[text] for text in population.text.tolist()]
    rows = list(zip(texts, *lows, *highs, strict=True))
    start = time.perf_counter()
    found = []
    for v0, v1, v2, v3, v4, text in vectors:
        found.append(
            [
                at
                for at, (same, l0, l1, l2, l3, l4, h0, h1, h2, h3, h4) in enumerate(rows)
                if same == text
                and l0 <= v0 <= h0
                and l1 <= v1 <= h1
                and l2 <= v2 <= h2
                and l3 <= v3 <= h3
                and l4 <= v4 <= h4
            ]
        )
    return found, (time.perf_counter() - start) / len(vectors) * 1e6


def measure(filters: int, matches: int, events: int, changes: int) -> dict[str, Any]:
    """Figures per event and per change at one size."""
    random = np.random.default_rng(11)
    population = Population(filters, matches, random)
    index = box_index()
    ids = list(range(filters + changes))
    batch = population.filters(
        0, BATCH
    )  # the memory of one batch is not the index's: it is there at both ends
    before, loading = resident_bytes(), 0.0
    for start in range(0, filters, BATCH):
        stop = min(filters, start + BATCH)
        batch.clear()
        batch = population.filters(start, stop)
        begun = time.perf_counter()
        index.insert_many(ids[start:stop], batch)
        loading += time.perf_counter() - begun
    memory = (resident_bytes() - before) / filters
    numbers = random.integers(0, DOMAIN, (events, NUMBERS)).tolist()
    vectors = [
        (*row, TEXTS[text]) for row, text in zip(numbers, random.integers(0, len(TEXTS), events), strict=True)
    ]
    found, us_fastint, us_scan = _match(index, Scan(population), vectors)
    sample = vectors[: 3 if filters > 200_000 else 10]
    looped, us_loop = loop(population, sample)
    if [sorted(ids) for ids in found[: len(sample)]] != looped:
        fail("FASTINT and the loop disagree")
    new, moved = population.filters(0, changes), population.filters(0, changes, DOMAIN // 100)
    extra = ids[filters:]
    us_insert = _each(index.insert, extra, new)
    us_update = _each(index.update, extra, moved)
    us_delete = _each(lambda id, _: index.remove(id), extra, new)
    again, _, _ = _match(index, Scan(population), vectors[:AGAIN])
    if [sorted(ids) for ids in again] != [sorted(ids) for ids in found[:AGAIN]]:
        fail("FASTINT finds others after inserts, updates and deletes of the same ids")
    return {
        "filters": filters,
        "matches": round(sum(map(len, found)) / events, 1),
        "us_fastint": round(us_fastint, 1),
        "us_scan": round(us_scan, 1),
        "us_loop": round(us_loop, 1),
        "us_insert": round(us_insert, 1),
        "us_update": round(us_update, 1),
        "us_delete": round(us_delete, 1),
        "us_load": round(loading / filters * 1e6, 1),
        "bytes_per_filter": round(memory, 1),
    }


def _match(
    index: BoxIndex, scan: Scan, vectors: Sequence[tuple[Any, ...]]
) -> tuple[list[list[int]], float, float]:
    """The matches by both, each alone so that nothing else cools its caches, and the µs per event."""
    clock = time.perf_counter
    begun = clock()
    found = [index.match(vector) for vector in vectors]
    matched = clock()
    expected = [scan.match(vector) for vector in vectors]
    scanned = clock() - matched
    if any(sorted(one) != other.tolist() for one, other in zip(found, expected, strict=True)):
        fail("FASTINT and the scan disagree")
    return found, (matched - begun) / len(vectors) * 1e6, scanned / len(vectors) * 1e6


def _each(call: Callable[[int, Filters], object], ids: Sequence[int], filters: Sequence[Filters]) -> float:
    """The µs of one call."""
    begun = time.perf_counter()
    for id, given in zip(ids, filters, strict=True):
        call(id, given)
    return (time.perf_counter() - begun) / len(ids) * 1e6
