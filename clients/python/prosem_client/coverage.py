"""What the rows at hand are surely complete for, while registered ranges take effect one after the other.

A PATCH takes effect at a place in the stream, and its answer, which names the place, comes by another way:
before the stream gets there, after, or never. Until the answer is here a frame may belong to either range;
then only what both ranges hold can be shown exactly. No I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from prosem_client.values import JsonObject

Covers = Callable[[JsonObject, JsonObject], bool]


class Aim(NamedTuple):
    """Exact parameters; of two the one with the greater number was assigned later."""

    number: int
    params: JsonObject


@dataclass(slots=True, eq=False)
class Step:
    """A range on its way into force: `seq` is where (None: not known), `target` what the user asked for.

    One that is not active is told nothing: the rows at hand are then complete for nothing.
    """

    params: JsonObject
    target: Aim
    is_active: bool = True
    seq: int | None = None


class Coverage:
    """The range in force where the consumer stands, and the steps still ahead of it in the stream.

    Invariant: the known seqs of the steps do not decrease. `covers(wide, exact)` says whether the answer with
    the parameters `exact` follows from the one with `wide`.
    """

    def __init__(self, covers: Covers, params: JsonObject) -> None:
        self._covers = covers
        self._in_force: JsonObject | None = params
        self._steps: deque[Step] = deque()
        self._at_server = params

    @property
    def at_server(self) -> JsonObject:
        """The parameters the server has, or has been sent last."""
        return self._steps[-1].params if self._steps else self._at_server

    @property
    def is_unknown(self) -> bool:
        """Whether the last step has no known place."""
        return bool(self._steps) and self._steps[-1].seq is None

    @property
    def next_seq(self) -> int | None:
        """Where the next step takes effect, as far as known."""
        return next((step.seq for step in self._steps if step.seq is not None), None)

    def begin(self, params: JsonObject, target: Aim, is_active: bool = True) -> Step:
        """A range is sent to the server."""
        step = Step(params, target, is_active)
        self._steps.append(step)
        return step

    def refuse(self, step: Step) -> None:
        """The server did not take it."""
        if step in self._steps:
            self._steps.remove(step)

    def holds(self, exact: JsonObject) -> bool:
        """Whether the exact answer follows from the rows at hand, whatever of the unknown is in force."""
        if self._in_force is None or not self._covers(self._in_force, exact):
            return False
        for step in self._steps:
            if step.seq is not None:
                return True  # it and all behind it are surely ahead
            if not self._covers(step.params, exact):
                return False
        return True

    def will_hold(self, exact: JsonObject) -> bool:
        """Whether it follows from the rows at hand, and still will when all that is ahead has taken effect."""
        return self.holds(exact) and all(self._covers(step.params, exact) for step in self._steps)

    def must_wait(self, shown: JsonObject) -> bool:
        """Whether the next frame would change what is shown in an unknown way: only an answer helps."""
        return self.next_seq is None and not self.holds(shown)

    def arrive(self, position: int) -> Step | None:
        """Everything up to `position` is consumed: the last step that took effect by now, if any did."""
        last = None
        while (seq := self.next_seq) is not None and seq <= position:
            step = self._steps.popleft()
            if step.seq is None:
                continue  # never answered: what was sent after it has replaced it
            self._at_server = step.params
            self._in_force = step.params if step.is_active else None
            last = step
        return last

    def check(self) -> None:
        """The known seqs stand in order."""
        seqs = [step.seq for step in self._steps if step.seq is not None]
        assert seqs == sorted(seqs), seqs
