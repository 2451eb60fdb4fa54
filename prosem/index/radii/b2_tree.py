"""The two together (B²-tree): any radii, and different last notified values for subscriptions of one radius."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from prosem.index.radii.ba_tree import RadiusTree
from prosem.index.radii.ba_tree_ends import Ends, Radius, Value
from prosem.index.radii.ba_tree_radii import SEVERAL, Fired
from prosem.index.radii.ba_tree_scan import UnfitError
from prosem.index.radii.bw_tree import BWTree, Class, Classes, classes
from prosem.index.radii.bw_tree_loose import LooseBWTree
from prosem.index.radii.bw_tree_scattered import ScatteredClasses
from prosem.index.radii.labels import ORIGIN, Label, Moved
from prosem.values.undo import NO_UNDO, UndoLog

Relabelled = list[tuple[Radius, Label, Label]]  # radius, old label, new label; all at once
State = tuple[Value | None, list[tuple[Radius, list[Class]]]]


class B2Tree(RadiusTree):
    """The points (radius, label) of all subscriptions to one data item. [ProSem thesis] 4.5.

    Each subscription has its own last notified value, the centre of its interval.
    A BA-tree over the radii, and in it, for each radius with more than one label, its classes: a `BWTree`, or
    `ScatteredClasses` if the form has no circular order. A radius whose subscriptions all have one centre
    belongs to a run of the BA-tree, whatever its labels; its classes take over the centre when the next one differs.

    An event that fires no subscription takes O(1). Otherwise each range of radii costs what it does in the BA-tree, and each
    radius that fires in part what it does in its classes.

    >>> from prosem.index.radii.ba_tree_ends import Change
    >>> tree = B2Tree(Change(), 101)
    >>> old, _ = tree.add(4)
    >>> tree.event(103)
    []
    >>> new, _ = tree.add(4)
    >>> tree.event(105) == [(4, 4, ((old, old),))], tree.last_notified(4, old), tree.last_notified(4, new)
    (True, 105, 103)
    >>> tree.event(109), tree.event(106)
    ([(4, 4, None)], [])
    """

    __slots__ = ("_classes",)

    def __init__(self, ends: Ends, value: Value | None = None, undo: UndoLog = NO_UNDO) -> None:
        super().__init__(ends, value, undo)
        self._classes: type[Classes] = BWTree if ends.circular else ScatteredClasses
        if ends.loose:
            self._classes = LooseBWTree

    # -- subscriptions ---------------------------------------------------------------------------------------
    def add(self, radius: Radius) -> tuple[Label, Relabelled]:
        """A subscription that is notified of the current value: its label, and those that moved to make room for it.

        The moves happen at once: a new label may be another one's old label.
        """
        self._count += 1
        self._saved = -1
        if radius not in self._order:
            self._insert(radius, self._at(self.value))
            return ORIGIN, []
        held, centre, d = self._held.get(radius, 1), self._centres.centre(radius), self._at(self.value)
        if type(held) is int:
            if centre == d:
                self._held[radius] = held + 1
                return ORIGIN, []
            held = self._held[radius] = self._made(radius, [(centre, [(ORIGIN, held)])])
        elif centre is not SEVERAL:
            self._sync(held, centre)
        label, moved = held.add(d)
        if len(held) > 1:
            self._set_several(radius)
        return label, [(radius, old, new) for old, new in moved]

    def _sync(self, held: Classes, centre: Value) -> None:
        """Give classes the one centre that they all have."""
        with self.undo.paused():
            held.recentre(centre)

    def _made(self, radius: Radius, some: list[Class]) -> Classes:
        made = self._classes(self.ends, radius, some)
        made.undo = self.undo
        return made

    def remove(self, radius: Radius, label: Label) -> None:
        """Remove a subscription; KeyError if there is none with this radius and label."""
        held = self._find(radius, label)
        self._saved = -1
        if type(held) is int:
            left = held - 1
            self._held[radius] = left
        else:
            held.remove(label)
            left = len(held.labels)
            if left and self._centres.centre(radius) is SEVERAL:
                if len(held) > 1:
                    self._set_several(radius)
                else:
                    self._centres.set_centre(radius, held.centre(held.labels.first))
        if not left:
            self._delete(radius)
        self._count -= 1

    def put_back(self, radius: Radius, label: Label, last_notified: Value | None) -> None:
        """Undo a `remove`: a subscription with its label and last notified value. O(labels of the radius)."""
        self._count += 1
        self._saved = -1
        value = self._at(last_notified)
        if radius not in self._order:
            self._insert(radius, value)
            if label != ORIGIN:
                self._held[radius] = self._made(radius, [(value, [(label, 1)])])
            return
        held, centre = self._held.get(radius, 1), self._centres.centre(radius)
        if type(held) is int:
            if label == ORIGIN and centre == value:
                self._held[radius] = held + 1
                return
            some: list[Class] = [(centre, [(ORIGIN, held)])]
        else:
            some = held.dump()
            if centre is not SEVERAL:
                some = [(centre, pairs) for _, pairs in some]
        labels = {one: (value, times) for value, pairs in some for one, times in pairs}
        times = labels[label][1] if label in labels else 0
        labels[label] = (value, times + 1)
        made = self._held[radius] = self._made(radius, classes(labels))
        if len(made) > 1:
            self._set_several(radius)
        else:
            self._set_centre(radius, value)

    def rename(self, radius: Radius, moved: Moved) -> None:
        """Undo what an `add` that was undone had moved: old and new label of each."""
        held, centre = self._held[radius], self._centres.centre(radius)
        if centre is not SEVERAL:
            self._sync(held, centre)
        held.rename(moved)

    def last_notified(self, radius: Radius, label: Label) -> Value | None:
        """The last notified value; KeyError if there is no subscription with this radius and label."""
        held = self._find(radius, label)
        if self.value is None:
            return None
        centre = self._centres.centre(radius)
        return held.centre(label) if centre is SEVERAL else centre

    def _find(self, radius: Radius, label: Label) -> Any:
        """What is held of a radius."""
        if radius in self._order:
            held = self._held.get(radius, 1)
            if label == ORIGIN if type(held) is int else label in held.labels:
                return held
        raise KeyError((radius, label))

    def _set_several(self, radius: Radius) -> None:
        try:
            self._centres.set_several(radius)
        except UnfitError:
            self._as_runs().set_several(radius)

    def _set_centre(self, radius: Radius, centre: Value) -> None:
        try:
            self._centres.set_centre(radius, centre)
        except UnfitError:
            self._as_runs().set_centre(radius, centre)

    # -- events ----------------------------------------------------------------------------------------------
    def event(self, d: Value | None) -> list[Fired]:
        """Those notified of `d`, by ascending radius; ranges are maximal, and a radius that fires in part stands alone."""
        fired, parts = self._fire(d)
        if parts:
            fired += [(radius, radius, arcs) for radius, arcs in parts]
            fired.sort(key=itemgetter(0))
        return fired

    # -- state -----------------------------------------------------------------------------------------------
    def state(self) -> State:
        """The value, and for each radius its classes: their centres, and their labels with multiplicities."""
        found: list[tuple[Radius, list[Class]]] = []
        runs = iter(self._centres)
        run = None
        for radius in self._order:
            if run is None or run.high < radius:
                run = next(runs)
            held = self._held.get(radius, 1)
            classes = [(run.centre, [(ORIGIN, held)])] if type(held) is int else held.dump()
            if run.centre is not SEVERAL:
                classes = [(None if self.value is None else run.centre, classes[0][1])]
            found.append((radius, classes))
        return self.value, found

    @classmethod
    def from_state(cls, ends: Ends, state: State | Sequence[Any], undo: UndoLog = NO_UNDO) -> B2Tree:
        """The tree that had this state, or one that behaves like it in every way; lists may stand for tuples."""
        value, radii = state
        tree = cls(ends, value, undo)
        found: list[tuple[Radius, Value]] = []
        for radius, some in sorted(radii, key=itemgetter(0)):
            centre = tree._at(some[0][0]) if len(some) == 1 else SEVERAL
            labels = some[0][1]
            if centre is SEVERAL or len(labels) > 1 or labels[0][0] != ORIGIN:
                held = [(tree._at(each), [(label, times) for label, times in pairs]) for each, pairs in some]
                tree._held[radius] = tree._made(radius, held)
            elif labels[0][1] > 1:
                tree._held[radius] = labels[0][1]
            tree._count += sum(times for _, pairs in some for _, times in pairs)
            found.append((radius, centre))
        tree._load(found)
        return tree

    def check(self) -> None:
        super().check()
        count = len(self._order) - len(self._held)
        for radius, held in self._held.items():
            several = self._centres.centre(radius) is SEVERAL
            if type(held) is int:
                assert held > 0, "no radius without a subscription"
                assert not several, "one label has one centre"
                count += held
                continue
            held.check()
            assert several == (len(held) > 1), "several centres are several classes"
            count += len(held.labels)
        assert count == self._count, "the count is kept"
