"""What a replay gathers for one subscription: who asks for it, and its steps in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from cn.model.message import Message
from prosem.delivery.edge import Stream
from prosem.types.base import Bound, StatefulForm
from prosem.values.model import PlaceMark, Row, Table

ReplayedChanges = list[tuple[int, bytes | None]]  # changes by seq; None where the answer stayed


class ReplayStep(NamedTuple):
    """What happened to one subscription at one seq: messages, or a move that found the edge in a state.

    `mark`: of a type that has marks, where the move took it and what it had been told by then.
    """

    seq: int
    messages: list[Message]
    bound: Bound
    state: bytes | None = None
    mark: PlaceMark | None = None


class ReplayRequest(NamedTuple):
    """Bring a stream from `after` to `upto`, where its place is `bound` and its edge state is `state`."""

    stream: Stream
    after: int
    upto: int
    bound: Bound
    state: Any

    def steps(self, steps: Sequence[ReplayStep]) -> list[ReplayStep]:
        """Those that the stream is to be told."""
        return [step for step in steps if self.after < step.seq <= self.upto]


def retold(form: StatefulForm, steps: Sequence[ReplayStep], request: ReplayRequest) -> ReplayedChanges:
    """The changes of a stateful subscription: back from the state at the end, which each move interrupts."""
    state, told = request.state, []
    for step in reversed(request.steps(steps)):
        if not step.messages:
            state = None if step.state is None else form.unpack_state(step.state)
        elif step.messages[-1].kind == "change":
            told.append((step.seq, step.messages[-1].payload))
        else:
            state = form.undo(step.messages, state)
            told.append((step.seq, form.change(step.messages, step.bound, state)[0]))
    return told[::-1]


def read_row(table: Table, encoded: bytes | None) -> Row | None:
    """A stored row as the table sees it (the row of a table that extends it has more columns)."""
    return None if encoded is None else table.read(msgspec.json.decode(encoded))
