"""The benchmarks by name."""

from __future__ import annotations

from bench import (
    attach,
    backtest,
    end_to_end,
    engine,
    fan_out,
    join,
    matching,
    networks,
    optimizer,
    parametric,
    range_min,
    recovery,
    rows,
    spark,
    stages,
    takeover,
    targets,
    templates,
    top_k,
    value_change,
    views,
    with_statistics,
)
from bench.common import Bench
from bench.papers import run as papers

PAGES = {"targets": targets.run, "papers": papers.run}  # made of what other benches measure, which is kept
BENCHES: dict[str, tuple[Bench, str]] = {
    "range-min": (
        range_min.run,
        "messages and µs per event: reformulation, enumeration, scan ([ProSem thesis] 3.5)",
    ),
    "top-k": (
        top_k.run,
        "messages, bytes and µs per event for k = 1, 10, 100: reformulation, enumeration, scan with recomputation",
    ),
    "templates": (
        templates.run,
        "µs per update with 1 to 1,000 templates on one table, ten of which it concerns",
    ),
    "views": (
        views.run,
        "µs per event of a join and of groups with up to 1M subscriptions over them, beside PostgreSQL and DuckDB; building",
    ),
    "value-change": (
        value_change.run,
        "messages and µs per event: the B²-tree, a scan, a tree on endpoints; relabelling ([ProSem thesis] 4.7)",
    ),
    "join": (
        join.run,
        "kB and µs per event of every join strategy, sizes of descriptions, joins of several tables ([ProSem thesis] 5.7)",
    ),
    "matching": (
        matching.run,
        "µs per event of FASTINT, a numpy scan and a loop; cost of changes; 10k to 1M filters",
    ),
    "optimizer": (
        optimizer.run,
        "overhead and quality of choosing plans, and what the four knobs do, on 14 types ([ProSem thesis] 6.5)",
    ),
    "engine": (
        engine.run,
        "CPU µs of each step of an event in the engine, of fourteen types, of two ranges; registrations/s",
    ),
    "end-to-end": (
        end_to_end.run,
        "events/s accepted, changes/s delivered, latency, beside raw COPY and WebSocket",
    ),
    "attach": (
        attach.run,
        "events/s and lag of `prosem attach` behind `pgbench -c 4`: a backlog, then a steady load",
    ),
    "fan-out": (
        fan_out.run,
        "changes/s delivered by the server alone and over 1, 2, 4 brokers; CPU time of each change",
    ),
    "parametric": (
        parametric.run,
        "updates/s, stale and missed events: PATCH, delete + create, the update monitor",
    ),
    "networks": (
        networks.run,
        "figures 3.6 to 3.12, 4.7 to 4.12, 5.7 to 5.17 of [ProSem thesis]: bytes, hops, node stress of networks; CN*",
    ),
    "recovery": (
        recovery.run,
        "rows/s of rebuilding the state from PostgreSQL, and memory after several rebuilds",
    ),
    "takeover": (
        takeover.run,
        "seconds without service when a standby takes over: after SIGTERM, kill -9, SIGSTOP and a lost network",
    ),
    "rows": (
        rows.run,
        "bytes per row, recovery and µs per event of a table of up to 10M rows with 100k subscriptions",
    ),
    "spark": (
        spark.run,
        "rows/s of the statistics job from 1M to 10M rows of the log, its growth, what reaches the driver",
    ),
    "statistics": (
        with_statistics.run,
        "CPU time and bytes per event after a restart, with a run of the statistics job, without, and after ten minutes",
    ),
    "backtest": (
        backtest.run,
        "events/s of backtests of 10,000 subscriptions over 1M archived events on 1 and 2 cores, beside the engine alone",
    ),
    "stages": (
        stages.run,
        "load and matching rate of each stage of multi-stage filtering, relative to one server",
    ),
    "targets": (
        targets.run,
        "what the server promises in figures, beside what other benches measure of it, and the run before, as a page",
    ),
    "papers": (
        papers.run,
        "the figures of the papers beside ours as a page: what the other benches measure of them, part by part",
    ),
}
