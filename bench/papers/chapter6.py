"""The choice of plans: chapter 6 of [ProSem thesis]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench.papers.chapter3 import THESIS
from bench.papers.model import Axes, Comparison, Data, Figure, Lines, short
from optimizer.plan import addresses

MIXED = "100,000 subscriptions of 14 types, 428 brokers (6.5.1)"
ALL = ", all plans"
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


def _knob(metric: str, data: Data) -> Lines:
    """A line per weight: the source's two plans, and beside them all plans of the product."""
    both = zip(data["knobs_two_plans"], data["knobs"], strict=True)
    return [
        {"weight": two["weight"]}
        | {name: two[name] for name in KNOBS}
        | {f"{name}{ALL}": every[name] for name in KNOBS}
        for two, every in both
        if two["knob"] == metric
    ]


def _effects(metric: str, said: Mapping[str, str], data: Data) -> list[Comparison]:
    lines = _knob(metric, data)
    found = []
    for plans in ("", ALL):
        for name, direction in said.items():
            last, first = lines[-1][f"{name}{plans}"], lines[0][f"{name}{plans}"]
            factor = short(last / max(1e-9, first))
            is_right = factor > 1 if direction == "rises" else factor < 1
            found.append(
                Comparison(f"{name}{plans}, last over first", direction, factor, is_right, lines[-1])
            )
    return found


def _named(rows: Sequence[Mapping[str, Any]]) -> str:
    """How often subscriptions are named, at the least and the greatest weight, and what that takes."""
    named = [
        f"at weight {row['weight']:g} in {100 - row['reformulation_percent']:.1f} % of the decisions, with"
        f" {row['named_bytes'][0]:,.0f} bytes from the server where regions take {row['named_bytes'][1]:,.0f}"
        for row in (rows[0], rows[-1])
        if row["named_bytes"]
    ]
    return "; ".join(named) or "never here"


def _one_message(metric: str, data: Data, one: Comparison) -> str:
    """Why the two plans of the source may go another way here."""
    rows = [row for row in data["knobs_two_plans"] if row["knob"] == metric]
    return (
        "In the source a message goes straight to each affected subscription. Here one message names all subscriptions of"
        f" an event: {_named(rows)}."
    )


def _more_plans(metric: str, data: Data, one: Comparison) -> str:
    """Why all plans of the product may go another way than the two of the source."""
    rows = [row for row in data["knobs"] if row["knob"] == metric]
    return (
        "The source has two plans: a region through the network, and a message straight to each subscription. The product"
        " also sends regions straight to brokers, relaxes, has several descriptions of a join, and names all subscriptions"
        f" of an event in one message: {_named(rows)}."
    )


def _shares(metric: str, data: Data, one: Comparison) -> str:
    """The same, and what the bytes from the server are due to at each weight."""
    said = []
    for row in (row for row in data["knobs"] if row["knob"] == metric):
        sums: dict[str, list[float]] = {}
        for name, (percent, size_bytes) in row.get("shares", {}).items():
            way = "straight" if name.endswith(", straight") else "down the tree"
            kind = sums.setdefault(f"{'names' if addresses(name) else 'regions'} {way}", [0.0, 0.0])
            kind[0] += percent
            kind[1] += size_bytes
        named = ", ".join(
            f"{kind} {percent:.0f} % and {size_bytes:,.0f}" for kind, (percent, size_bytes) in sums.items()
        )
        said += [f"at weight {row['weight']:g} {named}"] if sums else []
    due = f" The decisions, and the bytes per event that are due to them: {'; '.join(said)}." if said else ""
    return _more_plans(metric, data, one) + due


def _straight(metric: str, data: Data, one: Comparison) -> str:
    """Why the share of regions stays: the product has another way to send them."""
    first, last = (
        row for row in data["knobs"] if row["knob"] == metric and row["weight"] in (0, one.line["weight"])
    )
    return (
        "In the source a plan with a lower latency is unicast. The product sends the same region straight to the"
        f" brokers concerned: {last['reformulation_percent']:.1f} % of the decisions stay regions at weight"
        f" {last['weight']:g}, while the server sends {last['server_bytes']:,.0f} bytes instead of"
        f" {first['server_bytes']:,.0f} and latency falls from {first['latency_us']:,.0f} to {last['latency_us']:,.0f}"
        " µs."
    )


SERVER_TIME = {
    "events_per_s": "rises",
    "reformulation_percent": "rises",
    "server_bytes": "falls",
    "network_bytes": "rises",
}
RESPONSE_TIME = {"events_per_s": "falls", "reformulation_percent": "falls", "latency_us": "falls"}
BANDWIDTH = {"network_bytes": "falls", "server_bytes": "rises", "reformulation_percent": "falls"}
SERVER_STRESS = {"server_bytes": "falls"}


def _weight(name: str, title: str, said: str, metric: str, effects: Mapping[str, str]) -> Figure:
    return Figure(
        name, THESIS, title, said, MIXED, "optimizer", partial(_knob, metric), partial(_effects, metric, effects),
        Axes("weight", "", "y", KNOBS),
        {
            "": partial(_one_message, metric),
            **{f"{one}{ALL}": partial(_more_plans, metric) for one in effects},
            f"reformulation_percent{ALL}": partial(_straight, metric),
            f"server_bytes{ALL}": partial(_shares, metric),
        },
    )  # fmt: skip


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
    _weight(
        "6.6", "the weight of server time",
        "with more weight throughput and reformulation rise, server stress falls, middleware traffic rises. No numbers.",
        "server_time", SERVER_TIME,
    ),
    _weight(
        "6.7", "the weight of response time",
        "with more weight latency falls, and so do throughput and reformulation. No numbers.",
        "response_time", RESPONSE_TIME,
    ),
    _weight(
        "section 6.5.2 bandwidth", "the weight of bandwidth",
        "with more weight middleware traffic falls, at the expense of server stress, by more unicast. No numbers.",
        "bandwidth", BANDWIDTH,
    ),
    _weight(
        "section 6.5.2 stress", "the weight of server stress",
        "with more weight stress falls. No numbers.", "server_stress", SERVER_STRESS,
    ),
)  # fmt: skip
