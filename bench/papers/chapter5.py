"""Select-joins: chapter 5 of [ProSem thesis]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bench.join import STRATEGIES, THESIS_KB, THESIS_SIZE
from bench.network_joins import PLAN, SOME
from bench.network_repositories import STAR_PLANS
from bench.papers.chapter3 import BYTES, OVER, THESIS, Compare, _lines
from bench.papers.model import Axes, Comparison, Data, Figure, Line, Lines, below, grows, values

ROWS = "table 5.2: 16,000 rows of R, 5,100 of S, 100 join keys, payloads of 100 bytes"
Reason = Callable[[Data], str]
SEMIJOINS = ("ref-sj-sub", "ref-sj-tup", "ref-sj-clu", PLAN)
SIMPLE = ("enum-j", "ref-j", "ref-j+", "rel-sel")


def _across(series: str, by: str, what: str, data: Data) -> Lines:
    """A line per size, a column per strategy."""
    return [{by: row[by]} | dict(row[what]) for row in data[series]]


def _beside(what: str, known: dict[int, dict[str, float]], data: Data) -> list[Comparison]:
    return [
        Comparison(f"{plan}, {row['subscriptions']:,} subscriptions", paper, row[what][plan])
        for row in data["by_subscriptions"]
        for plan, paper in known.get(row["subscriptions"], {}).items()
    ]


def _server_times(data: Data) -> list[Comparison]:
    lines = _across("by_subscriptions", "subscriptions", "us", data)
    return [
        *below(lines, "enum-sj", ("enum-j",)),
        *below(lines, "ref-j+", ("enum-sj",)),
        *below(lines, PLAN, ("ref-j+", "ref-sj-sub")),
    ]


def _rate_times(data: Data) -> list[Comparison]:
    lines = _across("by_rate", "join_output_rate", "us", data)
    return [*grows(lines, "ref-j", at_least=3), *below([lines[-1]], PLAN, ("ref-j", "ref-j+"))]


def _hops(data: Data) -> list[Comparison]:
    lines = _lines("5.7", data)
    found = below(lines, PLAN, ("ref-j", "ref-j+", "rel-sel"), 0.1)
    spread = max(values([lines[0]], one)[0] for one in SEMIJOINS) / min(
        values([lines[0]], one)[0] for one in SEMIJOINS
    )
    return [*found, Comparison("semijoins, most over fewest hops", "the same", round(spread, 1), spread < 1.5)]  # fmt: skip


def _least(name: str, others: Sequence[str], factor: float, data: Data) -> list[Comparison]:
    return below(_lines(name, data), PLAN, others, factor)


def _r_rows(data: Data) -> list[Comparison]:
    return [
        *_least("5.9", ("ref-j+", "rel-sel"), 0.5, data),
        *grows(_lines("5.9", data), "rel-sel", at_least=1.0),
    ]


def _s_rows(data: Data) -> list[Comparison]:
    lines = _lines("5.11", data)
    return [*grows(lines, "ref-j+", "ref-sj-tup", at_least=3), *below([lines[-1]], PLAN, ("ref-j+",), 0.1)]


def _payloads(data: Data) -> list[Comparison]:
    lines = _lines("5.12", data)
    spreads = [
        max(values([line], one)[0] for one in SEMIJOINS) / min(values([line], one)[0] for one in SEMIJOINS)
        for line in (lines[0], lines[-1])
    ]
    shrunk = spreads[1] / spreads[0]
    found = Comparison("semijoins, most over least: last over first", "falls", round(shrunk, 3), shrunk < 1)
    return [found, *grows(lines, *SEMIJOINS, "ref-j+", "rel-sel")]


def _overlap(data: Data) -> list[Comparison]:
    lines = _lines("5.13", data)
    falling = [
        Comparison(f"{plan}, last over first", "falls", round(factor, 3), factor < 1)
        for plan in ("enum-sj", "ref-j+", PLAN)
        if (some := values(lines, plan))
        for factor in [some[-1] / max(1e-9, some[0])]
    ]
    return [*falling, *grows(lines, "rel-sel", at_least=1.0)]


def _last_hop(data: Data) -> list[Comparison]:
    lines = _lines("5.14", data)
    return [*below(lines, "enum-sj", (PLAN,)), *below(lines, PLAN, ("ref-j+", "rel-sel"), 0.5)]


def _star(data: Data) -> list[Comparison]:
    found = []
    for plan, times in STAR_PLANS.items():
        for row in data["cn_star"]:
            if times and row["plan"] == plan and row["entries"] == 400:
                what = f"server bytes of {plan} over {row['network']}, times fewer with 400 entries"
                found.append(Comparison(what, times, row["times_less"]))
    first, last = _lines("5.16", data)[0], _lines("5.16", data)[-1]
    for plan in ("ref-j+", PLAN):
        share = last[plan] / max(1e-9, first[plan])
        found.append(Comparison(f"traffic of {plan}, last over without", "falls", round(share, 3), share < 1))
    return found


def _latency(data: Data) -> list[Comparison]:
    lines = _lines("5.17", data)
    without = lines[0]
    found = [
        Comparison(f"{plan}, with the fewest entries over without", "little more", round(more, 2), more < 1.5)
        for plan in ("ref-j+", PLAN)
        for more in [values([lines[1]], plan)[0] / max(1e-9, without[plan])]
    ]
    return [*found, *below([without], PLAN, ("rel-sel",))]


def _schemas(names: Sequence[str], data: Data) -> Lines:
    lines: dict[str, Line] = {}
    for schema in names:
        for strategy, (sent, delivered) in data["schemas"].get(schema, {}).items():
            line = lines.setdefault(strategy, {"strategy": strategy})
            line |= {f"{schema}: kB sent": sent, f"{schema}: kB delivered": delivered}
    return [*lines.values()]


def _decompositions(data: Data) -> list[Comparison]:
    kb = {name: sent for name, (sent, _) in data["schemas"]["general"].items()}
    partners = [sent for name, sent in kb.items() if name.startswith("s⋉")]
    best = min(partners)
    return [
        Comparison("worst over best partner of S", 1.2, round(max(partners) / best, 2)),
        Comparison(f"{PLAN}, chosen by cost, over the best", 1.0, round(kb[PLAN] / best, 2)),
        Comparison("rel-sel over the best", 9.0, round(kb["rel-sel"] / best, 2)),
    ]


def _facts(data: Data) -> list[Comparison]:
    kb = {name: sent for name, (sent, _) in data["schemas"]["star, S with 0 bytes"].items()}
    times = {"rel-sel": 5.0, "ref-j": 9.0, "enum-j": 127.0}
    return [
        Comparison(f"{plan} over {PLAN}, no payload in S", paper, round(kb[plan] / kb[PLAN], 2))
        for plan, paper in times.items()
    ]


# -- measured reasons --------------------------------------------------------------------------------------------
def _boxes(data: Data) -> str:
    boxes, hops, tree, once, bytes_once = (
        data[name][0] for name in ("5.8 boxes", "5.7", "5.8 tree", "5.7 once", "5.8 once")
    )
    plans = ("ref-j+", "rel-sel", *SEMIJOINS)
    each = ", ".join(f"{plan} {boxes[plan]:,.1f} boxes and {hops[plan]:,.0f} links" for plan in plans)
    alike = ", ".join(f"{plan} {once[plan]:,.0f} links and {bytes_once[plan]:,.0f} bytes" for plan in plans)
    return (
        f"Each box of a region is a message of its own over zones, from the zone where it begins: per event {each}. In the"
        f" source a region is one message. If a zone got it once, however many of its boxes it meets: {alike}. Down the tree"
        f" of cbn, where a region is one message too, {PLAN} takes {tree[PLAN]:,.0f} bytes, ref-j+ {tree['ref-j+']:,.0f} and"
        f" rel-sel {tree['rel-sel']:,.0f}."
    )


def _once(name: str, data: Data) -> str:
    """What the last line would take if a region were one message, as in the source."""
    if f"{name} once" not in data:
        return ""
    sent, once, boxes = (data[one][-1] for one in (name, f"{name} once", f"{name} boxes"))
    zones = data[f"{name} zones"][-1] if f"{name} zones" in data else {}

    def shown(plan: str) -> str:
        each = f" ({once[plan] / max(1, zones[plan]):,.0f} for each of {zones[plan]:,.0f})" if zones else ""
        beside = f"{once[plan]:,.0f} if a zone got a message once{each}"
        return f"{plan} {boxes[plan]:,.1f} boxes and {sent[plan]:,.0f} bytes, {beside}"

    plans = ", ".join(map(shown, ("ref-j+", "rel-sel", PLAN)))
    return f"Each box of a region is a message of its own over zones, in the source a region is one: per event {plans}."


def _slopes(data: Data) -> str:
    """What a message takes, and from how many subscriptions on enumeration would take longer."""
    first, last = data["by_subscriptions"][0], data["by_subscriptions"][-1]
    joined, named = ((first["us"][plan], first["messages"][plan]) for plan in ("ref-j+", "enum-sj"))
    more = last["us"]["enum-sj"] - first["us"]["enum-sj"]
    per_subscription = more / (last["subscriptions"] - first["subscriptions"])
    reached = last["subscriptions"] + (last["us"]["ref-j+"] - last["us"]["enum-sj"]) / per_subscription
    return (
        f"ref-j+ makes a message with a region for each of {joined[1]:,.1f} joined rows, in {joined[0] / joined[1]:,.0f} µs"
        f" each, in Python. enum-sj makes {named[1]:,.1f}, where the source sends one to each affected subscription: a"
        f" message names all of them, and compiled code finds them, in {1_000 * per_subscription:,.1f} µs per 1,000"
        f" subscriptions more. So it takes longer than ref-j+ from about {reached:,.0f} subscriptions on."
    )


def _outgoing(data: Data) -> str:
    row = data["by_subscriptions"][0]
    return (
        f"At {row['subscriptions']:,} subscriptions an event affects {row['affected']:,.1f} of them, and makes"
        f" {row['messages']['enum-j']:,.1f} messages by enum-j, {row['messages']['ref-j+']:,.1f} by ref-j+,"
        f" {row['messages']['rel-sel']:,.2f} by rel-sel and {row['messages'][PLAN]:,.2f} by {PLAN}; joined rows per"
        f" insert: {row['join_output_rate']:,.1f}. The source gives none of these numbers. A relaxed message is the row"
        f" and its region once: {1_000 * row['kb']['rel-sel']:,.0f} bytes."
    )


def _reached(schema: str, data: Data) -> str:
    """What leaves the server, and what arrives at subscriptions."""
    kb = data["schemas"].get(schema, {})
    if PLAN not in kb:
        return ""
    sent, delivered = kb[PLAN]
    others = [plan for plan in ("rel-sel", "ref-j", "enum-j") if plan in kb]
    each = ", ".join(f"{plan} {kb[plan][0]:,.2f} and {kb[plan][1]:,.0f} kB" for plan in others)
    times = ", ".join(f"{plan} {kb[plan][1] / delivered:,.1f}" for plan in others)
    return (
        f"A message with a region leaves the server once here, however many subscriptions it reaches. What leaves it, and"
        f" what arrives at subscriptions, per event: {PLAN} {sent:,.2f} and {delivered:,.0f} kB, {each}. By what arrives,"
        f" times as much as {PLAN}: {times}."
    )


def _fetched(data: Data) -> str:
    rows = [row for row in data["cn_star"] if row["entries"] in ("-", 400)]
    each = "; ".join(
        f"{row['plan']} over {row['network']} {'without' if row['entries'] == '-' else 'with 400 entries'}"
        f" {row['server_bytes']:,.0f}"
        for row in rows
    )
    return f"Bytes that leave the server per event: {each}. A relaxed row is sent once in any case."


def _network(
    name: str,
    title: str,
    said: str,
    part: str,
    compare: Compare,
    axes: Axes,
    workload: str = ROWS,
    reason: Reason = lambda data: "",
) -> Figure:
    return Figure(
        name, THESIS, title, said, f"{workload}; {OVER}", part, partial(_lines, name), compare, axes, reason
    )


FIGURES: Sequence[Figure] = (
    Figure(
        "5.6", THESIS, "server time per event, by subscriptions",
        "Enum-J worst, then Enum-SJ, Ref-J+, Ref-J; semijoins are least, of them -Sub slower. No numbers.",
        ROWS, "join", partial(_across, "by_subscriptions", "subscriptions", "us"), _server_times,
        Axes("subscriptions", "µs per event", "y", STRATEGIES), _slopes,
    ),
    _network(
        "5.7", "overlay hops per event, by subscriptions",
        "semijoins at least an order of magnitude fewer than the others, and all of them the same.",
        "networks-5.8", _hops, Axes("subscriptions", "hops per event", "y"), reason=_boxes,
    ),
    _network(
        "5.8", "bytes per event over the network, by subscriptions",
        "Clu+ least, at least an order of magnitude below simpler schemes; Enum-J worst.",
        "networks-5.8", partial(_least, "5.8", SIMPLE, 0.1), Axes("subscriptions", BYTES, "y"), reason=_boxes,
    ),
    Figure(
        "table 5.3", THESIS, "kB that leave the server per event, by subscriptions",
        "Enum-J 485 to 2462, Enum-SJ 27 to 138, Ref-J+ 13 to 15, Rel-Sel 0.9, Clu+ 0.4.",
        ROWS, "join", partial(_across, "by_subscriptions", "subscriptions", "kb"), partial(_beside, "kb", THESIS_KB),
        Axes("subscriptions", "kB per event", "y", STRATEGIES), _outgoing,
    ),
    Figure(
        "table 5.4", THESIS, "bytes of a description, by subscriptions",
        "-Sub 73 to 112, -Tup 313 to 303, -Clu 30 to 43, -Clu+ 17 to 25.",
        ROWS, "join", partial(_across, "by_subscriptions", "subscriptions", "description_bytes"),
        partial(_beside, "description_bytes", THESIS_SIZE), Axes("subscriptions", "bytes", ""),
    ),
    _network(
        "5.9", "bytes per event, by rows of R", "all grow slightly; Clu+ far below the others.",
        "networks-5.9", _r_rows, Axes("r_rows", BYTES, "y", SOME), reason=partial(_once, "5.9"),
    ),
    Figure(
        "5.10", THESIS, "server time per event, by joined rows per event",
        "Ref-J is quick at few joined rows and degrades; Clu+ scales well. No numbers.",
        "100,000 subscriptions; rows of S from 100 to 10,100", "join-rate",
        partial(_across, "by_rate", "join_output_rate", "us"), _rate_times,
        Axes("join_output_rate", "µs per event", "y"),
    ),
    _network(
        "5.11", "bytes per event, by rows of S",
        "Ref-J+ and Tup grow with S; Clu+ is more than an order of magnitude below the simple ones at high rates.",
        "networks-5.11", _s_rows, Axes("s_rows", BYTES, "y", SOME), reason=partial(_once, "5.11"),
    ),
    _network(
        "5.12", "bytes per event, by payload", "all grow; the semijoins converge, since the payload dominates.",
        "networks-5.8", _payloads, Axes("payload_bytes", BYTES, "xy"),
        f"{ROWS}; the traffic at 100 bytes, with other payloads",
    ),
    _network(
        "5.13", "bytes per event, by overlap of interests",
        "Enum-SJ, Ref-J+ and semijoins fall, Tup least; Rel-Sel grows.",
        "networks-5.13", _overlap, Axes("overlap", BYTES, "y", SOME),
    ),
    _network(
        "5.14", "bytes per event with the last hop to subscribers",
        "Enum-SJ least, Clu+ slightly more, both far below the others.",
        "networks-5.8", _last_hop, Axes("subscriptions", BYTES, "y"), reason=_boxes,
    ),
    _network(
        "5.15", "bytes per event, stocks and ratings",
        "Ref-J+ better than before; Clu+ at least an order of magnitude below the others.",
        "networks-5.15", partial(_least, "5.15", ("ref-j+", "rel-sel"), 0.1), Axes("subscriptions", BYTES, "y", SOME),
        "100 stocks with 23 ratings each, drawn anew, since the source's data are not public", partial(_once, "5.15"),
    ),
    _network(
        "5.16", "bytes per event with CN*, by entries of a repository",
        "Ref-J+ gains most, already with few entries; with 400 the server sends 7 times less for Ref-J+, 3 times for Clu+.",
        "networks-5.16", _star, Axes("entries", BYTES, "y", tuple(STAR_PLANS)),
        "500 rows of R, 5,100 of S, payloads of 1,000 bytes", _fetched,
    ),
    _network(
        "5.17", "overlay hops to the last broker with CN*, by entries",
        "a fetch costs little; Rel-Sel has most.",
        "networks-5.16", _latency, Axes("entries", "hops", "", tuple(STAR_PLANS)), "500 rows of R (source: 200), 5,100 of S",
    ),
    Figure(
        "5.18", THESIS, "the join graph of the next two figures",
        "a drawing: S in the middle of R, T and U; nothing to measure.", "", "",
    ),
    Figure(
        "5.19", THESIS, "kB per event of joins of several tables, by the partner of S",
        "the best decomposition is 20 % better than the worst, the greedy one is best, Rel-Sel is 9 times worse.",
        "a mix of R⋈S, R⋈S⋈T, R⋈S⋈T⋈U and S⋈T⋈U, 50 : 50 : 50 : 20; 10, 70, 70 and 30 rows per key", "join-many",
        partial(_schemas, ("general",)), _decompositions, None, partial(_reached, "general"),
    ),
    Figure(
        "5.20", THESIS, "kB per event of joins of several tables, star schema",
        "without a payload in S, Clu+ is 5, 9 and 127 times better than Rel-Sel, Ref-J and Enum-J.",
        "1,000 rows in each of three dimensions, 25,000 facts", "join-many",
        partial(_schemas, ("star, S with 0 bytes", "star, S with 100 bytes")), _facts, None,
        partial(_reached, "star, S with 0 bytes"),
    ),
)  # fmt: skip
