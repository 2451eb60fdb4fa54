"""The server's side of value notification: a B²-tree for each item with subscriptions.

A subscription is the point (radius, label) under the item's key; the tree gives the label, and may move others to make
room for it. The last notified values are in the tree alone, for whole ranges of radii and arcs of labels at once: an event
that fires no subscription costs O(1), and one that fires a million subscriptions as many steps as it has ranges.

A subscription that was given another radius keeps its last notified value, which the tree may have no place for. It stands
beside the tree then (`single`), under a topic of its own, and its messages are addressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, cast

import msgspec

from cn.model.geometry import EVERYTHING, Box, Interval, Region
from prosem.index.radii.b2_tree import B2Tree, Relabelled
from prosem.index.radii.ba_tree_ends import Radius
from prosem.index.radii.bw_tree import classes
from prosem.index.radii.labels import ORIGIN, Label
from prosem.types.base import Bound, Choose, Draft, Outcome, Rows, Storage, draft_of
from prosem.types.shared.point_space import PointSpace
from prosem.types.value.items import Fired, Items, Plain, on_a_copy
from prosem.types.value.single import BesideItems, SingleTold
from prosem.values.model import Delta, PlaceMark
from prosem.values.undo import NO_UNDO
from prosem.values.wire import encode, is_same

DECISION = "decision"  # kind of the message that says which subscriptions a relaxed one concerns
RELAXED = "relaxed"  # kind of one that the edge decides on
_new = tuple.__new__  # a third quicker than calling the class of a named tuple
SINGLE = b"+"  # begins the topic of a subscription beside the tree; no key's topic does


class Plane(NamedTuple):
    """Radius and label."""

    int64: bool
    dimensions: int = 2


class NotifiedClass(NamedTuple):
    """An event on an item: the affected subscriptions, and the new value. `single` are those beside the tree."""

    topic: bytes
    region: Region
    value: Any
    single: tuple[int, ...] = ()


class ValueSpace(BesideItems, PointSpace):
    """The places of all subscriptions are kept here: the constants alone do not say the label.

    Relaxation sends the value to all radii up to the largest affected one, and the edge, which has the last notified value,
    applies the condition: one range instead of many (the first of [ProSem thesis] 4.2.3's existing solutions). It wins where
    centres are fragmented, and loses where it wakes many for nothing. What the tree decided is logged all the same.
    """

    plans: tuple[str, ...] = ("reformulate", "enumerate", "relax")
    storage: ClassVar[Mapping[str, Storage]] = {DECISION: Storage.STORED_ONLY, RELAXED: Storage.SENT_ONLY}
    looks_back: ClassVar[bool] = True

    def __init__(self, items: Items, space_id: int, rows: Rows) -> None:
        super().__init__(Plane(items.int64), space_id)
        self._kind, self._rows, self._undo = items, rows, NO_UNDO
        self._items: dict[bytes, B2Tree | Plain] = {}
        self._single = SingleTold(items)  # those beside the trees
        self._places: dict[int, Bound] = {}
        self._relabelled: dict[int, None] = {}

    @property
    def visits(self) -> int:
        trees = [item for item in list(self._items.values()) if isinstance(item, B2Tree)]
        return self.points.visits + sum(tree.visits for tree in trees)

    # -- places --------------------------------------------------------------------------------------------------
    def locate(self, sid: int) -> Bound:
        return self._places[sid]

    def last_notified(self, bound: Bound) -> Any:
        """The last notified value of the subscriptions at a place; of a place without a label the present value."""
        if bound.place is None:
            return None
        if len(bound.place) == 1:
            return self._kind.value(self._present(bound.topic))
        if bound.topic.startswith(SINGLE):
            sid = int(bound.topic[len(SINGLE) :])
            (topic,) = self._single.topics(sid)
            return self._kind.value(self._single.items[topic].last_notified(sid))
        code, label = bound.place
        return self._kind.value(self._items[bound.topic].last_notified(self._kind.radius(code), label))

    def mark(self, sid: int) -> PlaceMark:
        bound = self._places[sid]
        return PlaceMark(bound.topic, bound.place, msgspec.Raw(encode(self.last_notified(bound))))

    def relabelled(self) -> list[int]:
        moved, self._relabelled = list(self._relabelled), {}
        return moved

    def _present(self, topic: bytes) -> Any:
        return self._kind.number(self._rows.get(self._kind.key(topic)))

    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        fresh: list[int] = []
        added: list[tuple[int, Relabelled]] = []  # with what each moved
        self._undo.add(self._take_out, added)
        for sid, (topic, place, *_) in zip(sids, bounds, strict=True):
            if place is None:
                self._places[sid] = Bound(topic, None)
                added.append((sid, []))
                continue
            item = self._items.get(topic)
            if item is None:
                item = self._items[topic] = self._kind.tree(self._present(topic), [], self._undo)
            label, moved = item.add(self._kind.radius(place[0]))
            if moved:
                self._insert(fresh)
                fresh = []
                self._relabel(topic, moved)
            self._places[sid] = Bound(topic, (place[0], label))
            fresh.append(sid)
            added.append((sid, moved))
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

    def _take_out(self, added: Sequence[tuple[int, Relabelled]]) -> None:
        """Undo an `add`: those that it moved return to their labels."""
        for sid, moved in reversed(added):
            topic = self._places[sid].topic
            self.remove(sid, self._places[sid])
            if moved:
                back = [(radius, new, old) for radius, old, new in moved]
                item = self._items[topic]
                assert isinstance(item, B2Tree)
                item.rename(moved[0][0], [(new, old) for _, new, old in back])
                self._relabel(topic, back)
                self._relabelled.clear()

    def _put_back(self, sid: int, bound: Bound, last_notified: Any) -> None:
        """Undo a `remove`."""
        code, label = cast("tuple[Any, Label]", bound.place)
        self._items[bound.topic].put_back(self._kind.radius(code), label, last_notified)
        self._places[sid] = bound
        self._insert([sid])

    def move(self, sid: int, before: Bound, after: Bound) -> None:
        self.remove(sid, before)
        self.add([sid], [after])

    def remove(self, sid: int, bound: Bound) -> None:
        self._undo.keep(self._places, sid)
        topic, place, *_ = placed = self._places.pop(sid)
        self._relabelled.pop(sid, None)
        if place is None:
            return
        if self._single.remove(sid):
            return
        item, radius = self._items[topic], self._kind.radius(place[0])
        self._undo.add(self._put_back, sid, placed, item.last_notified(radius, place[1]))
        item.remove(radius, place[1])
        if not len(item):
            self._undo.keep(self._items, topic)
            del self._items[topic]
        self.points.remove(sid, topic, place)

    def retune(self, sid: int, bound: Bound) -> None:
        """Another radius: it stays in the tree if its last notified value is the present one, else it stands beside it."""
        place = self._places[sid]
        if place.place is None or bound.place is None or place.place[0] == bound.place[0]:
            return
        last_notified, present = self.last_notified(place), self._present(bound.topic)
        self.remove(sid, place)
        if is_same(last_notified, self._kind.value(present)):
            self.add([sid], [bound])
        else:
            self._add_single(sid, bound, self._kind.number_of(last_notified))

    def _add_single(self, sid: int, bound: Bound, last_notified: Any) -> None:
        assert bound.place is not None
        self._single.add(bound.topic, sid, self._kind.radius(bound.place[0]), last_notified)
        self._undo.keep(self._places, sid)
        self._places[sid] = Bound(SINGLE + b"%d" % sid, (bound.place[0], ORIGIN))

    def restore(self, sids: Sequence[int], bounds: Sequence[Bound], marks: Sequence[PlaceMark]) -> None:
        items: dict[bytes, dict[Radius, dict[Label, tuple[Any, int]]]] = {}
        for sid, bound, mark in zip(sids, bounds, marks, strict=True):
            self._places[sid] = Bound(mark.topic, mark.place)
            if mark.place is None:
                continue
            if mark.topic.startswith(SINGLE):
                self._add_single(sid, bound, self._kind.read(bytes(mark.last_notified)))
                continue
            code, label = cast("tuple[Any, Label]", mark.place)
            labels = items.setdefault(mark.topic, {}).setdefault(self._kind.radius(code), {})
            value, times = labels.get(label, (None, 0))
            labels[label] = (value if times else self._kind.read(bytes(mark.last_notified)), times + 1)
        for topic, radii in items.items():
            states = [(radius, classes(labels)) for radius, labels in radii.items()]
            item = self._items[topic] = self._kind.tree(self._present(topic), states, self._undo)
            if isinstance(item, Plain):
                for _ in range(sum(times for labels in radii.values() for _, times in labels.values())):
                    item.add(0)
        self._insert([sid for sid in sids if sid not in self._single])

    # -- events --------------------------------------------------------------------------------------------------
    def take(self, deltas: Sequence[Delta], choose: Choose, among: Sequence[Delta] = ()) -> Iterator[Outcome]:
        self._undo.add(self._take_back, deltas)
        return super().take(deltas, choose, among)

    def _take_back(self, deltas: Sequence[Delta]) -> None:
        """Undo a request, after its trees are what they were before it: they have the values of the rows again."""
        for delta in reversed(deltas):
            item = self._items.get(self._kind.topic(delta.key))
            if item is not None:
                item.value = self._kind.number(delta.old)

    def step(self, delta: Delta) -> NotifiedClass | None:
        if not self._places:
            return None
        topic = self._kind.topic(delta.key)
        item, single = self._items.get(topic), self._single.items.get(topic)
        if item is None and single is None:
            return None
        number = self._kind.number(delta.new)
        region = () if item is None else tuple(self._boxes(item.event(number)))
        fired = () if single is None else tuple(sid for sid, _ in self._single.event(topic, number))
        if not region and not fired:
            return None
        value = None if delta.new is None else delta.new[self._kind.y]
        return _new(NotifiedClass, (topic, region, value, fired))

    def _boxes(self, fired: Iterable[Fired]) -> Iterable[Box]:
        code = self._kind.code
        for low, high, arcs in fired:
            first = code(low)
            radii = _new(Interval, (first, first if low == high else code(high), False, False))
            if arcs is None:
                yield radii, EVERYTHING
            else:
                for arc in arcs:
                    yield radii, Interval(*arc)

    @contextmanager
    def rehearsal(self, delta: Delta) -> Iterator[NotifiedClass | None]:
        """What an event would do to the item's tree, and to what stands beside it."""
        topic = self._kind.topic(delta.key)
        with on_a_copy(self._items, topic), on_a_copy(self._single.items, topic):
            yield self.step(delta)

    def regions(self, description: NotifiedClass) -> list[tuple[bytes, Region]]:
        return [(description.topic, description.region)] if description.region else []

    def affected(self, description: NotifiedClass) -> int:
        return super().affected(description) + len(description.single)

    def drafts(self, description: NotifiedClass) -> list[Draft]:
        topic, region, value, single = description
        payload = encode(value)
        found = [draft_of("value", topic, region, payload)] if region else []
        return [*found, Draft("value", targets=single, payload=payload)] if single else found

    def messages(self, description: NotifiedClass, plan: str) -> list[Draft]:
        topic, region, value, single = description
        if plan != "relax" or not region:
            return super().messages(description, plan)
        (radii, _), payload = region[-1], encode(value)
        up_to_radius = ((Interval(None, radii.high), EVERYTHING),)
        found = [
            draft_of(DECISION, topic, region, payload),
            draft_of(RELAXED, topic, up_to_radius, payload),
        ]
        return [*found, Draft("value", targets=single, payload=payload)] if single else found

    def check(self) -> None:
        """The invariants, in O(N)."""
        self.points.check()
        placed = {
            (sid, *bound[:2])
            for sid, bound in self._places.items()
            if bound.place is not None and sid not in self._single
        }
        assert set(self.points.items()) == placed, "the index holds the places"
        assert sum(map(len, self._items.values())) == len(placed), "each point is in its item's tree"
        for topic, item in self._items.items():
            assert len(item), "no item without a subscription"
            assert item.value == self._present(topic), "an item knows its value"
            if isinstance(item, B2Tree):
                item.check()
        self._single.check()


class FreeSpace(ValueSpace):
    """Of may and must: the tree's choice is sent, which no edge could repeat."""

    plans: tuple[str, ...] = ("reformulate", "enumerate")
