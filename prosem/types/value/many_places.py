"""Where subscriptions to many items stand, and how what was told of an item is written down."""

from __future__ import annotations

from typing import Any, NamedTuple

from prosem.index.radii.ba_tree_ends import Radius
from prosem.index.radii.ba_tree_radii import Run
from prosem.index.radii.epochs import Birth, Epochs, State
from prosem.types.value.items import Items
from prosem.values.wire import decode, encode

ALL = b"*"  # the topic of those that select every row; no key has it


class Selected(NamedTuple):
    """The items of a subscription (None: all), by the codes of their keys, and its radius."""

    topics: tuple[bytes, ...] | None
    radius: Radius


class Place(NamedTuple):
    """Where a subscription stands, and under which topics messages find it."""

    topics: tuple[bytes, ...] | None
    code: Any
    birth: Birth

    @property
    def found_by(self) -> tuple[bytes, ...]:
        return (ALL,) if self.topics is None else self.topics

    @property
    def point(self) -> tuple[Any, Birth]:
        return self.code, self.birth


def written(kind: Items, topic: bytes, item: Epochs) -> bytes:
    """An item's epochs as JSON: its key's codes, and for each epoch the last birth and what its radii were told."""
    epochs = [
        (stop, [(kind.code(low), kind.code(high), kind.value(told)) for low, high, told in runs])
        for stop, runs in item.state()
    ]
    return encode((topic.decode(), epochs))


def read(kind: Items, stored: bytes) -> tuple[bytes, State]:
    """The item and its epochs from what was written."""
    text, epochs = decode(stored)
    return text.encode(), [
        (stop, [Run(kind.radius(low), kind.radius(high), kind.read(encode(v))) for low, high, v in runs])
        for stop, runs in epochs
    ]
