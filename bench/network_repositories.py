"""CN* over a network of a thousand brokers: [ProSem thesis]'s figures 5.16 and 5.17, every frame through the real nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from bench.common import fail, on_all_cores, progress
from bench.join_workload import Workload, subscriptions
from bench.network_joins import PLAN, S_ROWS, Lines, distinct, messages
from bench.network_nodes import Events, measure
from bench.network_setting import Setting
from cn.model.network import Space
from prosem.types.join.shape import MODES

STAR_PAYLOAD, STAR_ROWS = 1_000, 500
ENTRIES = (0, 100, 400, 3_100)
STAR_PLANS = {"ref-j+": 7.0, PLAN: 3.0, "rel-sel": None}  # 5.7.3: server stress with 400 entries, times lower
SPREAD = "can"


class Run(NamedTuple):
    """A plan over a network whose brokers have repositories of so many entries; None: plain CN."""

    plan: str
    network: str
    entries: int | None


class Carried(NamedTuple):
    """What a run has cost, the bytes that left the server, and a digest of what was delivered where."""

    row: dict[str, Any]
    leaving: float
    delivered: bytes


def star(setting: Setting, quick: bool) -> list[dict[str, Any]]:
    """Figures 5.16 and 5.17: CN* with ever larger repositories, through the real nodes; the first events fill them."""
    count, s_rows, events = star_size(quick)
    points = subscriptions(count)
    hosts = setting.hosts(points)
    sent: dict[str, tuple[Space, Events]] = {}
    for plan in STAR_PLANS:
        workload = distinct(Workload(STAR_ROWS, s_rows, STAR_PAYLOAD))
        space = workload.space(next(mode for mode, offered in MODES.items() if plan in offered), points)
        drafts = messages(space, workload, plan, events)
        sent[plan] = space.network, [[one.message for one in some] for some in drafts]

    def carry(run: Run) -> Carried:
        entries = "no repositories" if run.entries is None else f"{run.entries:,} entries"
        progress(f"networks: figures 5.16 and 5.17, {run.plan} over {run.network}, {entries}")
        options = {} if run.entries is None else {"repository": run.entries}
        space, some = sent[run.plan]
        row, delivered, leaving = measure(
            run.network, setting, space, points, hosts, some, options, events * 3 // 4
        )
        return Carried(row, leaving, sha256(repr(sorted(delivered.items())).encode()).digest())

    sizes = {SPREAD: (None, 40, 400) if quick else (None, *ENTRIES), "cbn": (None, 400)}
    runs = [Run(plan, name, one) for plan in STAR_PLANS for name, some in sizes.items() for one in some]
    carried = dict(zip(runs, on_all_cores(carry, runs), strict=True))
    for run, found in carried.items():
        if found.delivered != carried[Run(run.plan, SPREAD, None)].delivered:
            fail(f"{run.network} with {run.entries} entries does not deliver what it does without any")
    return [_line(run, found, carried[run._replace(entries=None)]) for run, found in carried.items()]


def _line(run: Run, found: Carried, plain: Carried) -> dict[str, Any]:
    thesis = STAR_PLANS[run.plan]
    return {
        "plan": run.plan,
        "network": run.network,
        "entries": "-" if run.entries is None else run.entries,
        "traffic_bytes": found.row["traffic_bytes"],
        "server_bytes": round(found.leaving, 1),
        "times_less": round(plain.leaving / max(1, found.leaving), 2),
        "thesis": thesis if run.entries == 400 and thesis else "-",
        "hop_latency": found.row["hop_latency"],
        "content_latency": found.row["content_latency"],
    }


def star_size(quick: bool) -> tuple[int, int, int]:
    """Subscriptions, rows of S, events."""
    return (1_000, 300, 200) if quick else (5_000, S_ROWS, 480)


def repositories(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figures 5.16 and 5.17, and all that was measured for them."""
    lines = star(setting, quick)
    return {
        "5.16": _by_entries(lines, "traffic_bytes"),
        "5.17": _by_entries(lines, "content_latency"),
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
