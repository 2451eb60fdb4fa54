"""What one transaction will hold, and what happens after it."""

from __future__ import annotations

from prosem.engine.commands import Frame
from prosem.runtime.trace import CommandTrace
from prosem.store.log import WriteSet
from prosem.values.undo import UndoStep


class Batch:
    """Rows and messages to write, frames that follow the commit, and how much it is of each.

    `undo` takes back what its commands changed in memory; it is dropped with the commit.
    """

    def __init__(self) -> None:
        self.writes = WriteSet()
        self.frames: list[Frame] = []
        self.weight = 0
        self.command_traces: list[CommandTrace] = []
        self.undo: list[UndoStep] = []
