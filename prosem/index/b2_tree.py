"""The two together (B²-tree): any radii, and different values told to subscriptions of one radius."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from prosem.index.ba_tree import RadiusTree
from prosem.index.ba_tree_ends import Ends, Radius, Value
from prosem.index.bw_tree import Arcs, BWTree, Class, Classes
from prosem.index.bw_tree_scattered import ScatteredClasses
from prosem.index.labels import ORIGIN, Label
from prosem.index.radius_block_few import Entry

Relabelled = list[tuple[Radius, Label, Label]]  # radius, old label, new label; all at once
State = tuple[Value | None, list[tuple[Radius, list[Class]]]]


class Fired(NamedTuple):
    """Who is told: all labels of a closed range of radii, or one radius and some arcs of its labels."""

    radius_low: Radius
    radius_high: Radius
    arcs: Arcs | None = None


class B2Tree(RadiusTree):
    """The points (radius, label) of all subscriptions to one data item, each told a value of its own. Thesis 4.5.

    A BA-tree over the radii, and in it, for each radius with more than one label, its classes: a `BWTree`, or
    `ScatteredClasses` if the form has no circular order. A radius whose subscriptions were all told the same is one
    cell of the BA-tree, whatever its labels; its classes learn the value when the next one is told another.

    An event that fires nobody takes O(1). Otherwise each range of radii costs what it does in the BA-tree, and each
    radius that fires in part what it does in its classes. Loses to the scan of a list below some hundred radii, and
    uses one there.

    >>> from prosem.index.ba_tree_ends import Change
    >>> tree = B2Tree(Change(), 101)
    >>> old, _ = tree.add(4)
    >>> tree.event(103)
    []
    >>> new, _ = tree.add(4)
    >>> tree.event(105) == [Fired(4, 4, ((old, old),))], tree.told(4, old), tree.told(4, new)
    (True, 105, 103)
    >>> tree.event(109), tree.event(106)
    ([Fired(radius_low=4, radius_high=4, arcs=None)], [])
    """

    def __init__(self, ends: Ends, value: Value | None = None) -> None:
        super().__init__(ends, value)
        self._classes: type[Classes] = BWTree if ends.circular else ScatteredClasses

    # -- subscriptions ---------------------------------------------------------------------------------------
    def add(self, radius: Radius) -> tuple[Label, Relabelled]:
        """A subscription that is told the present value: its label, and those that moved to make room for it.

        The moves happen at once: a new label may be another one's old label.
        """
        self._count += 1
        radii = self._radii
        cell = radii.locate(radius)
        if cell < 0:
            self._insert(radius, 1)
            return ORIGIN, []
        _, centre, several, held = radii.entry(cell)
        d = self._at(self.value)
        if type(held) is int:
            if centre == d:
                radii.hold(cell, held + 1)
                return ORIGIN, []
            held = self._classes(self.ends, radius, [(centre, [(ORIGIN, held)])])
            radii.hold(cell, held)
        elif not several:
            held.recentre(centre)
        label, moved = held.add(d)
        if len(held) > 1:
            radii.set_ends(cell, *held.near())
        return label, [(radius, old, new) for old, new in moved]

    def remove(self, radius: Radius, label: Label) -> None:
        """A subscription less; KeyError if there is none with this radius and label."""
        radii = self._radii
        cell = self._cell(radius)
        _, _, several, held = radii.entry(cell)
        if type(held) is int:
            if label != ORIGIN:
                raise KeyError((radius, label))
            left = held - 1
            radii.hold(cell, left)
        else:
            held.remove(label)
            left = len(held.labels)
            if left and several:
                if len(held) > 1:
                    radii.set_ends(cell, *held.near())
                else:
                    radii.set_centre(cell, held.told(held.labels.first))
        if not left:
            self._delete(cell)
        self._count -= 1

    def told(self, radius: Radius, label: Label) -> Value | None:
        """The value last told; KeyError if there is no subscription with this radius and label."""
        _, centre, several, held = self._radii.entry(self._cell(radius))
        if label != ORIGIN if type(held) is int else label not in held.labels:
            raise KeyError((radius, label))
        if self.value is None:
            return None
        return held.told(label) if several else centre

    # -- events ----------------------------------------------------------------------------------------------
    def event(self, d: Value | None) -> list[Fired]:
        """Who is told `d`, by ascending radius; ranges are maximal, and a radius that fires in part stands alone."""
        ranges, parts = self._fire(d)
        fired = [Fired(low, high) for low, high in ranges]
        if parts:
            fired += [Fired(radius, radius, arcs) for radius, arcs in parts]
            fired.sort(key=_radius_low)
        return fired

    # -- state -----------------------------------------------------------------------------------------------
    def state(self) -> State:
        """The value, and for each radius its classes: what they were told, their labels with multiplicities."""
        found: list[tuple[Radius, list[Class]]] = []
        for radius, centre, several, held in self._radii:
            if type(held) is int:
                classes = [(centre, [(ORIGIN, held)])]
            else:
                classes = held.dump()
                if not several:
                    classes = [(centre, classes[0][1])]
            if self.value is None:
                classes = [(None, classes[0][1])]
            found.append((radius, classes))
        return self.value, found

    @classmethod
    def from_state(cls, ends: Ends, state: State | Sequence[Any]) -> B2Tree:
        """The tree that had this state, or one that behaves like it in every way; lists may stand for tuples."""
        value, radii = state
        tree = cls(ends, value)
        entries: list[Entry] = []
        for radius, classes in radii:
            centre = tree._at(classes[0][0])
            held: Any = classes[0][1][0][1]
            if len(classes) > 1 or len(classes[0][1]) > 1 or classes[0][1][0][0] != ORIGIN:
                held = tree._classes(
                    ends, radius, [(tree._at(c), [tuple(pair) for pair in pairs]) for c, pairs in classes]
                )
            entries.append(Entry(radius, centre, len(classes) > 1, held))
        tree._count = sum(map(_times, entries))
        if entries:
            tree._rebuild(sorted(entries, key=lambda entry: entry.radius))
        return tree

    def check(self) -> None:
        super().check()
        assert sum(map(_times, self._radii)) == self._count, "the count is kept"
        for entry in self._radii:
            if type(entry.held) is int:
                assert entry.held > 0, "no radius without a subscription"
                assert not entry.several, "one label, one centre"
                continue
            entry.held.check()
            assert entry.several == (len(entry.held) > 1), "several centres are several classes"


def _times(entry: Entry) -> int:
    return entry.held if type(entry.held) is int else len(entry.held.labels)


def _radius_low(fired: Fired) -> Radius:
    return fired.radius_low
