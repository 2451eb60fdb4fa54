"""Range minima: chapter 3 of [ProSem thesis]."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.network_minima import STRESS
from bench.papers.model import Axes, Comparison, Data, Figure, Line, Lines, below, flat, grows, values
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
    most = [
        Comparison(f"{name}, at most", "below 1 kB", max(some), max(some) < 1_000)
        for name in ROUTED
        if (some := values(lines, name))
    ]
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
        most = max(values(lines, name))
        found.append(Comparison(f"{name}, bytes at most", "below 100 (S-CN, DS-CN)", most, most < 100))
    return found + flat(lines, "S-CN", "DS-CN", "CN", limit=1.5) + grows(lines, *LISTED)


def _cut_off(data: Data) -> list[Comparison]:
    share = {row["network"]: row["of_cn"] for row in data["serverless"]}
    return [
        Comparison("CN+ over CN", "0.02 and less", share["CN+"], share["CN+"] <= 0.02),
        Comparison("S-CN over CN+", "about 0.98", round(share["S-CN"] / share["CN+"], 2), share["S-CN"] < share["CN+"]),
    ]  # fmt: skip


# -- measured reasons --------------------------------------------------------------------------------------------
def _links(name: str, data: Data) -> str:
    """How many links the messages of a figure's last line pass, and how long they are."""
    traffic, hops = data[name][-1], data[f"{name} hops"][-1]
    each = {one: traffic[one] / max(1e-9, hops[one]) for one in ("S-CN", "CN")}
    return (
        f"S-CN passes {hops['S-CN']:,.0f} links per event with {each['S-CN']:.0f} bytes each, CN {hops['CN']:,.0f} with"
        f" {each['CN']:.0f}: 1,000 zones of as many subscriptions each form a band along the diagonal, and ways over"
        " neighbours are long. The source's CAN replicates zones with much traffic and so has fewer of them; figure 3.11 has"
        " such events with fewer zones. ProSem's own server knows the zones and sends to the first one of a region (can):"
        f" {hops['can']:,.0f} links, {traffic['can']:,.0f} bytes."
    )


def _hidden(name: str, data: Data) -> str:
    share = data[name][-1]["not affecting"]
    return (
        f"{_links(name, data)} {share:.0%} of the updates affect no subscription; S-CN and CN send them all the same,"
        " unicast, multicast and ProSem do not."
    )


def _busiest(data: Data) -> str:
    (seen,) = data["affected"]
    rows = {row["scheme"]: row for row in data["table 3.4"]}
    return (
        f"Of {seen['events']:,} events the largest affected {seen['most']:,} subscriptions, {seen['none']:,} none, and all"
        f" of them {seen['mean']:,.0f} on average. An update of the lowest row of all affects every range that holds it, and"
        f" {seen['holding']:.1%} of the ranges hold an event's row on average; the source's largest event affects 2 %. It"
        " gives neither its walk nor its mean without spikes. Multicast goes down a tree with a fan-out of 10, and the"
        f" largest event passes it in several messages ({rows['multicast']['max node stress']} at the busiest node); the"
        " source builds a tree for each group. DS-CN sends a message for each region of an event."
    )


def _replicated(data: Data) -> str:
    """The routed schemes with fewer zones."""
    (seen,) = data["affected"]
    lines = "; ".join(
        f"{line['zones']:,}: S-CN {line['S-CN, links']:,.0f} links and {line['S-CN below 1 kB']:.0%} below 1 kB, CN"
        f" {line['CN, links']:,.0f} and {line['CN below 1 kB']:.0%}, DS-CN {line['DS-CN without a byte']:.0%} without a byte"
        for line in data["3.11 zones"]
    )
    return (
        f"CN goes to all ranges that hold the event, {seen['holding']:.1%} on average: with 1,000 zones of as many"
        " subscriptions each that is more than a hundred messages. The source's CAN also replicates zones with much traffic,"
        f" so that its 1,000 brokers keep fewer zones; it does not say how many. The same events by zones: {lines}."
        f" {_routed_bytes(data)}"
    )


def _routed_bytes(data: Data) -> str:
    rows = {row["scheme"]: row for row in data["3.11 hops"]}
    return "Links per event, with bytes: " + ", ".join(
        f"{name} {rows[name]['hops']:,.1f} with {rows[name]['bytes'] / max(1e-9, rows[name]['hops']):.0f}" for name in ROUTED
    ) + "."  # fmt: skip


def _rarely(data: Data) -> str:
    traffic = data["3.12"][-1]
    share = max(1e-9, _share_of(traffic))
    return (
        f"An update that is not ignorable costs S-CN {traffic['S-CN'] / share:,.0f} bytes, since ways over 1,000 zones are"
        f" long (figure 3.11 has S-CN with fewer zones), DS-CN {traffic['DS-CN'] / share:,.0f} and ProSem's own server,"
        f" which sends straight to the first zone, {traffic['can'] / share:,.0f} (can)."
    )


def _share_of(line: Line) -> float:
    return float(str(line["not ignorable"]).rstrip("%")) / 100


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
        partial(_lines, "3.6"), partial(_scale, "3.6"), Axes("tuples", BYTES, "y"), partial(_hidden, "3.6"),
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
        partial(_lines, "3.8"), _few_bytes, Axes("subscriptions", BYTES, "xy"), partial(_hidden, "3.8"),
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
        partial(_lines, "3.10"), _spikes, Axes("spikes_percent", BYTES, "y"), partial(_hidden, "3.10"),
    ),
    Figure(
        "table 3.4", THESIS, "most messages that one node sends for an event",
        "unicast 10,282, multicast 3, S-CN 23, DS-CN 25, CN 8.",
        f"500,000 subscriptions, 10,000 tuples, 21 % ignorable updates, no spikes; {OVER}", "networks-3.11",
        partial(_lines, "table 3.4"), _stress, None, _busiest,
    ),
    Figure(
        "3.11", THESIS, "share of events with fewer bytes",
        "DS-CN 87 % without a byte; below 1 kB: S-CN 97 %, CN 94 %; unicast and multicast 77 % below 100 bytes,"
        " up to 680 kB.",
        f"500,000 subscriptions, 10,000 tuples, 21 % ignorable updates, no spikes; {OVER}", "networks-3.11",
        partial(_lines, "3.11"), _shares, Axes("bytes below", "share of events", "x"), _replicated,
    ),
    Figure(
        "3.12", THESIS, "bytes per event, stocks",
        "S-CN and DS-CN below 100 bytes and flat, CN flat and bad; 11.7 % of the updates are not ignorable.",
        f"3,053 stocks drawn anew, since the source's trace is not public; {OVER}", "networks-3.12",
        partial(_lines, "3.12"), _stocks, Axes("subscriptions", BYTES, "y"), _rarely,
    ),
    Figure(
        "section 3.5.5", THESIS, "networks without a server, on updates that lower a value",
        "CN+ saves more than 98 % of CN's traffic, 2 % less than S-CN.",
        f"{OVER}", "networks-serverless",
        partial(_lines, "serverless"), _cut_off, None,
    ),
)  # fmt: skip
