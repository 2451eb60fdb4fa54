"""`prosem bench targets`: what the server promises in figures, beside what the benchmarks measure, in one table.

Each benchmark runs in a process of its own, one after another. What it printed is kept, with the figures of the run before,
so that the page shows what got slower; `--only` measures some of them, `--kept` makes the page of what is kept.
Some run a second time without the compiled kernels, under a name that ends in `-python`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench.common import Report, fail, load_average, progress
from bench.kept import FULL, QUICK, keep, kept
from prosem.values.errors import SetupError

OUT = Path("docs/targets.md")
Figures = Mapping[str, Any]
Value = Callable[[Figures], float | None]
PYTHON = "-python"  # the same benchmark with the structures in Python


class Target(NamedTuple):
    """A figure of a benchmark: at least, or at most, `limit`."""

    bench: str  # with `PYTHON` at its end or without
    name: str
    limit: float
    value: Value
    unit: str = ""
    is_least: bool = False

    @property
    def wanted(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {_number(self.limit)}{self.unit}"

    def is_met(self, value: float) -> bool:
        return value >= self.limit if self.is_least else value <= self.limit


def _row(rows: Sequence[Figures], **wanted: Any) -> Figures:
    """The row with these values; the last of those with the texts where the sizes are others (`--quick`)."""
    texts = {name: value for name, value in wanted.items() if isinstance(value, str)}
    some = [row for row in rows if all(row[name] == value for name, value in texts.items())]
    return next((row for row in some if all(row[name] == value for name, value in wanted.items())), some[-1])


def _over(rows: str, above: str, below: str, **wanted: Any) -> Value:
    """One figure of a row over another."""
    return lambda figures: _row(figures[rows], **wanted)[above] / _row(figures[rows], **wanted)[below]


def _of(rows: str, name: str, **wanted: Any) -> Value:
    return lambda figures: _row(figures[rows], **wanted)[name]


def _at(*path: str) -> Value:
    def value(figures: Figures) -> Any:
        found: Any = figures
        for name in path:
            found = found[name]
        return found

    return value


def _growth(rows: str, name: str, by: str, few: int, many: int) -> Value:
    return lambda figures: _row(figures[rows], **{by: many})[name] / _row(figures[rows], **{by: few})[name]


def _native(figures: Figures) -> float | None:
    row = _row(figures["by_subscriptions"], subscriptions=1_000_000)
    searched = row.get("us_native_searched")
    return None if searched is None else row["us_reformulate"] / searched


def _enumerated(figures: Figures) -> float:
    """Beyond 0.3 µs per affected subscription."""
    row = _row(figures["by_subscriptions"], subscriptions=1_000_000)
    return float(row["us_enumerate"] - 0.3 * row["messages_enumerate"])


def _all_cpu(figures: Figures) -> float:
    return float(sum(figures["cpu_us_per_event"].values()))


def _beyond(one: Sequence[str], other: Sequence[str]) -> Value:
    def value(figures: Figures) -> float:
        return float(_at(*one)(figures) or 0) - float(_at(*other)(figures) or 0)

    return value


def _clusters(subscriptions: int) -> Value:
    return lambda figures: _row(figures["by_subscriptions"], subscriptions=subscriptions)["us"]["ref-sj-clu+"]


def _recovered(figures: Figures) -> float:
    row = figures["sizes"][-1]
    return float(row["rows"] / row["recovered_s"])


def _least(bench: str, name: str, limit: float, value: Value, unit: str = "") -> Target:
    return Target(bench, name, limit, value, unit, is_least=True)


def _times_the_scan(bench: str, limits: Mapping[int, float]) -> Iterable[Target]:
    """Of range minima, by the number of subscriptions."""
    for count, limit in limits.items():
        value = _over("by_subscriptions", "us_scan", "us_reformulate", subscriptions=count)
        yield _least(bench, f"times the scan, {count:,} subscriptions", limit, value, "×")


def _radii(bench: str, different: float, one: float, fragmented: float, items: float) -> Iterable[Target]:
    """Notifications of values, as multiples of the scan: of one item by its radii, and of many items."""
    for name, limit, rows, wanted in (
        ("times the scan, 100,000 radii", different, "diff_rad", {"subscriptions": 100_000}),
        ("one radius, 100,000", one, "same_rad", {"subscriptions": 100_000}),
        ("fragmented, 100,000", fragmented, "extremes", {"state": "fragmented"}),
    ):
        yield _least(bench, name, limit, _over(rows, "us_scan", "us_tree", **wanted), "×")
    for name, to in (("all rows", "all rows"), ("lists of keys", "5 keys")):
        for moments in (1, 20):
            value = _over("many_items", "us_scan", "us_event", to=to, subscriptions=100_000, moments=moments)
            called = f"{name}, 100,000, registered at {moments} moment{'s'[: moments - 1]}"
            yield _least(bench, called, items, value, "×")


def _of_million(figures: Figures) -> Figures:
    """A million filters of which about ten match."""
    return _row([row for row in figures["by_filters"] if row["matches"] < 100], filters=1_000_000)


_TEMPLATES = _growth("by_templates", "ten concerned", "templates", 10, 1_000)
TARGETS: tuple[Target, ...] = (
    *_times_the_scan("range-min", {100_000: 25, 1_000_000: 300}),
    Target("range-min", "an event at 1,000,000 over one at 100,000", 1.1,
           _growth("by_subscriptions", "us_reformulate", "subscriptions", 100_000, 1_000_000), "×"),
    Target("range-min", "over C++ alone (tree, rule, search), 1,000,000", 4, _native, "×"),
    Target("range-min", "enumeration at 1,000,000, beyond 0.3 µs per affected", 20, _enumerated, " µs"),
    *_radii("value-change", different=3, one=20, fragmented=0.8, items=2),
    Target("engine", "MIN over two ranges, 100,000 rows: an insert, median", 200,
           _of("two_ranges", "median", event="insert"), " µs"),
    Target("engine", "a delete, median", 1_000, _of("two_ranges", "median", event="delete"), " µs"),
    Target("matching", "1,000,000 filters, ten matches", 30, lambda figures: _of_million(figures)["us_fastint"], " µs"),
    Target("join", "by clusters, 100,000 subscriptions", 100, _clusters(100_000), " µs"),
    Target("join", "by clusters, 1,000,000", 200, _clusters(1_000_000), " µs"),
    Target("join", "the whole benchmark", 600, _at("seconds"), " s"),
    _least("end-to-end", "events/s accepted", 20_000, _at("events_per_s")),
    _least("end-to-end", "events/s with all subscriptions attached", 10_000, _at("events_per_s_attached")),
    _least("end-to-end", "changes/s delivered", 150_000, _at("changes_per_s")),
    Target("end-to-end", "server and PostgreSQL, CPU time per event", 50, _all_cpu, " µs"),
    Target("end-to-end", "idle, acknowledged beyond a raw commit, p50", 1.5,
           _beyond(("idle_ms", "acknowledged", "p50"), ("idle_ms", "commit", "p50")), " ms"),
    Target("end-to-end", "idle, the change beyond the acknowledgement, p50", 0,
           _beyond(("idle_ms", "change", "p50"), ("idle_ms", "acknowledged", "p50")), " ms"),
    *(
        Target("end-to-end", f"{load}, {how}{name}", limit, _at(figure + by, name), " ms")
        for load, figure in (("5,000 events/s, half of the promise", "latency_ms_promised"), ("half load", "latency_ms"))
        for how, by in (("", ""), ("two workers, ", "_two_workers"))
        for name, limit in (("p50", 5), ("p99", 25))
    ),
    Target("end-to-end", "loop late under load beyond an idle one, p99.9", 10,
           _beyond(("loop_late_ms", "load"), ("loop_late_ms", "idle")), " ms"),
    _least("attach", "backlog drained, events/s", 4_000, _at("drained_events_per_s")),
    Target("attach", "lag at half of that, p99", 2_000, _at("lag_ms", "p99"), " ms"),
    *(
        _least("engine", f"fourteen types, {count:,} subscriptions, events/s", 10_000,
               _of("fourteen", "events_per_s", subscriptions=count))
        for count in (20_000, 100_000)
    ),
    Target("rows", "bytes per row, 10,000,000 rows", 120, lambda figures: figures["sizes"][-1]["bytes_per_row"]),
    _least("rows", "rows/s recovered", 200_000, _recovered),
    Target("rows", "an event over one at 100,000 rows", 1.5, _at("event_cost_ratio"), "×"),
    Target("templates", "1,000 templates over ten", 5, _TEMPLATES, "×"),
    _least("engine", "joins registered/s", 20_000, _of("registration", "per_s", subscriptions="joins")),
    Target("engine", "bytes per join subscription", 300, _of("registration", "bytes_each", subscriptions="joins")),
    Target("engine", "1,000,000 ranges registered", 30, _of("registration", "seconds", subscriptions="range minima"),
           " s"),
    Target("optimizer", "choosing, one group", 5, _at("overhead_of_one_group_percent"), " %"),
    Target("optimizer", "choosing, fourteen types, 1,000 entries", 5, _at("overhead_percent", "1000"), " %"),
    Target("spark", "computing a run, 10,000,000 rows", 15, lambda figures: figures["by_rows"][-1]["seconds_compute"], " s"),
    Target("spark", "a run with 1 % new over the first one", 0.15, _at("incremental_share"), "×"),
    *(
        Target("statistics", f"{called}, with a run over {other}", limit, _at(f"to_{at}", figure), "×")
        for at, other, limit in (("without", "without", 0.85), ("learned", "ten minutes of learning", 1.05))
        for figure, called in (("cpu_us", "CPU time per event"), ("bytes", "bytes per event"))
    ),
    *_times_the_scan("range-min" + PYTHON, {100_000: 5, 1_000_000: 100}),
    *_radii("value-change" + PYTHON, different=0.7, one=10, fragmented=0.3, items=0.2),
    _least("matching" + PYTHON, "times the scan, 1,000,000 filters, ten matches", 62,
           lambda figures: _of_million(figures)["us_scan"] / _of_million(figures)["us_fastint"], "×"),
    Target("rows" + PYTHON, "bytes per row, 10,000,000 rows", 250, lambda figures: figures["sizes"][-1]["bytes_per_row"]),
    Target("templates" + PYTHON, "1,000 templates over ten", 5, _TEMPLATES, "×"),
)  # fmt: skip


class Result(NamedTuple):
    """What a benchmark printed; `before` has its figures of the table in the run before, by name."""

    bench: str
    size: str
    date: str
    load: list[float]
    machine: dict[str, Any]
    seconds: float
    figures: dict[str, Any]
    before: dict[str, float]

    @property
    def values(self) -> dict[str, float]:
        """The figures of the table, by name, without those that the benchmark did not measure then."""
        figures = {**self.figures, "seconds": self.seconds}
        found: dict[str, float | None] = {}
        for one in TARGETS:
            if one.bench == self.bench:
                with suppress(KeyError):
                    found[one.name] = one.value(figures)
        return {name: round(value, 3) for name, value in found.items() if value is not None}


def benches() -> list[str]:
    return list(dict.fromkeys(one.bench for one in TARGETS))


def run(quick: bool, only: Sequence[str] = (), out: Path = OUT, measure: bool = True) -> Report:
    """Measure these benchmarks (all without a name), unless only the page is to be made of what is kept."""
    names = [name.strip() for text in only for name in text.split(",")] or benches()
    for name in names:
        if name not in benches():
            raise SetupError(f"no target is of the benchmark {name!r}; there are {', '.join(benches())}")
    report, folder = (
        Report("targets", {"quick": quick, "only": names, "out": str(out)}),
        out.parent / out.stem,
    )
    for name in names if measure else ():
        keep(folder, measured(name, quick, kept(folder, Result).get(name)))
        write(out, folder)  # after each: what comes later may fail
    if not measure:
        write(out, folder)
    rows = list(lines(kept(folder, Result).values()))
    report.figures = {"targets": rows}
    report.tables = [(f"targets, in {out}", rows)] if rows else []
    return report


def measured(name: str, quick: bool, before: Result | None) -> Result:
    progress(f"targets: {name}")
    command = [
        sys.executable,
        "-m",
        "api.commands.cli",
        "bench",
        name.removesuffix(PYTHON),
        "--json",
        *(["--quick"] if quick else []),
    ]
    load = load_average()
    kernels = {"PROSEM_KERNELS": "off"} if name.endswith(PYTHON) else {}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=os.environ | kernels)
    if done.returncode:
        fail(f"prosem bench {name} has failed")
    found = json.loads(done.stdout.splitlines()[-1])
    return Result(
        name, QUICK if quick else FULL, datetime.now(UTC).strftime("%Y-%m-%d %H:%M"), [load, load_average()],
        found["machine"], found["seconds"], found["figures"], {} if before is None else before.values,
    )  # fmt: skip


def lines(results: Iterable[Result]) -> Iterable[dict[str, str]]:
    by_bench = {one.bench: one for one in results}
    for target in TARGETS:
        result = by_bench.get(target.bench)
        value = None if result is None else result.values.get(target.name)
        before = None if result is None else result.before.get(target.name)
        yield {
            "bench": target.bench,
            "figure": target.name,
            "target": target.wanted,
            "measured": "-" if value is None else f"{_number(value)}{target.unit}",
            "before": "-" if before is None else f"{_number(before)}{target.unit}",
            "met": "-" if value is None else "yes" if target.is_met(value) else "**no**",
        }


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


HEAD = """# Targets

What ProSem promises in figures, made by `prosem bench targets` from what the benchmarks print, which is kept in
`docs/targets/`. *Times the scan* is against numpy over all subscriptions in the same run; *before* is the run before it.
Benchmarks whose names end in `-python` ran without the compiled kernels (`PROSEM_KERNELS=off`).
What each benchmark does, and why a target is missed, is in [Benchmarks](benchmarks.md#targets-that-are-missed).
"""


def page(results: Mapping[str, Result]) -> str:
    rows = list(lines(results.values()))
    shown = [
        list(rows[0]),
        ["---", "---", "---:", "---:", "---:", "---"],
        *(list(row.values()) for row in rows),
    ]
    took = [
        ["bench", "measured (UTC)", "size", "load", "s", "machine"],
        ["---", "---", "---", "---", "---:", "---"],
    ]
    for name in benches():
        if name in results:
            one = results[name]
            machine = f"{one.machine['cpu']}, {one.machine['cores']} cores"
            load = f"{one.load[0]} to {one.load[1]}"
            took.append([f"`{name}`", one.date, one.size, load, f"{one.seconds:,.0f}", machine])
    tables = ("\n".join(f"| {' | '.join(row)} |" for row in some) for some in (shown, took))
    return HEAD + "\n" + "\n\n".join(tables) + "\n"


def write(out: Path, folder: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(kept(folder, Result)), encoding="utf-8")
