"""The choice of plans: chapter 6 of [ProSem thesis]."""

from __future__ import annotations

from collections.abc import Sequence

from bench.papers.chapter3 import THESIS
from bench.papers.model import Axes, Comparison, Data, Figure, Lines

MIXED = "100,000 subscriptions of 14 types, 428 brokers (6.5.1)"
KNOBS = ("reformulation_percent", "events_per_s", "latency_us", "server_bytes", "network_bytes")


def _overhead(data: Data) -> Lines:
    return [
        {"entries": int(entries), "percent": percent} for entries, percent in data["overhead_percent"].items()
    ]


def _cheap(data: Data) -> list[Comparison]:
    last = _overhead(data)[-1]
    what = f"percent of an event's time, {last['entries']:,} entries"
    return [Comparison(what, "below 10", last["percent"], last["percent"] < 10)]


def _costs(data: Data) -> Lines:
    cost = data["cost"]
    rows = {
        "worst": cost["worst"],
        "random": cost["random"],
        "best static plan": min(cost["static"].values()),
    }
    rows |= {f"{entries} entries": value for entries, value in cost["ours"].items()}
    return [
        {"strategy": name, "weighted cost": value}
        for name, value in (rows | {"oracle": cost["oracle"]}).items()
    ]


def _accurate(data: Data) -> list[Comparison]:
    cost = data["cost"]
    ours = list(cost["ours"].values())
    over = round(ours[-1] / cost["oracle"], 3)
    return [
        Comparison("most entries over the oracle", "nearly as good", over, over < 1.15),
        Comparison("most entries over one", "much better", round(ours[-1] / ours[0], 3), ours[-1] < ours[0]),
        Comparison("random over worst", "less", round(cost["random"] / cost["worst"], 3), cost["random"] < cost["worst"]),
    ]  # fmt: skip


def _knob(data: Data, metric: str) -> Lines:
    return [
        {"weight": row["weight"]} | {name: row[name] for name in KNOBS}
        for row in data["knobs"]
        if row["knob"] == metric
    ]


def _effects(data: Data, metric: str, said: Sequence[tuple[str, str]]) -> list[Comparison]:
    lines = _knob(data, metric)
    found = []
    for name, direction in said:
        factor = lines[-1][name] / max(1e-9, lines[0][name])
        is_right = factor >= 1 if direction == "rises" else factor <= 1
        found.append(Comparison(f"{name}, last over first", direction, round(factor, 2), is_right))
    return found


SERVER_TIME = (
    ("events_per_s", "rises"),
    ("reformulation_percent", "rises"),
    ("server_bytes", "falls"),
    ("network_bytes", "rises"),
)
RESPONSE_TIME = (("events_per_s", "falls"), ("reformulation_percent", "falls"), ("latency_us", "falls"))

FIGURES: Sequence[Figure] = (
    Figure(
        "6.4", THESIS, "overhead of choosing, by entries per type", "below 10 % with 50,000 entries.",
        MIXED, "optimizer", _overhead, _cheap, Axes("entries", "percent", ""),
    ),
    Figure(
        "6.5", THESIS, "weighted cost per event, by strategy",
        "worst, random, then ours with 1, 10, 100 and 1000 entries, which is nearly as good as the oracle. No numbers.",
        MIXED, "optimizer", _costs, _accurate, None,
    ),
    Figure(
        "6.6", THESIS, "the weight of server time",
        "with more weight throughput and reformulation rise, server stress falls, middleware traffic rises. No numbers.",
        MIXED, "optimizer", lambda data: _knob(data, "server_time"),
        lambda data: _effects(data, "server_time", SERVER_TIME), Axes("weight", "", "y", KNOBS),
    ),
    Figure(
        "6.7", THESIS, "the weight of response time",
        "with more weight latency falls, and so do throughput and reformulation. No numbers.",
        MIXED, "optimizer", lambda data: _knob(data, "response_time"),
        lambda data: _effects(data, "response_time", RESPONSE_TIME), Axes("weight", "", "y", KNOBS),
    ),
)  # fmt: skip
