"""The server's side of value notification: a B²-tree for each item somebody subscribed to.

A subscription is the point (radius, label) under the item's key; the tree gives the label, and may move others to make
room for it. What was told is known by the tree alone, for whole ranges of radii and arcs of labels at once: an event that
fires nobody costs O(1), and one that fires a million subscriptions as many steps as it has ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, cast

import msgspec

from cn.model.geometry import EVERYTHING, Box, Interval, Region
from prosem.index.radii.b2_tree import B2Tree
from prosem.index.radii.ba_tree_ends import Radius
from prosem.index.radii.bw_tree import Class
from prosem.index.radii.labels import Label
from prosem.types.base import Bound, Draft, Rows, Storage
from prosem.types.shared.point_space import PointSpace
from prosem.types.value.items import Fired, Items, Plain, on_a_copy
from prosem.values.model import Delta, PlaceMark
from prosem.values.wire import encode

DECISION = "decision"  # kind of the message that says which subscriptions a relaxed one concerns
RELAXED = "relaxed"  # kind of one that the edge decides on


class Plane(NamedTuple):
    """Radius and label."""

    int64: bool
    dimensions: int = 2


class NotifiedClass(NamedTuple):
    """An event on an item: whom it is told, and the new value."""

    topic: bytes
    region: Region
    value: Any


class ValueSpace(PointSpace):
    """The places of all subscriptions are kept here: the constants alone do not say the label.

    Relaxation sends the value to all radii up to the largest affected one, and the edge, which knows what was told, applies
    the condition: one range instead of many (the first of [ProSem thesis] 4.2.3's existing solutions). It wins where centres
    are fragmented, and loses where it wakes many for nothing. What the tree decided is logged all the same.
    """

    plans: tuple[str, ...] = ("reformulate", "enumerate", "relax")
    storage: ClassVar[Mapping[str, Storage]] = {DECISION: Storage.STORED_ONLY, RELAXED: Storage.SENT_ONLY}
    looks_back: ClassVar[bool] = True

    def __init__(self, items: Items, space_id: int, rows: Rows) -> None:
        super().__init__(Plane(items.int64), space_id)
        self._kind, self._rows = items, rows
        self._items: dict[bytes, B2Tree | Plain] = {}
        self._places: dict[int, Bound] = {}
        self._relabelled: dict[int, None] = {}

    @property
    def visits(self) -> int:
        trees = [item for item in list(self._items.values()) if isinstance(item, B2Tree)]
        return self.points.visits + sum(tree.visits for tree in trees)

    # -- places --------------------------------------------------------------------------------------------------
    def locate(self, sid: int) -> Bound:
        return self._places[sid]

    def told(self, bound: Bound) -> Any:
        """What the subscriptions at a place were told; of a place without a label the present value."""
        if bound.place is None:
            return None
        if len(bound.place) == 1:
            return self._kind.value(self._present(bound.topic))
        code, label = bound.place
        return self._kind.value(self._items[bound.topic].told(self._kind.radius(code), label))

    def mark(self, sid: int) -> PlaceMark:
        bound = self._places[sid]
        return PlaceMark(bound.topic, bound.place, msgspec.Raw(encode(self.told(bound))))

    def relabelled(self) -> list[int]:
        moved, self._relabelled = list(self._relabelled), {}
        return moved

    def _present(self, topic: bytes) -> Any:
        return self._kind.number(self._rows.get(self._kind.key(topic)))

    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        fresh: list[int] = []
        for sid, (topic, place, _) in zip(sids, bounds, strict=True):
            if place is None:
                self._places[sid] = Bound(topic, None)
                continue
            item = self._items.get(topic)
            if item is None:
                item = self._items[topic] = self._kind.tree(self._present(topic))
            label, moved = item.add(self._kind.radius(place[0]))
            if moved:
                self._insert(fresh)
                fresh = []
                self._relabel(topic, moved)
            self._places[sid] = Bound(topic, (place[0], label))
            fresh.append(sid)
        self._insert(fresh)

    def _insert(self, sids: Sequence[int]) -> None:
        super().add(sids, [self._places[sid] for sid in sids])

    def _relabel(self, topic: bytes, moved: Iterable[tuple[Radius, Label, Label]]) -> None:
        """All at once: a new label may be another one's old label."""
        found = []
        for radius, old, new in moved:
            code = self._kind.code(radius)
            box = (Interval(code, code), Interval(old, old))
            found += [(sid, (code, new)) for sid in self.points.find(topic, (box,)).tolist()]
        for sid, place in found:
            before, after = self._places[sid], Bound(topic, place)
            super().move(sid, before, after)
            self._places[sid] = after
            self._relabelled[sid] = None

    def move(self, sid: int, before: Bound, after: Bound) -> None:
        self.remove(sid, before)
        self.add([sid], [after])

    def remove(self, sid: int, bound: Bound) -> None:
        topic, place, _ = self._places.pop(sid)
        self._relabelled.pop(sid, None)
        if place is None:
            return
        item = self._items[topic]
        item.remove(self._kind.radius(place[0]), place[1])
        if not len(item):
            del self._items[topic]
        self.points.remove(sid, topic, place)

    def restore(self, sids: Sequence[int], bounds: Sequence[Bound], marks: Sequence[PlaceMark]) -> None:
        told: dict[bytes, dict[Radius, dict[Label, tuple[Any, int]]]] = {}
        for sid, mark in zip(sids, marks, strict=True):
            self._places[sid] = Bound(mark.topic, mark.place)
            if mark.place is None:
                continue
            code, label = cast("tuple[Any, Label]", mark.place)
            labels = told.setdefault(mark.topic, {}).setdefault(self._kind.radius(code), {})
            value, times = labels.get(label, (None, 0))
            labels[label] = (value if times else self._kind.read(bytes(mark.told)), times + 1)
        for topic, radii in told.items():
            states = [(radius, classes(labels)) for radius, labels in radii.items()]
            item = self._items[topic] = self._kind.tree(self._present(topic), states)
            if isinstance(item, Plain):
                for _ in range(sum(times for labels in radii.values() for _, times in labels.values())):
                    item.add(0)
        self._insert(sids)

    # -- events --------------------------------------------------------------------------------------------------
    def step(self, delta: Delta) -> NotifiedClass | None:
        if not self._items:
            return None
        topic = self._kind.topic(delta.key)
        item = self._items.get(topic)
        if item is None:
            return None
        region = tuple(self._boxes(item.event(self._kind.number(delta.new))))
        return (
            NotifiedClass(topic, region, None if delta.new is None else delta.new[self._kind.y])
            if region
            else None
        )

    def _boxes(self, fired: Iterable[Fired]) -> Iterable[Box]:
        code = self._kind.code
        for low, high, arcs in fired:
            radii = Interval(code(low), code(high))
            if arcs is None:
                yield radii, EVERYTHING
            else:
                for arc in arcs:
                    yield radii, Interval(*arc)

    @contextmanager
    def rehearsal(self, delta: Delta) -> Iterator[NotifiedClass | None]:
        """What an event would do to the item's tree."""
        with on_a_copy(self._items, self._kind.topic(delta.key)):
            yield self.step(delta)

    def regions(self, description: NotifiedClass) -> list[tuple[bytes, Region]]:
        return [(description.topic, description.region)]

    def drafts(self, description: NotifiedClass) -> list[Draft]:
        topic, region, value = description
        return [Draft("value", topic, region, payload=encode(value))]

    def messages(self, description: NotifiedClass, plan: str) -> list[Draft]:
        if plan != "relax":
            return super().messages(description, plan)
        topic, region, value = description
        (radii, _), payload = region[-1], encode(value)
        everybody = ((Interval(None, radii.high), EVERYTHING),)
        return [
            Draft(DECISION, topic, region, payload=payload),
            Draft(RELAXED, topic, everybody, payload=payload),
        ]

    def check(self) -> None:
        """The invariants, in O(N)."""
        self.points.check()
        placed = {(sid, *bound[:2]) for sid, bound in self._places.items() if bound.place is not None}
        assert set(self.points.items()) == placed, "the index holds the places"
        assert sum(map(len, self._items.values())) == len(placed), "each point is in its item's tree"
        for topic, item in self._items.items():
            assert len(item), "no item without a subscription"
            assert item.value == self._present(topic), "an item knows its value"
            if isinstance(item, B2Tree):
                item.check()


class FreeSpace(ValueSpace):
    """Of may and must: the tree's choice is told, which no edge could repeat."""

    plans: tuple[str, ...] = ("reformulate", "enumerate")


def classes(labels: dict[Label, tuple[Any, int]]) -> list[Class]:
    """The classes of one radius by what they were told, the labels of each from where its run begins, once around.

    >>> classes({1: (5, 1), 2: (3, 2), 7: (5, 1)})
    [(3, [(2, 2)]), (5, [(7, 1), (1, 1)])]
    """
    order = sorted(labels)
    runs: dict[Any, list[tuple[Label, int]]] = {}
    start = next((at for at in range(len(order)) if labels[order[at]][0] != labels[order[at - 1]][0]), 0)
    for label in order[start:] + order[:start]:
        value, times = labels[label]
        runs.setdefault(value, []).append((label, times))
    return sorted(runs.items(), key=lambda item: item[0]) if len(runs) > 1 else list(runs.items())
