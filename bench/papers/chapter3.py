"""Range minima: chapter 3 of [ProSem thesis]."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.network_minima import STRESS
from bench.papers import chapter3_reasons as why
from bench.papers.model import Axes, Comparison, Data, Figure, Lines, below, flat, grows, short, values
from bench.range_min import THESIS_BY_SUBSCRIPTIONS, THESIS_BY_TUPLES

THESIS = "ProSem thesis"
ROWS = (
    "x uniform and y a random walk in [0, 10000], 0.5 % spikes, no update ignorable; ranges with midpoint N(5000, 1500)"
    " and length N(1000, 1000)"
)
OVER = "1000 brokers in an Internet-like topology of 20,000 nodes"
ROUTED = ("S-CN", "DS-CN", "CN")
LISTED = ("unicast", "multicast")
BYTES = "bytes per event"
TIMES = ("reformulated, µs", "enumerated, µs", "scan, µs")
Compare = Callable[[Data], list[Comparison]]


# -- the server --------------------------------------------------------------------------------------------------
def _messages(series: str, by: str, data: Data) -> Lines:
    return [
        {
            by: row[by],
            "S-CN": row["messages_regions"],
            "ours": row["messages_reformulate"],
            "unicast": row["messages_enumerate"],
            "affecting none, %": row["unaffecting_percent"],
            "most affected": row["most_affected"],
        }
        for row in data[series]
    ]


def _times(series: str, by: str, data: Data) -> Lines:
    names = ("us_reformulate", "us_enumerate", "us_scan")
    return [
        {by: row[by]} | {name: row[key] for name, key in zip(TIMES, names, strict=True)}
        for row in data[series]
    ]


def _beside(lines: Callable[[Data], Lines], by: str, known: dict[int, tuple[float, int]]) -> Compare:
    """S-CN and unicast of a table, line by line."""

    def compare(data: Data) -> list[Comparison]:
        found = []
        for line in lines(data):
            if line[by] in known:
                for column, paper in zip(("S-CN", "unicast"), known[line[by]], strict=True):
                    found.append(Comparison(f"{column}, {line[by]:,} {by}", paper, line[column]))
        return found

    return compare


def _growth(lines: Callable[[Data], Lines], data: Data) -> list[Comparison]:
    """What is said of S-CN's time: 20 % more for ten times the tuples, and none for more subscriptions."""
    some = values(lines(data), TIMES[0])
    return [Comparison("reformulated, last over first", 1.2, round(some[-1] / some[0], 2))]


# -- the network -------------------------------------------------------------------------------------------------
def _lines(name: str, data: Data) -> Lines:
    return list(data[name])


def _scale(name: str, data: Data) -> list[Comparison]:
    """Figures 3.6 and 3.8: flat, and far below what lists the subscriptions."""
    lines = _lines(name, data)
    found = flat(lines, *ROUTED)
    for column in ROUTED:
        found += below(lines, column, LISTED)
    found += below(lines, "DS-CN", ("S-CN",)) + below(lines, "S-CN", ("CN",))
    return found


def _few_bytes(data: Data) -> list[Comparison]:
    lines = _lines("3.8", data)
    most = []
    for name in ROUTED:
        line = max(lines, key=lambda line: float(line[name]))
        most.append(Comparison(f"{name}, at most", "below 1 kB", line[name], line[name] < 1_000, line))
    return [*_scale("3.8", data), *grows(lines, *LISTED), *most]


def _ignorable(data: Data) -> list[Comparison]:
    hops, traffic = data["3.9 hops"], data["3.9 bytes"]
    return [
        *flat(traffic, "CN", limit=1.3),
        *below([traffic[-1]], "DS-CN", ("unicast", "multicast", "S-CN", "CN")),
        *below([hops[-1]], "multicast", ("S-CN",)),
        *below([traffic[-1]], "S-CN", ("CN",)),
    ]


def _ignored(data: Data) -> Lines:
    """Bytes and overlay hops side by side."""
    return [
        {"ignorable, %": traffic["ignorable_percent"]}
        | {name: traffic[name] for name in traffic if name != "ignorable_percent"}
        | {f"{name}, hops": hops[name] for name in ("unicast", "multicast", *ROUTED)}
        for traffic, hops in zip(data["3.9 bytes"], data["3.9 hops"], strict=True)
    ]


def _spikes(data: Data) -> list[Comparison]:
    lines = _lines("3.10", data)
    return [
        *grows(lines, *LISTED, at_least=2),
        *flat(lines, "CN", limit=1.2),
        *flat(lines, "S-CN", limit=2),
        *grows(lines, "DS-CN"),
    ]


def _stress(data: Data) -> list[Comparison]:
    known = {row["scheme"]: row["max node stress"] for row in data["table 3.4"]}
    return [Comparison(name, paper, known[name]) for name, paper in STRESS.items()]


def _shares(data: Data) -> list[Comparison]:
    lines = {line["bytes below"]: line for line in data["3.11"]}
    said = [
        ("DS-CN without a byte", 0.87, lines[1]["DS-CN"]),
        ("S-CN below 1 kB", 0.97, lines[1_000]["S-CN"]),
        ("CN below 1 kB", 0.94, lines[1_000]["CN"]),
        ("unicast below 100 bytes", 0.77, lines[100]["unicast"]),
        ("multicast below 100 bytes", 0.77, lines[100]["multicast"]),
    ]
    return [Comparison(*one) for one in said]


def _stocks(data: Data) -> list[Comparison]:
    lines = _lines("3.12", data)
    share = float(str(lines[-1]["not ignorable"]).rstrip("%"))
    found = [Comparison("updates that are not ignorable, %", 11.7, share)]
    for name in ("S-CN", "DS-CN", "can"):
        line = max(lines, key=lambda line: float(line[name]))
        found.append(
            Comparison(
                f"{name}, bytes at most", "below 100 (S-CN, DS-CN)", line[name], line[name] < 100, line
            )
        )
    return found + flat(lines, "S-CN", "DS-CN", "CN", limit=1.5) + grows(lines, *LISTED)


def _cut_off(data: Data) -> list[Comparison]:
    rows = {row["network"]: row for row in data["serverless"]}
    sent = {name: row["traffic_bytes"] for name, row in rows.items()}
    first = sent["CN+"] / sent["CN"]
    return [
        Comparison("CN+ over CN", "0.02 and less", short(first), first <= 0.02),
        Comparison("S-CN over CN+", 0.98, short(sent["S-CN"] / sent["CN+"])),
    ]


_by_tuples = partial(_messages, "by_tuples", "tuples")
_by_subscriptions = partial(_messages, "by_subscriptions", "subscriptions")
FIGURES = (
    Figure(
        "3.5", THESIS, "server time per event, by tuples",
        "S-CN takes 20 % longer for ten times the tuples; multicast 50 to 70 % longer than S-CN; unicast worst. No numbers.",
        f"500,000 subscriptions; {ROWS}", "range-min-tuples",
        partial(_times, "by_tuples", "tuples"), partial(_growth, partial(_times, "by_tuples", "tuples")),
        Axes("tuples", "µs per event", "xy"),
    ),
    Figure(
        "table 3.2", THESIS, "messages that leave the server per event, by tuples",
        "S-CN 2.10 to 2.22, unicast 726 to 654.",
        f"500,000 subscriptions; {ROWS}", "range-min-tuples",
        _by_tuples, _beside(_by_tuples, "tuples", THESIS_BY_TUPLES),
        Axes("tuples", "messages per event", "y", ("S-CN", "ours", "unicast")),
    ),
    Figure(
        "3.6", THESIS, "bytes per event over the network, by tuples",
        "CN, S-CN and DS-CN flat and far below unicast and multicast; DS-CN least, then S-CN, then CN.",
        f"500,000 subscriptions; {ROWS}; {OVER}", "networks-3.6",
        partial(_lines, "3.6"), partial(_scale, "3.6"), Axes("tuples", BYTES, "y"),
        {"S-CN over": partial(why.sent_anyway, "3.6"), "S-CN over CN": partial(why.larger, "3.6")},
    ),
    Figure(
        "3.7", THESIS, "server time per event, by subscriptions",
        "S-CN constant; multicast and unicast grow. No numbers.",
        f"10,000 tuples; {ROWS}", "range-min-subscriptions",
        partial(_times, "by_subscriptions", "subscriptions"),
        lambda data: [
            *flat(_times("by_subscriptions", "subscriptions", data), TIMES[0]),
            *grows(_times("by_subscriptions", "subscriptions", data), TIMES[1]),
        ],
        Axes("subscriptions", "µs per event", "xy"),
    ),
    Figure(
        "table 3.3", THESIS, "messages that leave the server per event, by subscriptions",
        "S-CN 2.08 throughout, unicast 303 to 1441.",
        f"10,000 tuples; {ROWS}", "range-min-subscriptions",
        _by_subscriptions, _beside(_by_subscriptions, "subscriptions", THESIS_BY_SUBSCRIPTIONS),
        Axes("subscriptions", "messages per event", "y", ("S-CN", "ours", "unicast")),
    ),
    Figure(
        "3.8", THESIS, "bytes per event over the network, by subscriptions",
        "CN, S-CN and DS-CN flat and never above 1 kB; unicast and multicast grow.",
        f"10,000 tuples; {ROWS}; {OVER}", "networks-3.8",
        partial(_lines, "3.8"), _few_bytes, Axes("subscriptions", BYTES, "xy"),
        {
            "S-CN over": partial(why.sent_anyway, "3.8"),
            "S-CN over CN": partial(why.larger, "3.8"),
            "S-CN, at most": partial(why.way, "3.8"),
            "CN over multicast": partial(why.holders_listed, "3.8"),
            "CN, at most": partial(why.holders, "3.8"),
        },
    ),
    Figure(
        "3.9", THESIS, "bytes and overlay hops per event, by ignorable updates",
        "CN does not depend on them and is worst in the end; DS-CN best; multicast has few hops and most bytes.",
        f"midpoints N(5000, 10000), lengths N(50, 10), no spikes; {OVER}", "networks-3.9",
        _ignored, _ignorable, Axes("ignorable, %", BYTES, "y", ("unicast", "multicast", *ROUTED, "can", "brokers", "cbn")),
    ),
    Figure(
        "3.10", THESIS, "bytes per event, by spikes",
        "unicast and multicast grow linearly, S-CN very slightly, DS-CN more; CN flat.",
        f"500,000 subscriptions, 50,000 tuples; {OVER}", "networks-3.10",
        partial(_lines, "3.10"), _spikes, Axes("spikes_percent", BYTES, "y"),
    ),
    Figure(
        "table 3.4", THESIS, "most messages that one node sends for an event",
        "unicast 10,282, multicast 3, S-CN 23, DS-CN 25, CN 8.",
        f"500,000 subscriptions, 10,000 tuples, 21 % ignorable updates, no spikes; {OVER}", "networks-3.11",
        partial(_lines, "table 3.4"), _stress, None,
        {"unicast": why.lowest, "multicast": why.one_tree, "DS-CN": why.regions},
    ),
    Figure(
        "3.11", THESIS, "share of events with fewer bytes",
        "DS-CN 87 % without a byte; below 1 kB: S-CN 97 %, CN 94 %; unicast and multicast 77 % below 100 bytes,"
        " up to 680 kB.",
        f"500,000 subscriptions, 10,000 tuples, 21 % ignorable updates, no spikes; {OVER}", "networks-3.11",
        partial(_lines, "3.11"), _shares, Axes("bytes below", "share of events", "x"),
        {"S-CN below": why.far, "CN below": why.fewer},
    ),
    Figure(
        "3.12", THESIS, "bytes per event, stocks",
        "S-CN and DS-CN below 100 bytes and flat, CN flat and bad; 11.7 % of the updates are not ignorable.",
        f"3,053 stocks drawn anew, since the source's trace is not public; {OVER}", "networks-3.12",
        partial(_lines, "3.12"), _stocks, Axes("subscriptions", BYTES, "y"),
        dict.fromkeys(("S-CN, bytes", "DS-CN, bytes", "can, bytes"), why.rarely),
    ),
    Figure(
        "section 3.5.5", THESIS, "networks without a server, on updates that lower a value",
        "CN+ saves more than 98 % of CN's traffic, 2 % less than S-CN.",
        f"{OVER}", "networks-serverless",
        partial(_lines, "serverless"), _cut_off, None, {"S-CN over CN+": why.nothing_to_send},
    ),
)  # fmt: skip
