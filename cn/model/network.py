"""The interface of a content-driven network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cn.model.geometry import Filters, Point
from cn.model.message import Message


class Space(NamedTuple):
    """Where places lie: the points of so many dimensions, or filters if there are no dimensions."""

    id: int
    dimensions: int
    int64: bool


Deliver = Callable[[Message, Sequence[int] | NDArray[np.int64]], None]
Release = Callable[[int], None]
Place = Point | Filters


class Network(Protocol):
    """Carries each message to the hosted ids it concerns, and to no others.

    A hosted id has one place in a space; with the place None it is nowhere, and only a message that names it
    reaches it. Calls and messages take effect in the order in which they are made: a message reaches the ids
    whose places match it at that point of the order. `deliver` is called in (seq, part) order, once for a
    message with all ids it concerns, and not at all when it concerns none; `release(seq)` is called after
    every delivery of a message up to `seq`.
    """

    name: str

    def register(self, space: Space, id: int, topic: bytes, place: Place | None) -> None:
        """Host an id at a place. The same place again changes nothing; an id hosted elsewhere is moved."""

    def move(self, space: Space, id: int, topic: bytes, place: Place | None) -> None:
        """Take an id to another place if it is hosted; otherwise nothing."""

    def remove(self, id: int) -> None:
        """Host an id no longer; nothing if it is not hosted."""

    def inject(self, message: Message) -> None:
        """Send a message; they come in (seq, part) order."""

    def watermark(self, seq: int) -> None:
        """Everything up to `seq` has been injected."""

    def links(self) -> list[dict[str, Any]]:
        """Each link: its two ends (`from`, `to`) and what it has carried so far (`messages`, `bytes`).

        Where it is known, `last_seq` is the seq of the last message.
        """


Factory = Callable[[Deliver, Release], Network]
