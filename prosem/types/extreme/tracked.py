"""Range MIN and MAX where the edge holds the answer: with `IN`, and in composed spaces.

With `IN` the minimum is the lowest of those of all topics, so the edge holds one for each. In a composed space several
deltas have one seq: the edge compares the answer after all of them with the one before. In both a held row must not go
stale: see `tracked_rule`. Such a form is replayed from rows and the event log.

A message reaches also ranges whose value stays; it loses where most rows have the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

import msgspec

from cn.model.message import Message
from prosem.index.boxes.kd_tree import MinKdTree
from prosem.index.ranges.lower_tier import Ref
from prosem.types.base import MOVED, Bound, Replay, Rows, Space, SpaceContext
from prosem.types.extreme.boxes import Place
from prosem.types.extreme.form import ExtremeForm, ExtremeSpace
from prosem.types.extreme.heights import height
from prosem.types.extreme.rule import Piece
from prosem.types.extreme.several_ranges import BoxesSpace, BoxTrees, Found, NewExtreme, exchange
from prosem.types.extreme.tracked_rule import settle
from prosem.types.shared.narrowed import RangeReplay
from prosem.types.shared.ranges import Codes
from prosem.types.shared.rules import fields
from prosem.values.model import Delta, JsonObject, Key
from prosem.values.wire import decode, encode, is_same, pack

KIND = "extreme"  # of the messages; a move of the point has another
_read_state = msgspec.msgpack.Decoder(dict[bytes, bytes]).decode


class Held(NamedTuple):
    """The extreme of one topic: its height, by which extremes compare, and the answer {"value", "row"}."""

    height: Any
    answer: bytes


State = Mapping[bytes, Held]  # of the topics that have a row in the ranges


@dataclass(frozen=True)
class TrackedForm(ExtremeForm):
    """The edge's state is never changed: a fold makes a new one."""

    @property
    def columns_read(self) -> None:
        """All: an extreme is notified with its whole row, which any event may change."""
        return None

    @property
    def replay(self) -> Replay:
        return RangeReplay(self.shape.table, self.shape.ranged)

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        if len(self.shape.ranged) > 1:
            return TrackedBoxesSpace(self, space_id, context)
        return TrackedExtremeSpace(self, space_id, context.rows[0])

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        found = [rows[key] for _, key in self._lowest(space, bound)]
        return self.result(min(found, key=lambda row: self._height(row[self.y]), default=None))

    def state(self, space: Space, bound: Bound) -> State:
        rows = cast("TrackedExtremeSpace | TrackedBoxesSpace", space).rows
        return {
            topic: Held(self._height(rows[key][self.y]), encode(self.result(rows[key])))
            for topic, key in self._lowest(space, bound)
        }

    def _lowest(self, space: Space, bound: Bound) -> list[tuple[bytes, Key]]:
        """The key of the lowest row of each topic that has one."""
        lowest = cast("ExtremeSpace | BoxesSpace", space).lowest
        found = [(topic, lowest(topic, cast(Codes, bound.place))) for topic in bound.topics]
        return [(topic, key) for topic, key in found if key is not None]

    @cached_property
    def _height(self) -> Callable[[Any], Any]:
        return height(self._kind, self.maximum)

    def change(self, messages: Sequence[Message], bound: Bound, state: State) -> tuple[bytes | None, State]:
        if messages[-1].kind == MOVED:  # the state came with it
            return messages[-1].payload, state
        after = dict(state)
        for message in messages:
            held = self._read(message.payload)
            if held is None:
                after.pop(message.topic, None)
            else:
                after[message.topic] = held
        was, now = _best(state), _best(after)
        if was is None or now is None:
            is_changed = was is not now
        else:
            is_changed = was.height != now.height
        return ((self._nothing if now is None else now.answer) if is_changed else None), after

    @cached_property
    def _nothing(self) -> bytes:
        return encode(self.result(None))

    def _read(self, answer: bytes) -> Held | None:
        value = decode(fields(answer)["value"])
        return None if value is None else Held(self._height(self._kind.read(value)), answer)

    def pack_state(self, state: State) -> bytes:
        return pack({topic: held.answer for topic, held in state.items()})

    def unpack_state(self, packed: bytes) -> State:
        found = {topic: self._read(answer) for topic, answer in _read_state(packed).items()}
        return {topic: held for topic, held in found.items() if held is not None}


def _best(state: State) -> Held | None:
    return min(state.values(), key=lambda held: held.height, default=None)


class TrackedExtremeSpace(ExtremeSpace):
    """Of at most one range."""

    kind: ClassVar[str] = KIND
    is_tracked: ClassVar[bool] = True

    @property
    def rows(self) -> Rows:
        return self._rows

    def step_all(self, deltas: Sequence[Delta]) -> Sequence[Any | None] | None:
        """One by one if a delta changes nothing: it is not for the trees."""
        return None if any(is_same(one.old, one.new) for one in deltas) else super().step_all(deltas)

    def step(self, delta: Delta) -> Any | None:
        """A delta that leaves the row where it is concerns the subscriptions that hold it."""
        if is_same(delta.old, delta.new):
            return None
        if self._compiled is not None:
            return self._compiled.step_row(delta.key, delta.old, delta.new)
        return self._stepped(delta.key, self._place(delta.old), self._place(delta.new))


class TrackedBoxTrees(BoxTrees):
    """All subscriptions that see the row are answered one by one: O(√N) each."""

    def _step(self, tree: MinKdTree, topic: bytes, old: Place | None, new: Place | None, ref: Ref) -> Found:
        exchange(tree, old, new, ref)

        def settled(place: Codes) -> Piece | None:
            return settle(tree, old, new, ref, place)

        return [], self._settled(self._seeing(topic, old, new), settled)


class TrackedBoxesSpace(BoxesSpace):
    """Of several ranges."""

    kind: ClassVar[str] = KIND
    trees: ClassVar[type[BoxTrees]] = TrackedBoxTrees
    is_tracked: ClassVar[bool] = True

    @property
    def rows(self) -> Rows:
        return self._rows

    def step(self, delta: Delta) -> NewExtreme | None:
        if is_same(delta.old, delta.new):
            return None
        return self._stepped(delta.key, self._place(delta.old), self._place(delta.new))
