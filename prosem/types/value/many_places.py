"""Where subscriptions to many items stand, and how the last notified values of an item are written."""

from __future__ import annotations

from typing import Any, NamedTuple

from prosem.index.radii.ba_tree_ends import Radius
from prosem.index.radii.ba_tree_radii import Run
from prosem.index.radii.epochs import Birth, ItemEpochs, State
from prosem.index.radii.single_ends import SingleEnds
from prosem.types.value.items import Items
from prosem.values.wire import decode, encode

ALL = b"*"  # the topic of those that select every row; no key has it
SINGLE = b"~"  # in the index, the topic of those of them that are named in messages


class Selected(NamedTuple):
    """The items of a subscription (None: all), by the codes of their keys, and its radius."""

    topics: tuple[bytes, ...] | None
    radius: Radius


class Place(NamedTuple):
    """Where a subscription stands, and under which topics it is found. `is_single`: it is named, whatever it selects."""

    topics: tuple[bytes, ...] | None
    code: Any
    birth: Birth
    is_single: bool = False

    @property
    def found_by(self) -> tuple[bytes, ...]:
        if self.topics is None:
            return (SINGLE,) if self.is_single else (ALL,)
        return self.topics

    @property
    def point(self) -> tuple[Any, Birth]:
        return self.code, self.birth


def by_key(topic: bytes) -> list[tuple[bool, Any]]:
    """The order of items by key; NULLs last.

    >>> sorted([b"[null]", b"[2]", b"[1]"], key=by_key)
    [b'[1]', b'[2]', b'[null]']
    """
    return [(code is None, code) for code in decode(topic)]


def written(kind: Items, topic: bytes, item: ItemEpochs | None, single: SingleEnds | None) -> bytes:
    """What is kept of an item, as JSON: its key's codes; for each epoch the last birth and the last notified values of
    its radii; and the subscriptions with last notified values of their own."""
    epochs = [
        (stop, [(kind.code(low), kind.code(high), kind.value(value)) for low, high, value in runs])
        for stop, runs in (() if item is None else item.state())
    ]
    own = [(sid, kind.value(value)) for sid, _, value in single or ()]
    return encode((topic.decode(), epochs, own) if own else (topic.decode(), epochs))


def read(kind: Items, stored: bytes) -> tuple[bytes, State, list[tuple[int, Any]]]:
    """The item, its epochs and the last notified values of single subscriptions, from what was written."""
    text, epochs, *rest = decode(stored)
    state = [
        (stop, [Run(kind.radius(low), kind.radius(high), kind.read(encode(v))) for low, high, v in runs])
        for stop, runs in epochs
    ]
    return text.encode(), state, [(sid, kind.read(encode(v))) for own in rest for sid, v in own]
