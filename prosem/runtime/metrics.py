"""Plain counters of the core. The rim shows them; counting costs one addition."""

from __future__ import annotations

from collections import defaultdict

from prosem.runtime.lateness import LoopLateness


class Metrics:
    def __init__(self) -> None:
        self.events = 0
        self.commits = 0
        self.commit_seconds = 0.0
        self.rebuilds = 0  # of the memory, after a failure
        self.undone = 0  # batches that were refused, with what was processed after them
        self.rows_read = 0  # from PostgreSQL for events, where columns are not in memory
        self.changes = 0
        self.replayed = 0
        self.lagging = 0
        self.rearranged = 0
        self.loop_lateness = LoopLateness()
        self.restarts: dict[str, int] = defaultdict(int)  # by background task
        self.network_faults: dict[str, int] = defaultdict(int)  # of the way to brokers, by kind
        self.messages: dict[str, int] = defaultdict(int)  # by plan, as the two below
        self.plan_cpu_ns: dict[str, int] = defaultdict(
            int
        )  # of events in spaces; "none" when no subscription is affected
        self.plan_runs: dict[str, int] = defaultdict(int)
