"""Select-joins: chapter 5 of [ProSem thesis]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from bench.join import STRATEGIES, THESIS_KB, THESIS_SIZE
from bench.join_walk import FLAVOURS
from bench.network_joins import PLAN, SOME
from bench.network_repositories import STAR_PLANS
from bench.papers import chapter5_reasons as why
from bench.papers.chapter3 import BYTES, OVER, THESIS, Compare, _lines
from bench.papers.model import (
    Axes,
    Comparison,
    Data,
    Figure,
    Line,
    Lines,
    Reason,
    below,
    falls,
    grows,
    short,
    values,
)

ROWS = "table 5.2: 16,000 rows of R, 5,100 of S, 100 join keys, payloads of 100 bytes"
KB = ("sent", "delivered", "over the network")
SIMPLE = ("enum-j", "ref-j", "ref-j+", "rel-sel")


def _across(series: str, by: str, what: str, data: Data) -> Lines:
    """A line per size, a column per strategy."""
    return [{by: row[by]} | dict(row[what]) for row in data[series]]


def _beside(what: str, known: dict[int, dict[str, float]], data: Data) -> list[Comparison]:
    return [
        Comparison(
            f"{plan}, {row['subscriptions']:,} subscriptions",
            paper,
            row[what][plan],
            line={"subscriptions": row["subscriptions"]},
        )
        for row in data["by_subscriptions"]
        for plan, paper in known.get(row["subscriptions"], {}).items()
    ]


def _server_times(data: Data) -> list[Comparison]:
    lines = _across("by_subscriptions", "subscriptions", "us", data)
    return [
        *below(lines, "enum-sj", ("enum-j",)),
        *below(lines, "ref-j+", ("enum-sj",)),
        *below(lines, "ref-j", ("ref-j+",)),
        *(one for plan in FLAVOURS for one in below(lines, plan, ("ref-j+", "enum-sj"))),
        *(one for plan in FLAVOURS[1:] for one in below(lines, plan, ("ref-sj-sub",))),
    ]


def _rate_times(data: Data) -> list[Comparison]:
    lines = _across("by_rate", "join_output_rate", "us", data)
    return [*grows(lines, "ref-j", at_least=3), *below([lines[-1]], PLAN, ("ref-j", "ref-j+"))]


def _hops(data: Data) -> list[Comparison]:
    lines = _lines("5.7", data)
    found = below(lines, PLAN, ("ref-j", "ref-j+", "rel-sel"), 0.1)
    spread = max(values([lines[0]], one)[0] for one in FLAVOURS) / min(
        values([lines[0]], one)[0] for one in FLAVOURS
    )
    return [*found, Comparison("semijoins, most over fewest hops", "the same", round(spread, 1), spread < 1.5)]  # fmt: skip


def _bytes(data: Data) -> list[Comparison]:
    lines = _lines("5.8", data)
    found = _least("5.8", SIMPLE, 0.1, data)
    for plan in ("enum-sj", "ref-j", "ref-j+", "rel-sel", *FLAVOURS):
        found += below(lines, plan, ("enum-j",))
    return found


def _least(name: str, others: Sequence[str], factor: float, data: Data) -> list[Comparison]:
    return below(_lines(name, data), PLAN, others, factor)


def _r_rows(data: Data) -> list[Comparison]:
    return [
        *_least("5.9", ("ref-j+", "rel-sel"), 0.5, data),
        *grows(_lines("5.9", data), "rel-sel", at_least=1.0),
    ]


def _s_rows(data: Data) -> list[Comparison]:
    lines = _lines("5.11", data)
    return [
        *grows(lines, "ref-j+", "ref-sj-tup", at_least=3),
        *below([lines[-1]], PLAN, ("ref-j+", "rel-sel"), 0.1),
    ]


def _payloads(data: Data) -> list[Comparison]:
    lines = _lines("5.12", data)
    spreads = [
        max(values([line], one)[0] for one in FLAVOURS) / min(values([line], one)[0] for one in FLAVOURS)
        for line in (lines[0], lines[-1])
    ]
    shrunk = spreads[1] / spreads[0]
    found = Comparison("semijoins, most over least: last over first", "falls", round(shrunk, 3), shrunk < 1)
    return [found, *grows(lines, *FLAVOURS, "ref-j+", "rel-sel")]


def _overlap(data: Data) -> list[Comparison]:
    lines = _lines("5.13", data)
    found = falls(lines, "enum-sj", "ref-j+", "ref-sj-tup", PLAN)
    left = {plan: values(lines, plan)[-1] / values(lines, plan)[0] for plan in ("ref-sj-tup", PLAN)}
    less = left["ref-sj-tup"] / left[PLAN]
    found.append(
        Comparison(
            f"what is left of ref-sj-tup, over that of {PLAN}", "more", short(less), less > 1, lines[-1]
        )
    )
    return [*found, *grows(lines, "rel-sel", at_least=1.0)]


def _last_hop(data: Data) -> list[Comparison]:
    lines = _lines("5.14", data)
    return [*below(lines, "enum-sj", (PLAN,)), *below(lines, PLAN, ("ref-j+", "rel-sel"), 0.5)]


def _star(data: Data) -> list[Comparison]:
    found = []
    for plan, times in STAR_PLANS.items():
        for row in data["cn_star"]:
            if times and row["plan"] == plan and row["entries"] == 400:
                what = f"server bytes of {plan} over {row['network']}, times fewer with 400 entries"
                found.append(Comparison(what, times, row["times_less"], line=row))
    first, last = _lines("5.16", data)[0], _lines("5.16", data)[-1]
    for plan in ("ref-j+", PLAN):
        share = last[plan] / max(1e-9, first[plan])
        found.append(Comparison(f"traffic of {plan}, last over without", "falls", round(share, 3), share < 1))
    return found


def _latency(data: Data) -> list[Comparison]:
    lines = _lines("5.17", data)
    without, fewest = lines[0], lines[1]
    found = []
    for plan in ("ref-j+", PLAN):
        more = values([fewest], plan)[0] / max(1e-9, without[plan])
        what = f"{plan}, with the fewest entries over without"
        found.append(Comparison(what, "little more", short(more), more < 1.5, {"plan": plan} | fewest))
    return [*found, *below([without], PLAN, ("rel-sel",))]


def _schemas(names: Sequence[str], data: Data) -> Lines:
    lines: dict[str, Line] = {}
    for schema in names:
        for strategy, kb in data["schemas"].get(schema, {}).items():
            line = lines.setdefault(strategy, {"strategy": strategy})
            line |= {f"{schema}: kB {what}": value for what, value in zip(KB, kb, strict=False)}
    return [*lines.values()]


def _over_network(schema: str, data: Data) -> dict[str, float]:
    """kB per event to the brokers concerned."""
    return {name: kb[2] for name, kb in data["schemas"][schema].items()}


def _decompositions(data: Data) -> list[Comparison]:
    kb = _over_network("general", data)
    partners = [carried for name, carried in kb.items() if name.startswith("s⋉")]
    best = min(partners)
    return [
        Comparison("worst over best partner of S", 1.2, short(max(partners) / best)),
        Comparison(f"{PLAN}, chosen by cost, over the best", 1.0, short(kb[PLAN] / best)),
        Comparison("rel-sel over the best", 9.0, short(kb["rel-sel"] / best)),
        Comparison("rel-sel, kB", 23.0, kb["rel-sel"]),
    ]


def _facts(data: Data) -> list[Comparison]:
    kb = _over_network("star, S with 0 bytes", data)
    times = {"rel-sel": 5.0, "ref-j": 9.0, "enum-j": 127.0}
    return [
        Comparison(f"{plan} over {PLAN}, no payload in S", paper, short(kb[plan] / kb[PLAN]))
        for plan, paper in times.items()
    ]


def _network(
    name: str,
    title: str,
    said: str,
    part: str,
    compare: Compare,
    axes: Axes,
    workload: str = ROWS,
    reasons: Mapping[str, Reason] | None = None,
) -> Figure:
    return Figure(
        name,
        THESIS,
        title,
        said,
        f"{workload}; {OVER}",
        part,
        partial(_lines, name),
        compare,
        axes,
        reasons or {},
    )


FIGURES: Sequence[Figure] = (
    Figure(
        "5.6", THESIS, "server time per event, by subscriptions",
        "Enum-J worst, then Enum-SJ, Ref-J+, Ref-J; semijoins are least, of them -Sub slower. No numbers.",
        ROWS, "join", partial(_across, "by_subscriptions", "subscriptions", "us"), _server_times,
        Axes("subscriptions", "µs per event", "y", STRATEGIES),
        {"ref-j+ over enum-sj": why.slopes, "ref-j over": why.skipped, "ref-sj-sub over": why.skyline},
    ),
    _network(
        "5.7", "overlay hops per event, by subscriptions",
        "semijoins at least an order of magnitude fewer than the others, and all of them the same.",
        "networks-5.8", _hops, Axes("subscriptions", "hops per event", "y"),
        reasons={"ref-sj-clu+ over": why.boxes, "semijoins": why.unlike},
    ),
    _network(
        "5.8", "bytes per event over the network, by subscriptions",
        "Clu+ least, at least an order of magnitude below simpler schemes; Enum-J worst.",
        "networks-5.8", _bytes, Axes("subscriptions", BYTES, "y"), reasons={"": why.boxes},
    ),
    Figure(
        "table 5.3", THESIS, "kB that leave the server per event, by subscriptions",
        "Enum-J 485 to 2462, Enum-SJ 27 to 138, Ref-J+ 13 to 15, Rel-Sel 0.9, Clu+ 0.4.",
        ROWS, "join", partial(_across, "by_subscriptions", "subscriptions", "kb"), partial(_beside, "kb", THESIS_KB),
        Axes("subscriptions", "kB per event", "y", STRATEGIES),
        {"enum-sj": why.named_once, "rel-sel": why.one_row, "ref-j+": why.joined_rows, PLAN: why.described},
    ),
    Figure(
        "table 5.4", THESIS, "bytes of a description, by subscriptions",
        "-Sub 73 to 112, -Tup 313 to 303, -Clu 30 to 43, -Clu+ 17 to 25.",
        ROWS, "join", partial(_across, "by_subscriptions", "subscriptions", "description_bytes"),
        partial(_beside, "description_bytes", THESIS_SIZE), Axes("subscriptions", "bytes", ""),
    ),
    _network(
        "5.9", "bytes per event, by rows of R", "all grow slightly; Clu+ far below the others.",
        "networks-5.9", _r_rows, Axes("r_rows", BYTES, "y", SOME), reasons={"": partial(why.once, "5.9")},
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
        "networks-5.11", _s_rows, Axes("s_rows", BYTES, "y", SOME), reasons={"": partial(why.once, "5.11")},
    ),
    _network(
        "5.12", "bytes per event, by payload", "all grow; the semijoins converge, since the payload dominates.",
        "networks-5.8", _payloads, Axes("payload_bytes", BYTES, "xy"),
        f"{ROWS}; the traffic at 100 bytes, with other payloads",
    ),
    _network(
        "5.13", "bytes per event, by overlap of interests",
        "Enum-SJ, Ref-J+ and semijoins fall, of the semijoins -Tup by the least; Rel-Sel grows.",
        "networks-5.13", _overlap, Axes("overlap", BYTES, "y", SOME),
    ),
    _network(
        "5.14", "bytes per event with the last hop to subscribers",
        "Enum-SJ least, Clu+ slightly more, both far below the others.",
        "networks-5.8", _last_hop, Axes("subscriptions", BYTES, "y"), reasons={"": why.boxes},
    ),
    _network(
        "5.15", "bytes per event, stocks and ratings",
        "Ref-J+ better than before; Clu+ at least an order of magnitude below the others.",
        "networks-5.15", partial(_least, "5.15", ("ref-j+", "rel-sel"), 0.1), Axes("subscriptions", BYTES, "y", SOME),
        "100 stocks and 460 ratings, each perturbed five times, drawn anew, since the source's data are not public",
        {"": why.perturbed},
    ),
    _network(
        "5.16", "bytes per event with CN*, by entries of a repository",
        "Ref-J+ gains most, already with few entries; with 400 the server sends 7 times less for Ref-J+, 3 times for Clu+.",
        "networks-5.16", _star, Axes("entries", BYTES, "y", tuple(STAR_PLANS)),
        "500 rows of R, 5,100 of S, payloads of 1,000 bytes", {"server bytes": why.fetched},
    ),
    _network(
        "5.17", "overlay hops to the last broker with CN*, by entries",
        "a fetch costs little; Rel-Sel has most.",
        "networks-5.16", _latency, Axes("entries", "hops", "", tuple(STAR_PLANS)),
        "500 rows of R (source: 200), 5,100 of S; hops until the last broker has the message with all contents",
        {"ref": why.asked_for},
    ),
    Figure(
        "5.18", THESIS, "the join graph of the next two figures",
        "a drawing: S in the middle of R, T and U; nothing to measure.", "", "",
    ),
    Figure(
        "5.19", THESIS, "kB per event of joins of several tables, by the partner of S",
        "the best decomposition is 20 % better than the worst, the greedy one is best, Rel-Sel is 9 times worse.",
        "a mix of R⋈S, R⋈S⋈T, R⋈S⋈T⋈U and S⋈T⋈U, 50 : 50 : 50 : 20; 10, 70, 70 and 30 rows per key; table 5.2", "join-many",
        partial(_schemas, ("general",)), _decompositions, None, {"": why.general},
    ),
    Figure(
        "5.20", THESIS, "kB per event of joins of several tables, star schema",
        "without a payload in S, Clu+ is 5, 9 and 127 times better than Rel-Sel, Ref-J and Enum-J.",
        "1,000 rows in each of three dimensions, 25,000 facts", "join-many",
        partial(_schemas, ("star, S with 0 bytes", "star, S with 100 bytes")), _facts, None, {"": why.star_kb},
    ),
)  # fmt: skip
