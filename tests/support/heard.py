"""A sink at an edge that remembers what each stream was sent."""

from __future__ import annotations

from typing import Any

from prosem.delivery.edge import Stream
from prosem.values.wire import decode


class Heard:
    """Frames as (id, kind, seq, body)."""

    is_lagging = False

    def __init__(self) -> None:
        self.frames: list[tuple[str, str, int, Any]] = []
        self.renewed: list[Stream] = []  # to be attached again

    def accept(self, stream: Stream, token: int) -> bool:
        return True

    def attached(self, stream: Stream) -> None: ...
    def lag(self) -> None:
        raise AssertionError("nothing lags here")

    def renew(self, stream: Stream) -> None:
        self.renewed.append(stream)

    def gone(self, stream: Stream) -> None: ...
    def progress(self, seq: int) -> None: ...
    def offer(self, stream: Stream, kind: str, seq: int, body: bytes) -> bool:
        self.frames.append((stream.id, kind, seq, decode(body)))
        return True
