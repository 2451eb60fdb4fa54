"""Value notification: chapter 4 of [ProSem thesis]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from bench.networks_value import THESIS_STRESS
from bench.papers import chapter4_reasons as why
from bench.papers.chapter3 import OVER, THESIS, Compare
from bench.papers.model import (
    Axes,
    Comparison,
    Data,
    Figure,
    Line,
    Lines,
    Reason,
    falls,
    grows,
    short,
    values,
)
from bench.value_change import THESIS_DIFF_RAD, THESIS_SAME_RAD

DIFFERENT = "radii N(25000, 50000) in [1, 200000], values AR1(400, 1, 1000), 100,000 events"
ONE = "one radius of 51000, values AR1(500, 1, 800), 100,000 events"
ALL = "a tenth of the radii uniform in cents up to $100, the others N($20, $20) in dollars; values AR1(500, 1, 800)"
MOVING = "CN(lr) and CN(c), which move what is notified, on the first 20,000 notifications in proportion to unicast on them"
BYTES = "bytes per operation"
LINES = ("unicast", "CN(lr)", "CN(c)", "CN(r)", "CN(lid)", "CN(r,lid)", "secondary servers")


def _messages(series: str, data: Data) -> Lines:
    return [
        {
            "subscriptions": row["subscriptions"],
            "reformulated": row["messages_reformulate"],
            "unicast": row["messages_enumerate"],
        }
        for row in data[series]
    ]


def _times(series: str, data: Data) -> Lines:
    return [
        {
            "subscriptions": row["subscriptions"],
            "tree, µs": row["us_tree"],
            "scan, µs": row["us_scan"],
            "tree on endpoints, µs": row["us_endpoints"],
        }
        for row in data[series]
    ]


def _beside(series: str, known: Mapping[int, tuple[float, int]], data: Data) -> list[Comparison]:
    found = []
    for line in _messages(series, data):
        count = line["subscriptions"]
        if count in known:
            for column, paper in zip(("reformulated", "unicast"), known[count], strict=True):
                found.append(Comparison(f"{column}, {count:,} subscriptions", paper, line[column]))
    return found


def _quicker(series: str, data: Data) -> list[Comparison]:
    last = _times(series, data)[-1]
    return [
        Comparison(f"{other} over tree, at {last['subscriptions']:,}", "more", round(ratio, 1), ratio > 1)
        for other in ("scan, µs", "tree on endpoints, µs")
        if last[other] is not None
        for ratio in [last[other] / last["tree, µs"]]
    ]


def _traffic(by: str, data: Data) -> Lines:
    """A line per size, a column per network."""
    lines: dict[float, Line] = {}
    for row in data["rows"]:
        aside = {name: row[name] for name in ("affected", "events", "fired", "hosts")}
        line = lines.setdefault(row[by], {by: row[by]} | aside)
        line[_named(row["network"])] = row["traffic_bytes"]
    return [*lines.values()]


def _named(network: str) -> str:
    return "unicast" if network == "one by one" else network


def _order(by: str, ours: str, factor: float, data: Data) -> list[Comparison]:
    """What is said of traffic: ours far below unicast, what moves above it; and the node stress where it is given."""
    found = []
    for line in _traffic(by, data):
        for name in (ours, "CN(lr)", "CN(c)"):
            for value in values([line], name):
                share = value / line["unicast"]
                said = f"about {factor:g} and less" if name == ours else "more than 1"
                holds = share <= 2 * factor if name == ours else share > 1
                what = f"{name} over unicast, {line[by]:,} {by}"
                found.append(Comparison(what, said, short(share), holds, line))
    for row in data["rows"]:
        known = THESIS_STRESS.get((row["figure"], row["subscriptions"]), {})
        if row["network"] in known:
            name = f"node stress of {_named(row['network'])}, {row['subscriptions']:,} subscriptions"
            line = {"subscriptions": row["subscriptions"]}
            found.append(Comparison(name, known[row["network"]], row["max_node_stress"], line=line))
    return found


def _few_bytes(data: Data) -> list[Comparison]:
    """Figure 4.9: ours takes less than 100 bytes per event."""
    return [
        *_order("subscriptions", "CN(lid)", 0.01, data),
        *(
            Comparison(
                f"CN(lid), {line['subscriptions']:,} subscriptions",
                "below 100 bytes",
                line["CN(lid)"],
                line["CN(lid)"] < 100,
                line,
            )
            for line in _traffic("subscriptions", data)
        ),
    ]


def _arrivals(data: Data) -> list[Comparison]:
    """Figure 4.10: with more arrivals per event ours grows, and an operation of the others takes slightly less."""
    lines = _traffic("arrivals", data)
    return [
        *_order("arrivals", "CN(lid)", 0.01, data),
        *grows(lines, "CN(lid)", at_least=1.05),
        *falls(lines, "unicast", "CN(lr)", "CN(c)"),
    ]


def _network(
    name: str,
    title: str,
    said: str,
    workload: str,
    ours: str,
    factor: float,
    by: str = "subscriptions",
    compare: Compare | None = None,
) -> Figure:
    reasons: dict[str, Reason] = {
        f"{ours} over unicast": partial(why.links, ours),
        f"node stress of {ours}": partial(why.passed_on, ours),
    }
    if name == "4.9":
        reasons["CN(lid), "] = why.few_links
    if name == "4.10":
        reasons |= {f"{one}, last": why.many_arrivals for one in ("unicast", "CN(lr)", "CN(c)", "CN(lid)")}
    return Figure(
        name, THESIS, title, said, f"{workload}; {OVER}; {MOVING}", f"networks-{name}",
        partial(_traffic, by), compare or partial(_order, by, ours, factor), Axes(by, BYTES, "y", LINES), reasons,
    )  # fmt: skip


FIGURES: Sequence[Figure] = (
    Figure(
        "4.6", THESIS, "server time per event, different radii",
        "the BA-tree is negligible, the tree on endpoints worst. Seconds for 100,000 events are only in the diagram.",
        DIFFERENT, "value-diff", partial(_times, "diff_rad"), partial(_quicker, "diff_rad"),
        Axes("subscriptions", "µs per event", "y"),
    ),
    Figure(
        "table 4.2", THESIS, "messages that leave the server per event, different radii",
        "CN(r) 30 to 36, unicast 499 to 2201.",
        DIFFERENT, "value-diff", partial(_messages, "diff_rad"), partial(_beside, "diff_rad", THESIS_DIFF_RAD),
        Axes("subscriptions", "messages per event", "y"),
    ),
    _network(
        "4.7", "bytes per operation, different radii",
        "CN(r) an order of magnitude below unicast, CN(lr) above it; node stress at 10,000: CN(lr) 3969, unicast 1984,"
        " CN(r) 282.",
        DIFFERENT, "CN(r)", 0.1,
    ),
    Figure(
        "4.8", THESIS, "server time per event, one radius",
        "the BW-tree is negligible whatever the subscriptions, trees on endpoints and centres much slower. No numbers.",
        ONE, "value-same", partial(_times, "same_rad"), partial(_quicker, "same_rad"),
        Axes("subscriptions", "µs per event", "y"),
    ),
    Figure(
        "table 4.3", THESIS, "messages that leave the server per event, one radius",
        "CN(lid) 0.04 throughout, unicast 97 to 483.",
        ONE, "value-same", partial(_messages, "same_rad"), partial(_beside, "same_rad", THESIS_SAME_RAD),
        Axes("subscriptions", "messages per event", "y"),
    ),
    _network(
        "4.9", "bytes per operation, one radius",
        "CN(lid) orders of magnitude below unicast, less than 100 bytes; CN(c) and CN(lr) above it; node stress at 10,000:"
        " CN(lr) 18,051, CN(c) 9026, unicast 9025, CN(lid) 2.",
        ONE, "CN(lid)", 0.01, compare=_few_bytes,
    ),
    _network(
        "4.10", "bytes per operation, one radius, by arrivals per event",
        "CN(lid) grows with them and stays orders of magnitude below the others, which fall slightly.",
        ONE, "CN(lid)", 0.01, "arrivals", _arrivals,
    ),
    _network(
        "4.11", "bytes per operation, all radii", "CN(r,lid) an order of magnitude below unicast, CN(lr) above it.",
        ALL, "CN(r,lid)", 0.1,
    ),
    _network(
        "4.12", "bytes per operation, all radii, stock prices",
        "CN(r,lid) an order of magnitude below unicast, CN(lr) above it.",
        "prices of a random walk, since the source's traces are not public", "CN(r,lid)", 0.1,
    ),
)  # fmt: skip
