"""What choosing costs an event, by the size of the estimators ([ProSem thesis] figure 6.4)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from bench.common import progress
from bench.engine import DOMAIN, minima_state
from bench.mixed import Mixed
from bench.optimizer_cases import Case
from optimizer.choose import Chooser
from optimizer.cost import UNCARRIED
from optimizer.estimate import Entry
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.store.writeset import commands

WARM = 10  # turns before the clock runs
READINGS = 100
ROWS = 10_000  # of the table with one group


class Forced(Chooser):
    """Chooses, and then takes the first plan all the same: the dearest case for the optimizer ([ProSem thesis] 6.5.2)."""

    spent_ns = calls = 0

    def choose(self, space: Any, description: Any) -> str:
        start = time.thread_time_ns()
        super().choose(space, description)
        self.spent_ns += time.thread_time_ns() - start
        self.calls += 1
        return str(space.plans[0])


def overhead(
    mixed: Mixed, training: Sequence[Case], sizes: Sequence[int], turns: int, count: int
) -> dict[int, float]:
    """Choosing in percent of the rest of an event's time, by entries of an estimator, among both ways of each plan."""
    chance, found = random.Random(9), {}
    carriages = {case.space: case.carriages for case in training}
    for entries in sizes:
        progress(f"optimizer: overhead with {entries:,} entries")
        forced = Forced(share=0, entries=max(1, entries))
        forced.carriages = lambda space: carriages.get(space, UNCARRIED)
        forced.adopt(forced.prepare(_grown(training, entries, chance)))
        found[entries] = _percent(mixed.state, forced, partial(mixed.events, count), turns)
    return found


def overhead_of_one_group(subscriptions: int, turns: int, count: int) -> float:
    """The same on a table with one group of range minima, measured as it goes."""
    progress("optimizer: overhead on a table with one group")
    chance, forced = random.Random(9), Forced()
    state = minima_state(chance, ROWS, subscriptions, forced)

    def events() -> Iterator[tuple[str, Any]]:
        for _ in range(count):
            key, y = chance.randrange(ROWS), chance.randrange(DOMAIN)
            yield "t", {"op": "update", "key": {"k": key}, "set": {"y": y}}

    return _percent(state, forced, events, turns)


def _percent(
    state: EngineState, forced: Forced, events: Callable[[], Iterable[tuple[str, Any]]], turns: int
) -> float:
    """From the command to what is packed for PostgreSQL. Both are CPU time, without what reading that clock takes at every
    choice.
    """
    state.chooser, read_ns, total_ns = forced, _read_ns(), 0
    for turn in range(WARM + turns):
        if turn == WARM:
            forced.spent_ns = forced.calls = total_ns = 0
        for table, event in events():
            start = time.thread_time_ns()
            state.execute(c.Publish(table, [event]))
            total_ns += time.thread_time_ns() - start
        start = time.thread_time_ns()
        list(commands(state.begin().writes, {}, (1, 1)))
        total_ns += time.thread_time_ns() - start
    chosen_ns = forced.spent_ns - read_ns * forced.calls
    rest_ns = total_ns - forced.spent_ns - read_ns * forced.calls
    return round(100 * chosen_ns / rest_ns, 1)


def _read_ns() -> float:
    """What reading the clock takes: half of two readings are inside what they measure, half outside."""
    best = float("inf")
    for _ in range(READINGS):
        start = time.thread_time_ns()
        for _ in range(READINGS):
            time.thread_time_ns()
        best = min(best, (time.thread_time_ns() - start) / READINGS)
    return best


def _grown(training: Sequence[Case], size: int, chance: random.Random) -> dict[int, dict[str, list[Entry]]]:
    """So many entries a space and plan: the cases, and others near them."""
    by_space: dict[int, list[Case]] = {}
    for case in training:
        by_space.setdefault(case.space, []).append(case)
    grown: dict[int, dict[str, list[Entry]]] = {}
    for space, some in by_space.items():
        for at in range(size):
            case = some[at % len(some)]
            moved = case.descriptor
            if at >= len(some):
                moved = tuple(max(0, value + chance.choice((-1, 0, 0, 1))) for value in moved)
            for name, estimate in case.learned.items():
                grown.setdefault(space, {}).setdefault(name, []).append((moved, estimate))
    return grown
