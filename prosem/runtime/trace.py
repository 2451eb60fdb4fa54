"""The way of one command through the server, as moments; taken only when commands are traced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class CommandTrace:
    """Nanoseconds since the epoch. `parent` is the trace context the client sent (W3C `traceparent`), "" without one."""

    name: str
    weight: int
    parent: str = ""
    arrived: int = 0
    started: int = 0
    processed: int = 0
    commit: int = 0
    committed: int = 0
    delivered: int = 0
    error: str = ""

    def stages(self) -> list[tuple[str, int, int]]:
        """The stages it went through, in order, each with its begin and end.

        >>> CommandTrace("Publish", 1, arrived=1, started=3, processed=4, error="no such table").stages()
        [('wait', 1, 3), ('process', 3, 4)]
        """
        known = [
            ("wait", self.arrived, self.started),
            ("process", self.started, self.processed),
            ("gather", self.processed, self.commit),
            ("commit", self.commit, self.committed),
            ("deliver", self.committed, self.delivered),
        ]
        return [(name, begin, end) for name, begin, end in known if begin and end]


TraceSink = Callable[[CommandTrace], None]
