"""Value notification as networks see it: arrivals, and affected subscriptions by ranges of radii and arcs of labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.common import fail
from bench.value_change import Integers, Labelled, Scan, Workload
from prosem.index.radii.ba_tree_radii import Fired


@dataclass
class Arrival:
    """A subscription comes, told the present value; others of its radius may get other labels to make room."""

    at: int
    label: int
    value: int
    relabelled: dict[int, int] = field(default_factory=dict)  # subscription → new label
    span: tuple[int, int] = (0, 0)  # the old labels that were shifted, from to


@dataclass
class Step:
    """An event, and the subscriptions added right before it."""

    arrivals: list[Arrival]
    before: int
    value: int
    fired: list[Fired]
    affected: list[int]


@dataclass
class Trace:
    """The subscriptions as they stand when measuring begins, and what happens then. A label of -1: not yet there."""

    radius: Integers
    label: Integers
    told: Integers
    state: Any  # of the tree
    steps: list[Step]

    @property
    def present(self) -> list[int]:
        return [int(at) for at in np.flatnonzero(self.label >= 0)]

    @property
    def operations(self) -> int:
        """Events and arrivals."""
        return len(self.steps) + sum(len(step.arrivals) for step in self.steps)


def follow(workload: Workload, measured: int) -> Trace:
    """Let the tree work off all events; the last so many are the trace. Tree and scan must agree on every one of them."""
    held, scan = Labelled(workload), Scan(workload)
    late: dict[int, list[int]] = {}
    for at in np.flatnonzero(workload.arrival).tolist():
        late.setdefault(int(workload.arrival[at]), []).append(at)
    begin = len(workload.values) - measured
    trace: Trace | None = None
    before = 0
    for number, value in enumerate(workload.values):
        if number == begin:
            state = held.tree.state()[1]
            trace = Trace(workload.radius, held.label.copy(), scan._told.copy(), state, [])
        arrivals = [_arrive(held, at, before, trace is not None) for at in late.get(number, ())]
        if arrivals:
            scan.arrive(np.array([one.at for one in arrivals]), before)
        fired = held.tree.event(value)
        affected = scan.take(value)
        if not np.array_equal(held.reached(fired), affected):
            fail(f"tree and scan disagree on event {number}")
        if trace is not None:
            trace.steps.append(Step(arrivals, before, value, fired, affected.tolist()))
        before = value
    assert trace is not None
    return trace


def _arrive(held: Labelled, at: int, value: int, is_measured: bool) -> Arrival:
    labels = held.label.copy() if is_measured else held.label
    moved, _ = held.arrive(at)
    arrival = Arrival(at, int(held.label[at]), value)
    if moved and is_measured:
        changed = np.flatnonzero((labels != held.label) & (labels >= 0))
        arrival.relabelled = {int(one): int(held.label[one]) for one in changed}
        arrival.span = int(labels[changed].min()), int(labels[changed].max())
    return arrival
