"""Plain counters of the core. The rim shows them; counting costs one addition."""

from __future__ import annotations

from collections import defaultdict


class Metrics:
    def __init__(self) -> None:
        self.events = 0
        self.commits = 0
        self.commit_seconds = 0.0
        self.changes = 0
        self.replayed = 0
        self.lagging = 0
        self.messages: dict[str, int] = defaultdict(int)
        self.plan_cpu_ns: dict[str, int] = defaultdict(int)
        self.plan_runs: dict[str, int] = defaultdict(int)

    def spend(self, plan: str, nanoseconds: int) -> None:
        """CPU time of one event in one space; the plan is "none" when it affects nobody."""
        self.plan_cpu_ns[plan] += nanoseconds
        self.plan_runs[plan] += 1

    def count_message(self, plan: str) -> None:
        self.messages[plan] += 1
