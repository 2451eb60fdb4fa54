"""CN* over a network of a thousand brokers: [ProSem thesis]'s figures 5.16 and 5.17, every frame through the real nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.common import fail, progress
from bench.join_workload import Workload, subscriptions
from bench.network_joins import PLAN, S_ROWS, Lines, distinct, messages
from bench.network_nodes import Delivered, measure
from bench.network_setting import Setting
from prosem.types.join.shape import MODES

STAR_PAYLOAD, STAR_ROWS = 1_000, 500
ENTRIES = (0, 100, 400, 3_100)
STAR_PLANS = {"ref-j+": 7.0, PLAN: 3.0, "rel-sel": None}  # 5.7.3: server stress with 400 entries, times lower
SPREAD = "can"


def star(setting: Setting, quick: bool) -> list[dict[str, Any]]:
    """Figures 5.16 and 5.17: CN* with ever larger repositories, through the real nodes; the first events fill them."""
    count, s_rows, events = star_size(quick)
    points, lines = subscriptions(count), []
    hosts = setting.hosts(points)
    for plan, thesis in STAR_PLANS.items():
        workload = distinct(Workload(STAR_ROWS, s_rows, STAR_PAYLOAD))
        space = workload.space(next(mode for mode, offered in MODES.items() if plan in offered), points)
        sent = [[one.message for one in some] for some in messages(space, workload, plan, events)]
        told: Delivered | None = None
        for network, sizes in (
            (SPREAD, (None, 40, 400) if quick else (None, *ENTRIES)),
            ("cbn", (None, 400)),
        ):
            plain = 0.0
            for entries in sizes:
                progress(f"networks: figures 5.16 and 5.17, {plan} over {network}, {entries or 'no'} entries")
                options = {} if entries is None else {"repository": entries}
                row, delivered, leaving = measure(
                    network, setting, space.network, points, hosts, sent, options, events * 3 // 4
                )
                if told is not None and delivered != told:
                    fail(f"{network} with {entries} entries does not deliver what it does without any")
                told, plain = delivered, plain or leaving
                lines.append(
                    {
                        "plan": plan,
                        "network": network,
                        "entries": "-" if entries is None else entries,
                        "traffic_bytes": row["traffic_bytes"],
                        "server_bytes": round(leaving, 1),
                        "times_less": round(plain / max(1, leaving), 2),
                        "thesis": thesis if entries == 400 and thesis else "-",
                        "hop_latency": row["hop_latency"],
                    }
                )
    return lines


def star_size(quick: bool) -> tuple[int, int, int]:
    """Subscriptions, rows of S, events."""
    return (1_000, 300, 200) if quick else (5_000, S_ROWS, 480)


def repositories(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figures 5.16 and 5.17, and all that was measured for them."""
    lines = star(setting, quick)
    return {
        "5.16": _by_entries(lines, "traffic_bytes"),
        "5.17": _by_entries(lines, "hop_latency"),
        "cn_star": lines,
    }


def _by_entries(star: Sequence[Mapping[str, Any]], what: str) -> Lines:
    """CN* over the CAN: a line for each size, a column for each plan; without repositories first."""
    sizes = list(dict.fromkeys(row["entries"] for row in star))
    return [
        {"entries": size}
        | {
            plan: row[what]
            for plan in STAR_PLANS
            for row in star
            if (row["plan"], row["network"], row["entries"]) == (plan, SPREAD, size)
        }
        for size in sizes
    ]


FIGURES: dict[str, Callable[[Setting, bool], dict[str, Lines]]] = {"5.16": repositories}
