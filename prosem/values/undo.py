"""The undo log: how to take back what commands changed in memory and PostgreSQL has not committed.

Whatever changes the engine's memory adds a step that takes its change back, or keeps what it is about to overwrite. Steps
run in the opposite order, so each finds the memory as its change left it. A batch has the steps of its commands until it is
committed. Cost: one step per command or structure, not per row; rows that steps refer to exist anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from prosem.values.model import Delta, Key, Table
from prosem.values.wire import is_same

UndoStep = Callable[[], object]
_ABSENT: Any = object()


class UndoLog:
    """`is_on`: whether changes are to be recorded. `number` is that of the batch being recorded.

    >>> log, held = UndoLog(), {"a": 1}
    >>> log.keep(held, "a", "b")
    >>> held |= {"a": 2, "b": 3}
    >>> undo(log.cut())
    >>> held
    {'a': 1}
    """

    __slots__ = ("_steps", "is_on", "number")

    def __init__(self, is_on: bool = True) -> None:
        self._steps: list[UndoStep] = []
        self.is_on = is_on
        self.number = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> UndoLog:
        """A copy of a structure records where the structure does."""
        return self

    def add(self, step: Callable[..., object], *arguments: Any) -> None:
        """What takes back the change that is made now."""
        if self.is_on:
            self._steps.append(partial(step, *arguments))

    def keep(self, held: MutableMapping[Any, Any], *keys: Any) -> None:
        """These entries are about to change; mutable values must not, only be replaced."""
        if self.is_on:
            for key in keys:
                self._steps.append(partial(_put, held, key, held.get(key, _ABSENT)))

    def keep_attribute(self, owner: object, name: str) -> None:
        if self.is_on:
            self._steps.append(partial(setattr, owner, name, getattr(owner, name)))

    def cut(self) -> list[UndoStep]:
        """The steps of a batch; another one begins."""
        steps, self._steps = self._steps, []
        self.number += 1
        return steps

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What changes meanwhile is not recorded: it is being taken back, or stays in any case."""
        before, self.is_on = self.is_on, False
        try:
            yield
        finally:
            self.is_on = before


NO_UNDO = UndoLog(is_on=False)  # of structures whose changes are never taken back


def undo(steps: list[UndoStep]) -> None:
    """Take back what the steps were recorded for; the list is empty afterwards."""
    while steps:
        steps.pop()()


def _put(held: MutableMapping[Any, Any], key: Any, value: Any) -> None:
    if value is _ABSENT:
        held.pop(key, None)
    else:
        held[key] = value


def net(deltas: Sequence[Delta], seq: int) -> list[Delta]:
    """What the deltas of a request amount to, at this seq: at most one for each row, none where nothing changed.

    >>> from typing import Any
    >>> table: Any = None
    >>> steps = [Delta(1, table, (7,), None, (7, 1)), Delta(2, table, (8,), (8, 1), (8, 2)),
    ...     Delta(3, table, (7,), (7, 1), (7, 2)), Delta(4, table, (8,), (8, 2), (8, 1))]
    >>> [(delta.seq, delta.old, delta.new) for delta in net(steps, 4)]
    [(4, None, (7, 2))]
    """
    found: dict[tuple[Table, Key], Delta] = {}
    for delta in deltas:
        at = delta.table, delta.key
        first = found.get(at)
        found[at] = delta._replace(seq=seq, old=delta.old if first is None else first.old)
    return [delta for delta in found.values() if not is_same(delta.old, delta.new)]


def opposite(deltas: Sequence[Delta]) -> list[Delta]:
    """The net deltas that take these back, all at one seq."""
    return [delta._replace(old=delta.new, new=delta.old) for delta in net(deltas, deltas[-1].seq)]
