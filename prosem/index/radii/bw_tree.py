"""The circular tree over labels (BW-tree): subscriptions of one radius with different last notified values."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol

from prosem.index.radii.ba_tree_ends import Ends, Radius, Value
from prosem.index.radii.labels import Label, Labels, Moved
from prosem.values.undo import NO_UNDO, UndoLog

Arc = tuple[Label, Label]  # a closed interval of labels
Arcs = tuple[Arc, ...]  # disjoint and ascending; an arc across the seam of the label space is two of them
Class = tuple[Value, list[tuple[Label, int]]]  # a centre, and the labels that have it, with multiplicities


class Classes(Protocol):
    """The subscriptions of one radius by centre, the last notified value: `BWTree`, or `ScatteredClasses` without theorem 3.

    What an event does to them is recorded in `undo`.
    """

    labels: Labels
    undo: UndoLog

    def __init__(self, ends: Ends, radius: Radius, classes: Iterable[Class] = ()) -> None: ...
    def __len__(self) -> int:
        """How many different centres they have."""

    def add(self, d: Value) -> tuple[Label, Moved]: ...
    def remove(self, label: Label) -> None: ...
    def centre(self, label: Label) -> Value: ...
    def event(self, d: Value) -> Arcs | None: ...
    def recentre(self, d: Value) -> None: ...
    def rename(self, moved: Moved) -> None: ...
    def near(self) -> tuple[Value, Value]: ...
    def dump(self) -> list[Class]: ...
    def check(self) -> None: ...


class BWTree:
    """Classes of subscriptions with one centre, in circular order. [ProSem thesis] 4.4.

    A class is a run of labels; `starts` holds the first label of each, ascending, `centres` the centre of each. From
    `boundary` on, once around, the centres ascend strictly, and any two are so near that the lower one's right end is
    not below the higher one, nor the higher one's left end above the lower one (lemma 1). So a rising value fires
    some classes from the boundary on, which become one class at the top; a falling one fires some before it, which
    become one at the bottom; no label changes its place (theorem 3).

    An event that fires k classes takes O(log k) steps besides the shifting of a list; everything else takes O(log N).
    Loses to one centre for all when no subscription is added between events.

    >>> from prosem.index.radii.ba_tree_ends import Change
    >>> tree = BWTree(Change(), 4)
    >>> a, b, c = (tree.add(value)[0] for value in (101, 103, 100))
    >>> tree.event(99) is not None, tree.centre(b), tree.event(98), tree.centre(b)
    (True, 99, (), 99)
    """

    __slots__ = ("boundary", "centres", "ends", "labels", "radius", "starts", "undo")

    def __init__(self, ends: Ends, radius: Radius, classes: Iterable[Class] = ()) -> None:
        self.ends, self.radius = ends, radius
        self.undo: UndoLog = NO_UNDO
        held = list(classes)  # by centre, each class's labels in circular order
        self.labels = Labels(pair for _, labels in held for pair in labels)
        order = sorted(range(len(held)), key=lambda at: held[at][1][0][0])
        self.starts: list[Label] = [held[at][1][0][0] for at in order]
        self.centres: list[Value] = [held[at][0] for at in order]
        self.boundary = order.index(0) if held else 0

    def __len__(self) -> int:
        return len(self.starts)

    def centre(self, label: Label) -> Value:
        """The centre of the subscriptions of a label; KeyError if it is not there."""
        if label not in self.labels:
            raise KeyError(label)
        return self.centres[self._class_of(label)]

    def near(self) -> tuple[Value, Value]:
        """The nearest right end and the nearest left end of all."""
        low, high = self.centres[self.boundary], self.centres[self.boundary - 1]
        return self.ends.right(low, self.radius), self.ends.left(high, self.radius)

    # -- subscriptions ---------------------------------------------------------------------------------------
    def add(self, d: Value) -> tuple[Label, Moved]:
        """A subscription that is notified of `d`, which fires no other; its label, and those relabelled to make room."""
        starts, count = self.starts, len(self.starts)
        if not count:
            label, moved = self.labels.insert(None)
            self.starts, self.centres, self.boundary = [label], [d], 0
            return label, moved
        below = self._below(d)
        at = (self.boundary + below) % count
        if below < count and self.centres[at] == d:
            self.labels.add(starts[at])
            return starts[at], []
        label, moved = self.labels.insert(self.labels.previous(starts[at]))
        if moved:
            self._relabel(moved)
        place = bisect_left(starts, label)
        starts.insert(place, label)
        self.centres.insert(place, d)
        if not below:
            self.boundary = place
        elif place <= self.boundary:
            self.boundary += 1
        return label, moved

    def remove(self, label: Label) -> None:
        """Take one subscription of a label out; KeyError if there is none."""
        following = self.labels.next(label)
        if not self.labels.remove(label):
            return
        at = self._class_of(label)
        if self.starts[at] != label:
            return
        centre = self.centres[at]
        lowest = at == self.boundary
        self._delete(at, 1)
        if following != label and not self._is_start(following):
            place = bisect_left(self.starts, following)
            self.starts.insert(place, following)
            self.centres.insert(place, centre)
            if lowest:
                self.boundary = place
            elif place <= self.boundary:
                self.boundary += 1

    # -- events ----------------------------------------------------------------------------------------------
    def event(self, d: Value) -> Arcs | None:
        """The labels of those that are notified of `d`, and are from now on in one class; None if they are all."""
        count, (first, fired) = len(self.starts), self._fired(d)
        if fired == count:
            self.recentre(d)
            return None
        if not fired:
            return ()
        self._keep()
        arcs = self._arcs(self.starts[first], self.labels.previous(self.starts[(first + fired) % count]))
        self._merge(first, fired, d, rising=first == self.boundary)
        return arcs

    def _fired(self, d: Value) -> tuple[int, int]:
        """The place of the first class that is notified of `d`, and how many are from there on."""
        count, boundary, centres, radius = len(self.starts), self.boundary, self.centres, self.radius
        if d > centres[boundary]:
            right = self.ends.right
            fired = _first(count, lambda at: right(centres[(boundary + at) % count], radius) > d)
            if fired:
                return boundary, fired
        left = self.ends.left
        fired = _first(count, lambda at: left(centres[boundary - 1 - at], radius) < d)
        return (boundary - fired) % count, fired

    def recentre(self, d: Value) -> None:
        """All are notified of `d`; the boundary label is kept."""
        self._keep()
        self.starts, self.centres, self.boundary = [self.starts[self.boundary]], [d], 0

    def _keep(self) -> None:
        """Record the centres, which are about to change."""
        if self.undo.is_on:
            self.undo.add(self._set, self.starts[:], self.centres[:], self.boundary)

    def _set(self, starts: list[Label], centres: list[Value], boundary: int) -> None:
        self.starts, self.centres, self.boundary = starts, centres, boundary

    def rename(self, moved: Moved) -> None:
        """Labels that were moved to make room go back, when that is not needed any more."""
        self.labels.rename(moved)
        self._relabel(moved)

    def _merge(self, first: int, fired: int, d: Value, *, rising: bool) -> None:
        """Make one class at `d` of the fired ones, at the top or at the bottom, with one that is there already."""
        self.centres[first] = d
        if rising:
            first -= self._delete(first + 1, fired - 1)
            self.boundary = (first + 1) % len(self.starts)
            if self.centres[first - 1] == d:
                self._delete(first, 1)
        else:
            joins = self.centres[self.boundary] == d
            first -= self._delete(first + 1, fired - 1 + joins)
            self.boundary = first

    def _delete(self, first: int, number: int) -> int:
        """Take classes out from place `first` on, around the end; how many of them were before it.

        The boundary stays with its class, or goes to the next one that is left.
        """
        stop = min(first + number, len(self.starts))
        wrapped = first + number - stop
        del self.starts[first:stop], self.centres[first:stop]
        del self.starts[:wrapped], self.centres[:wrapped]
        boundary = self.boundary
        if boundary >= stop:
            boundary -= number
        elif boundary >= first:
            boundary = first - wrapped
        else:
            boundary = max(0, boundary - wrapped)
        self.boundary = boundary % len(self.starts) if self.starts else 0
        return wrapped

    # -- places ----------------------------------------------------------------------------------------------
    def _class_of(self, label: Label) -> int:
        return bisect_right(self.starts, label) - 1  # -1: a run across the seam

    def _is_start(self, label: Label) -> bool:
        place = bisect_left(self.starts, label)
        return place < len(self.starts) and self.starts[place] == label

    def _below(self, d: Value) -> int:
        """How many classes have a centre below `d`."""
        low, high, count = 0, len(self.starts), len(self.starts)
        while low < high:
            middle = (low + high) // 2
            if self.centres[(self.boundary + middle) % count] < d:
                low = middle + 1
            else:
                high = middle
        return low

    def _arcs(self, low: Label, high: Label) -> Arcs:
        return ((low, high),) if low <= high else ((self.labels.first, high), (low, self.labels.last))

    def _relabel(self, moved: Moved) -> None:
        after = dict(moved)
        first, stop = bisect_left(self.starts, moved[0][0]), bisect_right(self.starts, moved[-1][0])
        self.starts[first:stop] = [after.get(start, start) for start in self.starts[first:stop]]

    # -- state -----------------------------------------------------------------------------------------------
    def dump(self) -> list[Class]:
        """The classes by centre, each with its labels in circular order and their multiplicities."""
        labels = list(self.labels)
        order = [label for label, _ in labels]
        places = [bisect_left(order, start) for start in self.starts]
        found: list[Class] = []
        for at in [*range(self.boundary, len(places)), *range(self.boundary)]:
            first, stop = places[at], places[at + 1] if at + 1 < len(places) else places[0]
            run = labels[first:stop] if first < stop else labels[first:] + labels[:stop]
            found.append((self.centres[at], run))
        return found

    def check(self) -> None:
        """The invariants, in O(N)."""
        self.labels.check()
        starts, centres = self.starts, self.centres
        assert len(starts) == len(centres), "each class has a centre"
        assert bool(starts) == bool(len(self.labels)), "classes hold all labels"
        if not starts:
            return
        assert all(a < b for a, b in pairwise(starts)), "starts ascend strictly"
        assert all(start in self.labels for start in starts), "a class starts with one of its labels"
        around: Sequence[Any] = centres[self.boundary :] + centres[: self.boundary]
        assert all(a < b for a, b in pairwise(around)), "centres ascend from the boundary on"
        low, high = around[0], around[-1]
        assert high <= self.ends.right(low, self.radius) or low == high, "lemma 1, from below"
        assert low >= self.ends.left(high, self.radius) or low == high, "lemma 1, from above"


def classes(labels: dict[Label, tuple[Any, int]]) -> list[Class]:
    """The classes of one radius by centre, the labels of each from where its run begins, once around.

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


def _first(count: int, is_past: Callable[[int], bool]) -> int:
    """The first of so many places that is past, all after it being so too; `count` if none is. O(log) of the answer."""
    low, high = 0, 1
    while high <= count and not is_past(high - 1):
        low, high = high, 2 * high
    high = min(high - 1, count)
    while low < high:
        middle = (low + high) // 2
        if is_past(middle):
            high = middle
        else:
            low = middle + 1
    return low
