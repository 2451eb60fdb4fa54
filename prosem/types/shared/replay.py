"""The ways in which forms take part in replays.

| way | where its past comes from | how the edge's state at the first step is found |
| --- | --- | --- |
| `Stateless` | messages | there is none |
| `Undone` | messages | back from the state at the end, message by message |
| `Marked` | messages | from the last mark, or the newest message since |
| `FromLog` | rows and event log | from a shadow of the space over the rows as of then |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from cn.model.message import Message
from prosem.types.base import MOVED, Bound, Draft, ReplayedChanges, ReplayStep
from prosem.values.codes import Boxes
from prosem.values.model import Row, Table


class Stateless:
    """Messages say all: changes are made as they are read."""

    reads_log: ClassVar[bool] = False
    gathers: ClassVar[bool] = False
    stores_states: ClassVar[bool] = False
    looks_back: ClassVar[bool] = False

    def changes(self, steps: Sequence[ReplayStep], state: Any, notified: bytes) -> ReplayedChanges:
        raise NotImplementedError("only a replay that gathers steps is asked for their changes")

    def remake(self, kind: str, table: Table, old: Row | None, new: Row | None) -> Draft:
        raise NotImplementedError(f"messages of kind {kind} are stored whole")

    def selection(self, table: int, places: Sequence[Any]) -> Boxes:
        """All rows."""
        return [{}]


class Undoing(Protocol):
    """A form whose messages can be taken back from a state."""

    def unpack_state(self, packed: bytes) -> Any: ...
    def change(self, messages: Sequence[Message], bound: Bound, state: Any) -> tuple[bytes | None, Any]: ...
    def undo(self, messages: Sequence[Message], state: Any) -> Any:
        """The state before the messages."""


class Undone(Stateless):
    """The state is known as of the end and as of each move; states before are found by going back from there."""

    gathers: ClassVar[bool] = True
    stores_states: ClassVar[bool] = True

    def __init__(self, form: Undoing) -> None:
        self._form = form

    def changes(self, steps: Sequence[ReplayStep], state: Any, notified: bytes) -> ReplayedChanges:
        form, found = self._form, []
        for step in reversed(steps):
            if not step.messages:
                state = None if step.state is None else form.unpack_state(step.state)
            elif step.messages[-1].kind == MOVED:
                found.append((step.seq, step.messages[-1].payload))
            else:
                state = form.undo(step.messages, state)
                found.append((step.seq, form.change(step.messages, step.bound, state)[0]))
        return found[::-1]


class Marking(Protocol):
    """A form whose edge state is what was notified last."""

    def change(self, messages: Sequence[Message], bound: Bound, state: Any) -> tuple[bytes | None, Any]: ...
    def marked_state(self, notified: bytes) -> Any:
        """The state at the edge of a subscription that was notified of this."""


class Marked(Stateless):
    """The state is known as of each mark; each mark says it again."""

    gathers: ClassVar[bool] = True
    looks_back: ClassVar[bool] = True

    def __init__(self, form: Marking) -> None:
        self._form = form

    def changes(self, steps: Sequence[ReplayStep], state: Any, notified: bytes) -> ReplayedChanges:
        form, found = self._form, []
        state = form.marked_state(notified)
        for step in steps:
            if step.messages:
                body, state = form.change(step.messages, step.bound, state)
                found.append((step.seq, body))
            elif step.mark is not None:
                state = form.marked_state(bytes(step.mark.last_notified))
        return found


class FromLog(Stateless):
    """Messages cannot be taken back: the past is made again from rows and the event log. A form may narrow the rows."""

    reads_log: ClassVar[bool] = True
