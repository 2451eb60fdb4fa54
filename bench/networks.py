"""Networks of brokers on [ProSem thesis]'s workloads: its figures of chapters 3 and 5, beside what it says of them.

An Internet-like topology of 20,000 nodes with 1000 brokers; every subscription is hosted by the broker whose zone its point
is in, in all networks alike ([ProSem thesis] 3.5.4). Messages come from the engine's own spaces, and what affects no
subscription is not sent (3.2.3). First some events go through the real nodes of every network, which must
deliver to the same subscriptions; then the figures are taken from the ways of messages, which must have cost the same on
those events. Frames of messages count, and contents with the requests for them; not those of places and marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench import (
    minima_workload,
    network_joins,
    network_minima,
    network_repositories,
    network_serverless,
    networks_value,
)
from bench.common import Curve, Report, fail, progress, side_by_side
from bench.join_workload import Workload, subscriptions
from bench.network_joins import PLAN
from bench.network_nodes import Delivered, Events, compare
from bench.network_routes import Costs, Ways
from bench.network_setting import Ints, Setting
from cn.model.network import Space

Figures = dict[str, list[dict[str, Any]]]
MEASURED = network_joins.FIGURES | network_minima.FIGURES
ASIDE = ("affected", "not affecting", "not ignorable")  # columns that are no scheme
SAID: dict[str, tuple[str, str]] = {
    "3.6": ("bytes per event, by tuples", "flat; DS-CN, S-CN, CN in this order, far below unicast and multicast"),
    "3.8": ("bytes per event, by subscriptions", "S-CN, DS-CN and CN flat and below 1 kB, the others grow"),
    "3.9 hops": ("overlay hops, by ignorable updates", "CN does not care; DS-CN best, then multicast, then S-CN"),
    "3.9 bytes": ("bytes per event, by ignorable updates", "CN does not care and is worst in the end; DS-CN best"),
    "3.9 IP hops": ("IP hops, by ignorable updates", "as overlay hops"),
    "3.10": ("bytes per event, by spikes", "unicast and multicast grow linearly, S-CN very slightly, DS-CN more; CN flat"),
    "table 3.4": ("the most messages that a node sends for an event", "in the table"),
    "3.11": ("share of events with fewer bytes", "none: DS-CN 87 %; below 1 kB: S-CN 97 %, CN 94 %; unicast up to 680 kB"),
    "3.12": ("bytes per event, stocks", "S-CN and DS-CN below 100 bytes and flat; CN flat and bad; 11.7 % not ignorable"),
    "5.7": ("overlay hops an event", "semijoins at least 10 times fewer than all others; all of them the same"),
    "5.8": ("bytes per event", "Clu+ least, 10 times below simpler ones; Enum-J worst"),
    "5.8 tree": ("the same messages down the tree of cbn, bytes per event", "not in the thesis"),
    "5.9": ("bytes per event, by rows of R", "all grow slightly with R; Clu+ far below"),
    "5.11": ("bytes per event, by rows of S", "Ref-J+ and Tup grow with S, Clu+ hardly"),
    "5.12": ("bytes per event, by payload", "semijoins converge, the payload dominates"),
    "5.13": ("bytes per event, by overlap of interests", "all fall but Rel-Sel, which grows"),
    "5.14": ("bytes per event with the last hop to subscribers", "Enum-SJ least, Clu+ slightly more; both far below"),
    "5.15": ("bytes per event, stocks and ratings", "Ref-J+ better than before; Clu+ 10 times below"),
    "5.16": ("bytes per event, by entries of repositories", "CN* helps already at few entries, Ref-J+ most"),
    "5.17": ("overlay hops to a broker, by entries", "a fetch costs little; Rel-Sel highest"),
}  # fmt: skip


def run(quick: bool) -> Report:
    nodes, brokers = (1_000, 40) if quick else (20_000, 1000)
    report = Report("networks", {"nodes": nodes, "brokers": brokers, "quick": quick})
    progress(f"networks: a topology of {nodes:,} nodes, {brokers:,} brokers")
    setting = Setting(nodes, brokers)
    count, events = (500, 60) if quick else (3_000, 100)
    star = network_repositories.repositories(setting, quick)
    dearest_first: dict[str, Callable[[], Any]] = {
        **{f"value {name}": partial(networks_value.measured, name, setting, quick) for name in networks_value.TITLES},
        **{f"figures {name}": partial(measure, setting, quick) for name, measure in MEASURED.items()},
        "serverless": partial(network_serverless.rows, setting, *((1_000, 60) if quick else (20_000, 200))),
        "range-min": partial(sampled_minima, setting, count, events),
        "join": partial(sampled_joins, setting, count, events // 4),
    }  # fmt: skip
    found = side_by_side(dearest_first)
    minima, joins, serverless = (found[name] for name in ("range-min", "join", "serverless"))
    value = [row for name in networks_value.TITLES for row in found[f"value {name}"]]
    figures: Figures = {**star}
    for name in MEASURED:
        figures |= found[f"figures {name}"]
    figures = {name: rows for name, rows in figures.items() if name in SAID}
    figures = dict(sorted(figures.items(), key=lambda one: _place(one[0])))
    report.figures = {
        "range_min": minima,
        "value": value,
        "join": joins,
        "cn_star": star["cn_star"],
        "thesis": figures,
    }
    report.figures["serverless"] = serverless
    report.tables = [
        (f"range-min through real nodes, {count:,} subscriptions, per event", minima),
        (f"joins by {PLAN} through real nodes, {count:,} subscriptions, per event", joins),
        *((f"{_called(name)}: {SAID[name][0]} (thesis: {SAID[name][1]})", rows) for name, rows in figures.items()),
        ("without a server, per update that lowers a value (thesis 3.5.5)", serverless),
        *networks_value.tables(value),
        ("CN*: bytes that leave the server, per event (thesis 5.7.3)", star["cn_star"]),
    ]  # fmt: skip
    report.curves = [curve(name, rows) for name, rows in figures.items() if name != "table 3.4"]
    report.curves += networks_value.curves(value)
    report.notes = [
        "unicast: a message for each subscription; multicast: the subscriptions below as a list; S-CN: over zones of a CAN",
        "DS-CN: along the diagonal, then as S-CN, without a server; CN: to all ranges that hold the event",
        "ours: straight to where a region begins (can), one message per broker (brokers), down the cluster tree (cbn)",
        "figures 3.12 and 5.15 are drawn anew: the thesis's stock data are not public",
        *networks_value.NOTES,
    ]
    return report


# -- real nodes, and ways that cost the same ---------------------------------------------------------------------
def sampled_minima(setting: Setting, count: int, events: int) -> list[dict[str, Any]]:
    """Range-min through the nodes of every network."""
    points = minima_workload.ranges(count, *minima_workload.USUAL)
    workload = minima_workload.Workload(max(1000, count // 10), points)
    some = minima_workload.affecting(workload.events(), events)
    sent = [event.messages for event in some]
    return _checked("range-min", setting, workload.space.network, points, sent, [event.ids for event in some])


def sampled_joins(setting: Setting, count: int, events: int) -> list[dict[str, Any]]:
    """Joins by semijoins through the nodes of every network."""
    points = subscriptions(count)
    workload = network_joins.distinct(Workload(500, 300 if count < 1_000 else 2_000))
    space = workload.space("semijoin", points)
    some = [one for one in network_joins.messages(space, workload, PLAN, events) if one]
    sent = [[message for message, _ in one] for one in some]
    return _checked("join", setting, space.network, points, sent, [[ids for _, ids in one] for one in some])


def _checked(
    what: str, setting: Setting, space: Space, points: Ints, sent: Events, told: Sequence[Sequence[Ints]]
) -> list[dict[str, Any]]:
    wanted: Delivered = {
        (message.seq, message.part): np.sort(ids).tolist()
        for messages, some in zip(sent, told, strict=True)
        for message, ids in zip(messages, some, strict=True)
    }
    rows = compare(what, setting, space, points, sent, wanted)
    ways = Ways(setting, setting.zones(points))
    for row in rows:
        way = {"unicast": ways.unicast, "multicast": ways.multicast, "cbn": ways.cbn}.get(row["network"])
        if way is None:
            continue
        costs = Costs(setting)
        for messages, some in zip(sent, told, strict=True):
            costs.add([way(message, ids) for message, ids in zip(messages, some, strict=True)])
        found = costs.figures()
        same = ("overlay_hops", "max_node_stress", "hop_latency", "ip_hops")
        if any(found[name] != row[name] for name in same):
            fail(f"ways of {row['network']} cost {found}, its nodes {row}")
        if (
            abs(found["traffic_bytes"] / max(1.0, row["traffic_bytes"]) - 1) > 0.05
        ):  # positions grow with places
            fail(
                f"ways of {row['network']} have {found['traffic_bytes']} bytes, its nodes {row['traffic_bytes']}"
            )
    return rows


# -- what is shown -----------------------------------------------------------------------------------------------
def curve(name: str, rows: Sequence[Mapping[str, Any]]) -> Curve:
    """A figure as lines, one for each scheme."""
    by = next(iter(rows[0]))
    names = [column for column in rows[0] if column != by and column not in ASIDE]
    lines = {
        column: [
            (float(row[by]), float(row[column]))
            for row in rows
            if isinstance(row[by], int | float) and isinstance(row[column], int | float)
        ]
        for column in names
    }
    logarithmic = "" if name in ("3.11", "5.17") else "xy" if name == "5.12" else "y"
    return Curve(
        f"thesis {_called(name)}", by.replace("_", " "), SAID[name][0].split(", by")[0], lines, logarithmic
    )


def _called(name: str) -> str:
    return name if name.startswith("table") else f"figure {name}"


def _place(name: str) -> tuple[int, float, str]:
    """Chapters and numbers in their order; the table after figure 3.10, where [ProSem thesis] has it."""
    if name == "table 3.4":
        return 3, 10.5, name
    chapter, _, number = name.split()[0].partition(".")
    return int(chapter), float(number), name
