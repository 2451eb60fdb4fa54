"""The server's side of value notification of many items: all points, and the epochs of each item that moved.

A subscription that was given another radius is born again, but keeps its last notified value of each item. Where that is
not the present value, the item remembers it for this subscription alone (`single`), and messages name the subscription.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, cast

from cn.model.geometry import EVERYTHING, Interval, Region
from prosem.index.radii.ba_tree_scan import UnfitError
from prosem.index.radii.epochs import Birth, ItemEpochs, Notified, in_python, restored
from prosem.types.base import Bound, Draft, Rows
from prosem.types.value.items import Items, on_a_copy
from prosem.types.value.many_places import ALL, SINGLE, Place, Selected, by_key, read, written
from prosem.types.value.many_points import ManyPoints
from prosem.types.value.single import BesideItems, SingleTold
from prosem.values.model import Delta, JsonObject, Key
from prosem.values.wire import encode, is_same

_new = tuple.__new__  # a third quicker than calling the class of a named tuple
NONE: frozenset[int] = frozenset()
WHOLE_PLANE: Region = ((EVERYTHING, EVERYTHING),)


class NotifiedItems(NamedTuple):
    """An event on an item: the new value, and the regions of those that were last notified of each earlier value.

    `apart` are in no region, wherever they stand; those of them that are notified are in `single`, with the value that each
    was notified of before.
    """

    key: Key
    topic: bytes
    value: Any
    before: Notified
    single: list[tuple[int, Any]]
    apart: frozenset[int] = NONE


class ManySpace(BesideItems, ManyPoints):
    """The points of all subscriptions, and what items remember of them.

    An event costs what it does in the item's `Epochs`, and a message for each value notified before: with regions for
    those that select all rows, with names for the other affected ones. A new subscription is a point for each key it
    lists, or one; no item learns of it before its next event. Of an item of whose present value all were notified
    nothing is kept.
    """

    plans: tuple[str, ...] = ("reformulate", "enumerate")
    looks_back: ClassVar[bool] = False

    def __init__(self, items: Items, space_id: int, rows: Rows) -> None:
        super().__init__(items, space_id)
        self._rows = rows
        self._items: dict[bytes, ItemEpochs] = {}
        self._single = SingleTold(items)
        self._changed: dict[bytes, None] = {}
        self._kept: set[bytes] = set()  # the items of which something is stored
        self._visits = 0
        self._saved: tuple[int, set[bytes]] = (
            -1,
            set(),
        )  # a batch, and the items whose copies its undo log has

    @property
    def visits(self) -> int:
        return self.points.visits + self._visits

    def _save(self, topic: bytes) -> None:
        """An item is about to change: record what is known of it, once per batch. O(its epochs)."""
        undo = self._undo
        if not undo.is_on:
            return
        if self._saved[0] != undo.number:
            self._saved = undo.number, set()
        if topic not in self._saved[1]:
            self._saved[1].add(topic)
            item = self._items.get(topic)
            undo.add(self._restore, topic, None if item is None else item.copy())

    def _restore(self, topic: bytes, item: ItemEpochs | None) -> None:
        if item is None:
            self._items.pop(topic, None)
        else:
            self._items[topic] = item

    # -- subscriptions -------------------------------------------------------------------------------------------
    def retune(self, sid: int, bound: Bound) -> None:
        """Another radius: its last notified values of items that have moved are kept for it alone. O(items that moved)."""
        selected, place = cast(Selected, bound.place), self._places[sid]
        if self._kind.code(selected.radius) == place.code:
            return
        topics, own = {*self._items, *self._single.topics(sid)}, {}
        for topic, present in self._present(topics if place.topics is None else topics & {*place.topics}):
            last_notified = self._last_notified(topic, present, place, sid)
            if not is_same(last_notified, present):
                own[topic] = last_notified
        self.remove(sid, bound)
        self._put([sid], [bound], [self._next_birth()], {sid} if own else ())
        for topic, last_notified in own.items():
            self._single.add(topic, sid, selected.radius, last_notified)
            self._changed[topic] = None

    def remove(self, sid: int, bound: Bound) -> None:
        self._changed.update(dict.fromkeys(self._single.remove(sid)))
        for topic in self._take_out(sid):
            self._drop(topic)

    def _drop(self, topic: bytes) -> None:
        """No subscription selects these items any more, except those that others list."""
        for item in list(self._items) if topic in (ALL, SINGLE) else [topic]:
            if item in self._items and not self._is_selected(item):
                self._save(item)
                del self._items[item]
                self._changed[item] = None

    # -- answers -------------------------------------------------------------------------------------------------
    def last_notified(self, bound: Bound) -> list[JsonObject]:
        """The items of a subscription with its last notified values; of a mere selection with their present values."""
        kind, sid = self._kind, -1
        if isinstance(bound.place, Selected):
            place = Place(bound.place.topics, kind.code(bound.place.radius), self._births + 1)
        elif bound.topic == ALL:
            place = Place(None, *cast("tuple[Any, Birth]", bound.place))
        else:
            sid = int(bound.topic[1:])
            place = self._places[sid]
        found = {
            topic: self._last_notified(topic, value, place, sid)
            for topic, value in self._present(place.topics)
        }
        names = kind.table.primary_key
        return [
            {"key": dict(zip(names, kind.key(topic), strict=True)), "value": kind.value(found[topic])}
            for topic in sorted(found, key=by_key)
        ]

    def _last_notified(self, topic: bytes, present: Any, place: Place, sid: int) -> Any:
        """The last notified value of a subscription to an item that has this value now."""
        if self._single.holds(topic, sid):
            return self._single.items[topic].last_notified(sid)
        item = self._items.get(topic)
        return present if item is None else item.last_notified(self._kind.radius(place.code), place.birth)

    def _present(self, topics: Iterable[bytes] | None) -> list[tuple[bytes, Any]]:
        """The selected items that have a value."""
        kind, rows = self._kind, self._rows
        if topics is None:
            found = [(kind.topic(key), kind.number(row)) for key, row in rows.items()]
        else:
            found = [(topic, kind.number(rows.get(kind.key(topic)))) for topic in topics]
        return [(topic, number) for topic, number in found if number is not None]

    # -- marks and kept items ------------------------------------------------------------------------------------
    def changed_items(self) -> dict[bytes, bytes | None]:
        """The items that changed since this was last asked; None: all were notified of its current value."""
        changed, self._changed = self._changed, {}
        found: dict[bytes, bytes | None] = {}
        for topic in changed:
            item, single = self._items.get(topic), self._single.items.get(topic)
            is_plain = item is None and single is None
            last_notified = None if is_plain else written(self._kind, topic, item, single)
            if last_notified is not None or topic in self._kept:
                found[topic] = last_notified
                (self._kept.discard if last_notified is None else self._kept.add)(topic)
        self._undo.add(
            self._kept.update, [topic for topic, last_notified in found.items() if last_notified is None]
        )
        return found

    def restore_items(self, stored: Iterable[bytes]) -> None:
        """Bring kept items back; the subscriptions are there."""
        kind = self._kind
        for last_notified in stored:
            topic, state, own = read(kind, last_notified)
            self._kept.add(topic)
            number = kind.number(self._rows.get(kind.key(topic)))
            if number is None or not self._is_selected(topic):
                self._changed[topic] = None
                continue
            for sid, value in own:
                if sid in self._places:
                    self._single.add(topic, sid, kind.radius(self._places[sid].code), value)
            if not state:
                continue
            item = restored(kind.epochs(number), kind.ends, state, self._radii)
            self._births = max(self._births, item.stop)
            if item.is_plain:  # those that knew more are deleted
                self._changed[topic] = None
            else:
                self._items[topic] = item

    # -- events --------------------------------------------------------------------------------------------------
    def step(self, delta: Delta) -> NotifiedItems | None:
        if not self._places:
            return None
        kind = self._kind
        topic, old, new = kind.topic(delta.key), kind.number(delta.old), kind.number(delta.new)
        if not self._is_selected(topic):
            return None
        value = None if delta.new is None else delta.new[kind.y]
        before, single, apart = self._regular(topic, old, new), *self._fire_single(topic, new)
        if not before and not single:
            return None
        return _new(NotifiedItems, (delta.key, topic, value, before, single, apart))

    def _regular(self, topic: bytes, old: Any, new: Any) -> Notified:
        """The affected subscriptions by their last notified values, if the item has nothing else to remember of them.

        What has no distances may have no hash either: a jsonb object.
        """
        if is_same(old, new):
            return []
        if old is None or self._kind.measure is None:
            return [(old, WHOLE_PLANE)]
        return self._vanish(topic, old) if new is None else self._regions(self._fire(topic, old, new))

    def _fire_single(self, topic: bytes, new: Any) -> tuple[list[tuple[int, Any]], frozenset[int]]:
        """Those of an item's single subscriptions that are notified, with their last notified values; and all of them.

        One that is notified of the same value as the others at its place is single no more.
        """
        single = self._single.items.get(topic)
        if single is None:
            return [], NONE
        apart = frozenset(sid for sid, _, _ in single)
        fired = self._single.event(topic, new)
        item = self._items.get(topic)
        for sid, _ in fired:
            self._changed[topic] = None
            place = self._places[sid]
            if item is None or is_same(item.last_notified(self._kind.radius(place.code), place.birth), new):
                self._single.leave(topic, sid)
        return fired, apart

    def _fire(self, topic: bytes, old: Any, new: Any) -> Notified:
        self._save(topic)
        item, last = self._items.get(topic), self._last
        if item is None:
            item = self._items[topic] = self._kind.epochs(old)
        visits, stop = item.visits, item.stop
        birth = max(last.get(ALL, 0), last.get(SINGLE, 0), last.get(topic, 0))
        try:
            notified = item.event(new, birth, self._radii)
        except UnfitError:
            item = self._items[topic] = in_python(item, self._kind.ends, self._radii)
            visits, notified = 0, item.event(new, birth, self._radii)
        self._visits += item.visits - visits
        is_plain = item.is_plain
        if notified or is_plain or stop != item.stop:
            self._changed[topic] = None
        if is_plain:
            del self._items[topic]
        return notified

    def _vanish(self, topic: bytes, old: Any) -> Notified:
        """A row is deleted: all are notified, whatever they were notified of before."""
        self._save(topic)
        item = self._items.pop(topic, None)
        if item is None:
            return [(old, WHOLE_PLANE)]
        self._changed[topic] = None
        regions = dict(self._regions(item.all_regions()))
        regions[old] = *regions.get(old, ()), (EVERYTHING, Interval(item.stop + 1, None))
        return list(regions.items())

    def _regions(self, notified: Notified) -> Notified:
        """With the codes of radii."""
        code = self._kind.code
        if code is int:
            return notified
        if self._is_compiled and not isinstance(notified, list):
            coded: Notified = cast(Any, notified).coded()
            return coded
        return [
            (
                before,
                tuple([(Interval(code(radii.low), code(radii.high)), births) for radii, births in region]),
            )
            for before, region in notified
        ]

    @contextmanager
    def rehearsal(self, delta: Delta) -> Iterator[NotifiedItems | None]:
        """What an event would do to what is known of the item."""
        changed, topic = dict(self._changed), self._kind.topic(delta.key)
        try:
            with on_a_copy(self._items, topic), on_a_copy(self._single.items, topic):
                yield self.step(delta)
        finally:
            self._changed = changed

    def regions(self, description: NotifiedItems) -> list[tuple[bytes, Region]]:
        topics = (ALL, description.topic, *([SINGLE] if SINGLE in self._count else ()))
        return [(topic, region) for _, region in description.before for topic in topics]

    def affected(self, description: NotifiedItems) -> int:
        return super().affected(description) + len(description.single)

    def messages(self, description: NotifiedItems, plan: str) -> list[Draft]:
        values, topic, value, before, single, apart = description
        kind, counted = self._kind, self._count
        key = encode(dict(zip(kind.table.primary_key, values, strict=True)))
        begun, drafts = b'{"key":%b,"value":%b,"previous":' % (key, encode(value)), list[Draft]()
        topics = [one for one in (topic, SINGLE) if one in counted]
        if plan == "enumerate":
            topics.append(ALL)
        elif ALL in counted:
            for last_notified, region in before:
                if self._is_populated(region):
                    payload = b"%b%b}" % (begun, encode(kind.value(last_notified)))
                    drafts.append(Draft("item", ALL, region, payload=payload))
        named = self._named(before, topics) if topics else []
        if apart:
            named = [
                (last_notified, tuple([sid for sid in sids if sid not in apart]))
                for last_notified, sids in named
            ]
        named += [(last_notified, (sid,)) for sid, last_notified in single]
        for last_notified, sids in named:
            if sids:
                payload = b"%b%b}" % (begun, encode(kind.value(last_notified)))
                drafts.append(_new(Draft, ("item", topic, (), sids, None, payload, (), ())))
        return drafts

    def check(self) -> None:
        """The invariants, in O(N)."""
        self._check_points()
        self._single.check()
        for single in self._single.items.values():
            for sid, radius, _ in single:
                place = self._places[sid]
                assert place.found_by != (ALL,), "one with a last notified value of its own is named"
                assert self._kind.code(radius) == place.code, "its radius is known"
        for topic, item in self._items.items():
            item.check()
            assert self._is_selected(topic), "no item without a subscription"
            assert item.value == self._kind.number(self._rows[self._kind.key(topic)]), "its value is known"
            assert not item.is_plain, "there is something to remember"
            assert item.stop <= self._births, "births are numbered on"
