"""The points of subscriptions to many items: where each stands, under which topics it is found, and all radii."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from itertools import chain
from typing import Any, cast

from cn.match.kernels import compiled, compiled_over, point_index
from cn.model.geometry import Region
from cn.model.network import Space as NetworkSpace
from prosem.index.radii.ba_tree_ends import Radius
from prosem.index.radii.epochs import Birth, Notified, more
from prosem.index.radii.packed_radii import PackedRadii
from prosem.index.radii.radius_block import RadiusBlocks
from prosem.index.radii.radius_pairs import RadiusPairs
from prosem.types.base import Bound
from prosem.types.shared.sketched import Sketched
from prosem.types.value.items import Items
from prosem.types.value.many_places import ALL, SINGLE, Place, Selected
from prosem.values.model import PlaceMark
from prosem.values.undo import NO_UNDO, UndoLog


class ManyPoints(Sketched):
    """One that selects all rows is one point; one that lists some is one under each of their keys."""

    def __init__(self, items: Items, space_id: int) -> None:
        self.network = NetworkSpace(space_id, 2, items.int64)
        super().__init__(point_index(2, items.int64))
        self._is_compiled = compiled_over(self.points, items.int64) is not None
        self._kind = items
        self._undo: UndoLog = NO_UNDO
        self._places: dict[int, Place] = {}
        self._births: Birth = 0
        self._last: dict[bytes, Birth] = {}  # of those that a topic finds
        self._count: Counter[bytes] = Counter()
        self._uses: Counter[Radius] = Counter()
        self._radii = self._order(())  # all that are used, and some that were

    def _order(self, radii: Iterable[Radius]) -> RadiusBlocks:
        if self._kind.form == "may":
            return RadiusPairs(radii)
        measure = self._kind.measure
        if measure is not None and compiled() is not None:
            return PackedRadii("d" if measure.is_double else "q", radii)
        return RadiusBlocks(radii)

    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        """They come at one moment; what was notified before it concerns none of them."""
        self._put(sids, bounds, [self._next_birth()] * len(sids))

    def _next_birth(self) -> Birth:
        self._undo.keep_attribute(self, "_births")
        self._births += 1
        return self._births

    def _put(
        self,
        sids: Sequence[int],
        bounds: Sequence[Bound],
        births: Sequence[Birth],
        single: Container[int] = (),
    ) -> None:
        entries: list[tuple[int, bytes, tuple[Any, Birth]]] = []
        last: dict[bytes, Birth | None] = {}  # of each topic, before
        self._undo.keep_attribute(self, "_radii")
        self._undo.add(self._unput, sids, last)
        for sid, bound, birth in zip(sids, bounds, births, strict=True):
            selected: Any = bound.place
            code = self._kind.code(selected.radius)
            place = self._places[sid] = Place(selected.topics, code, birth, sid in single)
            self._use(selected.radius)
            for topic in place.found_by:
                self._count[topic] += 1
                before = self._last.get(topic)
                last.setdefault(topic, before)
                self._last[topic] = max(birth, before or 0)
                entries.append((sid, topic, place.point))
        if entries:
            numbers, topics, points = zip(*entries, strict=True)
            self.points.insert_many(numbers, topics, points)

    def _use(self, radius: Radius) -> None:
        """A radius more; unused ones are forgotten when they are most of all."""
        self._uses[radius] += 1
        if len(self._radii) > 2 * len(self._uses) + 64:
            self._radii = self._order(self._uses)
        else:
            self._radii = more(self._radii, radius)

    def _unput(self, sids: Sequence[int], last: dict[bytes, Birth | None]) -> None:
        """Take back that subscriptions were put."""
        for sid in sids:
            self._take_out(sid)
        self._last |= {topic: birth for topic, birth in last.items() if birth is not None}

    def _put_back(self, sid: int, place: Place, last: dict[bytes, Birth]) -> None:
        """Take back that a subscription was taken out."""
        bound = Bound(b"", Selected(place.topics, self._kind.radius(place.code)))
        self._put([sid], [bound], [place.birth], {sid} if place.is_single else ())
        self._last |= last

    def _take_out(self, sid: int) -> list[bytes]:
        """One fewer; the topics under which no subscription is left."""
        place, left = self._places.pop(sid), []
        self._undo.add(self._put_back, sid, place, {topic: self._last[topic] for topic in place.found_by})
        for topic in place.found_by:
            self.points.remove(sid, topic, place.point)
            self._count[topic] -= 1
            if not self._count[topic]:
                del self._count[topic], self._last[topic]
                left.append(topic)
        radius = self._kind.radius(place.code)
        self._uses[radius] -= 1
        if not self._uses[radius]:
            del self._uses[radius]
        return left

    def _is_selected(self, topic: bytes) -> bool:
        return ALL in self._count or topic in self._count or SINGLE in self._count

    def _is_populated(self, region: Region) -> bool:
        """Whether the region holds a subscription to all rows; every radius is in use, so only epochs can be empty."""
        if len(self._count) == 1 and ALL in self._count:
            births = region[0][1]
            if not births.low and (births.high is None or births.high >= self._last[ALL]):
                return True
        return self.points.any(ALL, region)

    def _named(self, notified: Notified, topics: Sequence[bytes]) -> list[tuple[Any, tuple[int, ...]]]:
        """Those that are found under these topics, by their last notified values."""
        if self._is_compiled and not isinstance(notified, list):
            found: list[tuple[Any, tuple[int, ...]]] = cast(Any, notified).named(self.points, topics)
            return found
        find = self.points.find
        by_value = [(value, [find(one, region).tolist() for one in topics]) for value, region in notified]
        return [(value, ids) for value, parts in by_value if (ids := tuple(chain.from_iterable(parts)))]

    # -- places --------------------------------------------------------------------------------------------------
    def locate(self, sid: int) -> Bound:
        """One that is only named stands alone under a topic that no message has."""
        place = self._places[sid]
        return Bound(ALL if place.found_by == (ALL,) else b"+%d" % sid, place.point)

    def mark(self, sid: int) -> PlaceMark:
        return PlaceMark(*self.locate(sid)[:2], is_birth=True)

    def relabelled(self) -> list[int]:
        return []

    def restore(self, sids: Sequence[int], bounds: Sequence[Bound], marks: Sequence[PlaceMark]) -> None:
        births = [int(mark.place[1]) for mark in marks if mark.place is not None]
        single = {sid for sid, mark in zip(sids, marks, strict=True) if mark.topic != ALL}
        self._put(sids, bounds, births, single)
        self._births = max([self._births, *births])

    def _check_points(self) -> None:
        """The invariants, in O(N)."""
        self.points.check()
        entries = {(sid, t, place.point) for sid, place in self._places.items() for t in place.found_by}
        assert set(self.points.items()) == entries, "the index holds the places"
        assert self._count == Counter(topic for _, topic, _ in entries), "topics are counted"
        codes = Counter(place.code for place in self._places.values())
        assert {self._kind.code(radius): n for radius, n in self._uses.items()} == codes, "radii are counted"
        assert set(self._uses) <= set(self._radii), "all radii are known"
