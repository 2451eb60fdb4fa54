"""The server's side of value notification of many items: points of everybody, and the epochs of each item that moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from cn.match.point_index import PointIndex
from cn.model.geometry import EVERYTHING, Box, Interval, Region
from cn.model.network import Space as NetworkSpace
from prosem.index.radii.ba_tree_ends import Radius
from prosem.index.radii.epochs import Birth, Epochs, Piece, more
from prosem.index.radii.radius_block import RadiusBlocks
from prosem.index.radii.radius_pairs import RadiusPairs
from prosem.types.base import Bound, Draft, Rows
from prosem.types.shared.sketched import Sketched
from prosem.types.value.items import Items, on_a_copy
from prosem.types.value.many_places import ALL, Place, Selected, read, written
from prosem.values.model import Delta, JsonObject, PlaceMark
from prosem.values.wire import decode, encode, is_same

ANYBODY: Region = ((EVERYTHING, EVERYTHING),)


class NotifiedItems(NamedTuple):
    """An event on an item: the new value, and the regions of those who were told each of the values before."""

    topic: bytes
    value: Any
    before: list[tuple[Any, Region]]


class ManySpace(Sketched):
    """Who selects all rows is one point; who lists some is one under each of their keys.

    An event costs what it does in the item's `Epochs`, and a message for each value that was told before: with regions for
    those who select all rows, with names for the others that are told. A new subscription is a point for each key it
    lists, or one; no item learns of it before its next event. Of an item whose present value was told to everybody
    nothing is kept.
    """

    plans: tuple[str, ...] = ("reformulate", "enumerate")
    looks_back: ClassVar[bool] = False

    def __init__(self, items: Items, space_id: int, rows: Rows) -> None:
        self.network = NetworkSpace(space_id, 2, items.int64)
        super().__init__(PointIndex(2, items.int64))
        self._kind, self._rows = items, rows
        self._places: dict[int, Place] = {}
        self._births: Birth = 0
        self._last: dict[bytes, Birth] = {}  # of those that a topic finds
        self._count: Counter[bytes] = Counter()
        self._uses: Counter[Radius] = Counter()
        self._radii = self._order(())  # all that are used, and some that were
        self._items: dict[bytes, Epochs] = {}
        self._changed: dict[bytes, None] = {}
        self._kept: set[bytes] = set()  # the items of which something is stored
        self._visits = 0

    @property
    def visits(self) -> int:
        return self.points.visits + self._visits

    def _order(self, radii: Iterable[Radius]) -> RadiusBlocks:
        kind = RadiusPairs if self._kind.form == "may" else RadiusBlocks
        return kind(radii)

    # -- subscriptions -------------------------------------------------------------------------------------------
    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        """They come at one moment; what was told before it concerns none of them."""
        self._births += 1
        self._put(sids, bounds, [self._births] * len(sids))

    def _put(self, sids: Sequence[int], bounds: Sequence[Bound], births: Sequence[Birth]) -> None:
        entries: list[tuple[int, bytes, tuple[Any, Birth]]] = []
        for sid, bound, birth in zip(sids, bounds, births, strict=True):
            selected: Any = bound.place
            place = self._places[sid] = Place(selected.topics, self._kind.code(selected.radius), birth)
            self._use(selected.radius)
            for topic in place.found_by:
                self._count[topic] += 1
                self._last[topic] = max(birth, self._last.get(topic, 0))
                entries.append((sid, topic, place.point))
        if entries:
            numbers, topics, points = zip(*entries, strict=True)
            self.points.insert_many(numbers, topics, points)

    def _use(self, radius: Radius) -> None:
        """A radius more; those that nobody has any more are forgotten when they are most of all."""
        self._uses[radius] += 1
        if len(self._radii) > 2 * len(self._uses) + 64:
            self._radii = self._order(self._uses)
        else:
            self._radii = more(self._radii, radius)

    def move(self, sid: int, before: Bound, after: Bound) -> None:
        self.remove(sid, before)
        self.add([sid], [after])

    def remove(self, sid: int, bound: Bound) -> None:
        place = self._places.pop(sid)
        for topic in place.found_by:
            self.points.remove(sid, topic, place.point)
            self._count[topic] -= 1
            if not self._count[topic]:
                del self._count[topic], self._last[topic]
                self._drop(topic)
        radius = self._kind.radius(place.code)
        self._uses[radius] -= 1
        if not self._uses[radius]:
            del self._uses[radius]

    def _drop(self, topic: bytes) -> None:
        """Nobody selects these items any more, except those that others list."""
        for item in list(self._items) if topic == ALL else [topic]:
            if item in self._items and not self._is_selected(item):
                del self._items[item]
                self._changed[item] = None

    def _is_selected(self, topic: bytes) -> bool:
        return ALL in self._count or topic in self._count

    # -- answers -------------------------------------------------------------------------------------------------
    def told(self, bound: Bound) -> list[JsonObject]:
        """The items of a subscription with what it was told; of a mere selection with their present values."""
        if isinstance(bound.place, Selected):
            topics, radius, birth = bound.place.topics, bound.place.radius, self._births + 1
        else:
            topics = None if bound.topic == ALL else self._places[int(bound.topic[1:])].topics
            code, birth = bound.place or (0, 0)
            radius = self._kind.radius(code)
        kind, found = self._kind, {}
        for topic, present in self._present(topics):
            item = self._items.get(topic)
            found[topic] = present if item is None else item.told(radius, birth)
        names = kind.table.primary_key
        return [
            {"key": dict(zip(names, kind.key(topic), strict=True)), "value": kind.value(found[topic])}
            for topic in sorted(found, key=decode)
        ]

    def _present(self, topics: tuple[bytes, ...] | None) -> list[tuple[bytes, Any]]:
        """The selected items that have a value."""
        kind, rows = self._kind, self._rows
        if topics is None:
            found = [(kind.topic(key), kind.number(row)) for key, row in rows.items()]
        else:
            found = [(topic, kind.number(rows.get(kind.key(topic)))) for topic in topics]
        return [(topic, number) for topic, number in found if number is not None]

    # -- marks and kept items ------------------------------------------------------------------------------------
    def locate(self, sid: int) -> Bound:
        """Who lists keys is found by name only, and stands alone under a topic that no message has."""
        place = self._places[sid]
        return Bound(ALL if place.topics is None else b"+%d" % sid, place.point)

    def mark(self, sid: int) -> PlaceMark:
        return PlaceMark(*self.locate(sid)[:2], is_birth=True)

    def relabelled(self) -> list[int]:
        return []

    def restore(self, sids: Sequence[int], bounds: Sequence[Bound], marks: Sequence[PlaceMark]) -> None:
        births = [int(mark.place[1]) for mark in marks if mark.place is not None]
        self._put(sids, bounds, births)
        self._births = max([self._births, *births])

    def changed_items(self) -> dict[bytes, bytes | None]:
        """The items that changed since this was last asked; None: everybody was told its present value."""
        changed, self._changed = self._changed, {}
        found: dict[bytes, bytes | None] = {}
        for topic in changed:
            item = self._items.get(topic)
            told = None if item is None else written(self._kind, topic, item)
            if told is not None or topic in self._kept:
                found[topic] = told
                (self._kept.discard if told is None else self._kept.add)(topic)
        return found

    def restore_items(self, stored: Iterable[bytes]) -> None:
        """Bring kept items back; the subscriptions are there."""
        kind = self._kind
        for told in stored:
            topic, state = read(kind, told)
            self._kept.add(topic)
            number = kind.number(self._rows.get(kind.key(topic)))
            if number is None or not self._is_selected(topic):
                self._changed[topic] = None
                continue
            item = Epochs.from_state(kind.ends, number, state, self._radii)
            self._births = max(self._births, item.stops[-1])
            if item.is_plain:  # those who knew more have gone
                self._changed[topic] = None
            else:
                self._items[topic] = item

    # -- events --------------------------------------------------------------------------------------------------
    def step(self, delta: Delta) -> NotifiedItems | None:
        if not self._places:
            return None
        kind = self._kind
        topic, old, new = kind.topic(delta.key), kind.number(delta.old), kind.number(delta.new)
        if is_same(old, new) or not self._is_selected(topic):
            return None
        if old is None or kind.measure is None:
            before: dict[Any, list[Box]] = {old: list(ANYBODY)}
        elif new is None:
            before = self._vanish(topic, old)
        else:
            before = self._boxes(self._fire(topic, old, new))
        if not before:
            return None
        value = None if delta.new is None else delta.new[kind.y]
        return NotifiedItems(topic, value, [(told, tuple(boxes)) for told, boxes in before.items()])

    def _fire(self, topic: bytes, old: Any, new: Any) -> list[Piece]:
        item = self._items.get(topic)
        if item is None:
            item = self._items[topic] = Epochs(self._kind.ends, old)
        visits, stop = item.visits, item.stops[-1:]
        birth = max(self._last.get(ALL, 0), self._last.get(topic, 0))
        pieces = item.event(new, birth, self._radii)
        self._visits += item.visits - visits
        is_plain = item.is_plain
        if pieces or is_plain or stop != item.stops[-1:]:
            self._changed[topic] = None
        if is_plain:
            del self._items[topic]
        return pieces

    def _vanish(self, topic: bytes, old: Any) -> dict[Any, list[Box]]:
        """A row goes: everybody is told, after whatever they were told before."""
        item = self._items.pop(topic, None)
        if item is None:
            return {old: list(ANYBODY)}
        self._changed[topic] = None
        boxes = self._boxes(item.everybody())
        boxes.setdefault(old, []).append((EVERYTHING, Interval(item.stops[-1] + 1, None)))
        return boxes

    def _boxes(self, pieces: Iterable[Piece]) -> dict[Any, list[Box]]:
        """By what was told before; epochs that follow one another and are told of the same radii share a box."""
        code = self._kind.code
        spans: dict[tuple[Any, Any, Any], list[tuple[Birth, Birth]]] = {}
        for low, high, first, last, before in pieces:
            births = spans.setdefault((before, low, high), [])
            if births and births[-1][1] + 1 == first:
                births[-1] = births[-1][0], last
            else:
                births.append((first, last))
        boxes: dict[Any, list[Box]] = {}
        for (before, low, high), births in spans.items():
            radii = Interval(code(low), code(high))
            boxes.setdefault(before, []).extend((radii, Interval(*span)) for span in births)
        return boxes

    @contextmanager
    def rehearsal(self, delta: Delta) -> Iterator[NotifiedItems | None]:
        """What an event would do to what is known of the item."""
        changed = dict(self._changed)
        try:
            with on_a_copy(self._items, self._kind.topic(delta.key)):
                yield self.step(delta)
        finally:
            self._changed = changed

    def regions(self, description: NotifiedItems) -> list[tuple[bytes, Region]]:
        return [(topic, region) for _, region in description.before for topic in (ALL, description.topic)]

    def messages(self, description: NotifiedItems, plan: str) -> list[Draft]:
        topic, value, before = description
        kind = self._kind
        key = encode(dict(zip(kind.table.primary_key, kind.key(topic), strict=True)))
        now, drafts = encode(value), []
        for told, region in before:
            payload = b'{"key":%b,"value":%b,"previous":%b}' % (key, now, encode(kind.value(told)))
            named = self.points.find(topic, region).tolist()
            if plan == "enumerate":
                named += self.points.find(ALL, region).tolist()
            elif self._is_anybody(region):
                drafts.append(Draft("item", ALL, region, payload=payload))
            if named:
                drafts.append(Draft("item", topic, targets=tuple(named), payload=payload))
        return drafts

    def _is_anybody(self, region: Region) -> bool:
        """Whether somebody who selects all rows is told; radii are somebody's, so only epochs can be empty."""
        if len(self._count) == 1 and ALL in self._count:
            births = region[0][1]
            if not births.low and (births.high is None or births.high >= self._last[ALL]):
                return True
        return self.points.any(ALL, region)

    def check(self) -> None:
        """The invariants, in O(N)."""
        self.points.check()
        entries = {(sid, t, place.point) for sid, place in self._places.items() for t in place.found_by}
        assert set(self.points.items()) == entries, "the index holds the places"
        assert self._count == Counter(topic for _, topic, _ in entries), "topics are counted"
        codes = Counter(place.code for place in self._places.values())
        assert {self._kind.code(radius): n for radius, n in self._uses.items()} == codes, "radii are counted"
        assert set(self._uses) <= set(self._radii), "all radii are known"
        for topic, item in self._items.items():
            item.check()
            assert self._is_selected(topic), "no item without a subscription"
            assert item.value == self._kind.number(self._rows[self._kind.key(topic)]), "its value is known"
            assert not item.is_plain, "there is something to remember"
            assert item.stops[-1] <= self._births, "births are numbered on"
