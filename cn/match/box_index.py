"""Filters around a point: which filters hold an attribute vector."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from cn.match.block import Ids
from cn.match.fastint import Fastint
from cn.model.geometry import Filters

Slots = tuple[tuple[int, ...], ...]  # of each conjunction
SPARSE = 8  # numbers a table of slots may have for each id in it


class BoxIndex:
    """Filters by id; an id has several of which one must hold.

    FASTINT with ids: each conjunction of an id has its slots. Neither the filters nor their extents are kept,
    only their bounds (and those extents that bounds cannot express).

    >>> from cn.model.geometry import Extent, Interval
    >>> index = BoxIndex()
    >>> index.insert(1, ({0: Extent((Interval(5, 5),)), 1: Extent((Interval(None, 9),))},))
    >>> index.insert(2, ({1: Extent((), null=True)}, {0: Extent((Interval(7, None),))}))
    >>> index.match((5, 8)), index.match((5, None)), index.match((7, None))
    ([1], [2], [2])
    """

    __slots__ = ("_fastint", "_several", "_slots", "_table", "_tabled")

    def __init__(self, module: Any | None = None) -> None:
        """`module`: the compiled structures to match with; see `kernels.box_index`."""
        self._fastint = Fastint(module)
        self._table = array("i")  # the slot of an id that has one, -1 for others; while ids are dense
        self._tabled = 0  # ids in the table
        self._slots: dict[int, Slots] = {}  # of all other ids
        self._several = 0  # ids of several conjunctions, which may be found more than once

    def __len__(self) -> int:
        return len(self._slots) + self._tabled

    def __contains__(self, id: int) -> bool:
        return id in self._slots or (0 <= id < len(self._table) and self._table[id] >= 0)

    @property
    def visits(self) -> int:
        """Conjunctions verified since the start."""
        return self._fastint.visits

    def insert(self, id: int, filters: Filters) -> None:
        """Add an id that is not there yet; KeyError if it is."""
        if id in self:
            raise KeyError(id)
        self._keep(id, tuple([self._fastint.add(id, filter) for filter in filters]))

    def insert_many(self, ids: Sequence[int], filters_list: Sequence[Filters]) -> None:
        """Add ids that are not there yet; KeyError if one is, and then none is added."""
        known = set[int]()
        for id in ids:
            if id in known or id in self:
                raise KeyError(id)
            known.add(id)
        del known
        owned = [(id, filter) for id, filters in zip(ids, filters_list, strict=True) for filter in filters]
        slots = iter(self._fastint.add_many(owned))
        for id, filters in zip(ids, filters_list, strict=True):
            self._keep(id, tuple([next(slots) for _ in filters]))

    def update(self, id: int, filters: Filters) -> None:
        """Give an id other filters, in place; KeyError if it is not there."""
        old, new = self._forget(id), []
        for at, filter in enumerate(filters):
            if at < len(old):
                new.append(self._fastint.change(old[at], id, filter))
            else:
                new.append(self._fastint.add(id, filter))
        for slots in old[len(new) :]:
            for slot in slots:
                self._fastint.discard(slot)
        self._keep(id, tuple(new))

    def remove(self, id: int) -> None:
        """Take an id out; KeyError if it is not there."""
        for slots in self._forget(id):
            for slot in slots:
                self._fastint.discard(slot)

    def match(self, attributes: Sequence[Any]) -> list[int]:
        """The ids of which a filter holds the vector (None is NULL), each once, in no order."""
        found = self._fastint.match(attributes)
        return list(dict.fromkeys(found)) if self._several else found

    def match_each(self, groups: Sequence[Sequence[Sequence[Any]]]) -> list[Ids]:
        """For each group of vectors the ids of which a filter holds one of them, each once, in no order: in one call."""
        return self._fastint.match_each(groups)

    def _keep(self, id: int, slots: Slots) -> None:
        if len(slots) == 1 == len(slots[0]) and 0 <= id < SPARSE * (self._tabled + 64):
            if id >= len(self._table):
                self._table.extend(array("i", (-1,)) * (id + 1 - len(self._table)))
            self._table[id] = slots[0][0]
            self._tabled += 1
            return
        self._several += len(slots) > 1
        self._slots[id] = slots

    def _forget(self, id: int) -> Slots:
        if 0 <= id < len(self._table) and self._table[id] >= 0:
            slot, self._table[id] = self._table[id], -1
            self._tabled -= 1
            return ((slot,),)
        slots = self._slots.pop(id)
        self._several -= len(slots) > 1
        return slots

    def _items(self) -> Iterator[tuple[int, Slots]]:
        yield from ((id, ((slot,),)) for id, slot in enumerate(self._table) if slot >= 0)
        yield from self._slots.items()

    def check(self) -> None:
        """Assert that the slots of the ids are those in use, and that the parts hold what they should."""
        self._fastint.check()
        owners: dict[int, int] = {}
        assert len(dict(self._items())) == len(list(self._items())) == len(self)
        for id, slots in self._items():
            for slot in (slot for group in slots for slot in group):
                assert slot not in owners
                owners[slot] = id
        used = {slot: self._fastint.owner(slot) for part in self._fastint.partitions() for slot in part}
        assert used == owners
        assert self._several == sum(len(slots) > 1 for slots in self._slots.values())
