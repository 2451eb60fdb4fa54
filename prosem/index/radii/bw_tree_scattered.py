"""Subscriptions of one radius where theorem 3 does not hold: classes of labels that no circle keeps together."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from itertools import pairwise

from prosem.index.radii.ba_tree_ends import Ends, Radius, Value
from prosem.index.radii.bw_tree import Arcs, Class
from prosem.index.radii.labels import Label, Labels, Moved
from prosem.values.undo import NO_UNDO, UndoLog


class ScatteredClasses:
    """Classes of subscriptions with one centre, of a form without a circular order (percent).

    `starts` cuts the labels into runs; neighbouring runs have different centres, and all runs of one centre are a
    class. New labels come at an end, so they cut no run. The ends of the classes stand in order on either side: an
    event that fires k classes of j runs takes O((k + j) log N) and leaves k - 1 fewer classes, but j may stay: that
    many arcs are notified where it is one in a `BWTree`.

    >>> from prosem.index.radii.ba_tree_ends import Percent
    >>> held = ScatteredClasses(Percent(), 50)
    >>> labels = [held.add(value)[0] for value in (100, 120, 100, 140)]
    >>> arcs = held.event(150)
    >>> arcs == ((labels[0], labels[2]),), [held.centre(label) for label in labels], len(held)
    (True, [150, 120, 150, 140], 3)
    """

    __slots__ = ("_by_left", "_by_right", "_centre", "_runs", "ends", "labels", "radius", "starts", "undo")

    def __init__(self, ends: Ends, radius: Radius, classes: Iterable[Class] = ()) -> None:
        self.ends, self.radius = ends, radius
        self.undo: UndoLog = NO_UNDO
        held = list(classes)
        self.labels = Labels(pair for _, labels in held for pair in labels)
        centres = {label: centre for centre, labels in held for label, _ in labels}
        self.starts: list[Label] = []
        self._centre: dict[Label, Value] = {}  # of the run of each start
        self._runs: dict[Value, set[Label]] = {}  # the starts of each class
        self._by_right: list[tuple[Value, Value]] = []  # right end and centre of each class
        self._by_left: list[tuple[Value, Value]] = []  # negated left end and centre
        for label, _ in self.labels:
            if not self.starts or self._centre[self.starts[-1]] != centres[label]:
                self.starts.append(label)
                self._begin(label, centres[label])

    def __len__(self) -> int:
        return len(self._runs)

    def centre(self, label: Label) -> Value:
        """The centre of the subscriptions of a label; KeyError if it is not there."""
        if label not in self.labels:
            raise KeyError(label)
        return self._centre[self.starts[bisect_right(self.starts, label) - 1]]

    def near(self) -> tuple[Value, Value]:
        """The nearest right end and the nearest left end of all."""
        return self._by_right[0][0], -self._by_left[0][0]

    # -- subscriptions ---------------------------------------------------------------------------------------
    def add(self, d: Value) -> tuple[Label, Moved]:
        """A subscription that is notified of `d`; its label, and those relabelled to make room."""
        if d in self._runs:
            label = min(self._runs[d])
            self.labels.add(label)
            return label, []
        label, moved = self.labels.insert(self.labels.last if self.starts else None)
        if moved:
            self._relabel(dict(moved))
        insort(self.starts, label)
        self._begin(label, d)
        return label, moved

    def remove(self, label: Label) -> None:
        """Take one subscription of a label out; KeyError if there is none."""
        following = self.labels.next(label)
        if not self.labels.remove(label):
            return
        at = bisect_right(self.starts, label) - 1
        if self.starts[at] != label:
            return
        centre = self._centre[label]
        if following > label and following not in self._centre:
            self.starts[at] = following
            self._begin(following, centre)
            self._end(label)
            return
        del self.starts[at]
        self._end(label)
        if 0 < at < len(self.starts) and self._centre_at(at - 1) == self._centre_at(at):
            self._end(self.starts.pop(at))

    # -- events ----------------------------------------------------------------------------------------------
    def event(self, d: Value) -> Arcs | None:
        """The labels of those that are notified of `d`, and are from now on in one class; None if they are all."""
        fired = _until(self._by_right, d) + _until(self._by_left, -d)
        if len(fired) == len(self._runs):
            self.recentre(d)
            return None
        self._keep()
        runs = sorted(bisect_left(self.starts, start) for centre in fired for start in self._runs[centre])
        spans: list[tuple[int, int]] = []  # places of neighbouring runs, first and last
        for place in runs:
            if spans and spans[-1][1] + 1 == place:
                spans[-1] = spans[-1][0], place
            else:
                spans.append((place, place))
        arcs = tuple((self.starts[first], self._last_label(last)) for first, last in spans)
        for first, last in reversed(spans):
            self._merge(first, last, d)
        return arcs

    def recentre(self, d: Value) -> None:
        """All are notified of `d`."""
        self._keep()
        for held in (self._runs, self._centre, self._by_left, self._by_right):
            held.clear()
        del self.starts[1:]
        self._begin(self.starts[0], d)

    def _keep(self) -> None:
        """Record the centres, which are about to change: O(runs)."""
        if self.undo.is_on:
            self.undo.add(self._set, [(start, self._centre[start]) for start in self.starts])

    def _set(self, centres: list[tuple[Label, Value]]) -> None:
        for held in (self._runs, self._centre, self._by_left, self._by_right):
            held.clear()
        self.starts = [start for start, _ in centres]
        for start, centre in centres:
            self._begin(start, centre)

    def rename(self, moved: Moved) -> None:
        """Labels that were moved to make room go back, when that is not needed any more."""
        self.labels.rename(moved)
        self._relabel(dict(moved))

    def _merge(self, first: int, last: int, d: Value) -> None:
        """Make one run at `d` of neighbouring ones, and of those beside them whose centre was `d` before."""
        for start in self.starts[first : last + 1]:
            self._end(start)
        start = self.starts[first]
        del self.starts[first + 1 : last + 1]
        if first + 1 < len(self.starts) and self._centre_at(first + 1) == d:
            self._end(self.starts.pop(first + 1))
        if first and self._centre_at(first - 1) == d:
            del self.starts[first]
        else:
            self._begin(start, d)

    def _begin(self, start: Label, centre: Value) -> None:
        """Note a run, which begins a class unless there is one of its centre."""
        self._centre[start] = centre
        if centre in self._runs:
            self._runs[centre].add(start)
        else:
            self._runs[centre] = {start}
            insort(self._by_right, (self.ends.right(centre, self.radius), centre))
            insort(self._by_left, (-self.ends.left(centre, self.radius), centre))

    def _end(self, start: Label) -> None:
        """Forget a run, and its class with the last one."""
        centre = self._centre.pop(start)
        runs = self._runs[centre]
        runs.remove(start)
        if not runs:
            del self._runs[centre]
            right, left = self.ends.right(centre, self.radius), -self.ends.left(centre, self.radius)
            del self._by_right[bisect_left(self._by_right, (right, centre))]
            del self._by_left[bisect_left(self._by_left, (left, centre))]

    def _relabel(self, after: dict[Label, Label]) -> None:
        """Only a label space used up at both ends comes to this."""
        self.starts = [after.get(start, start) for start in self.starts]
        self._centre = {after.get(start, start): centre for start, centre in self._centre.items()}
        for centre, runs in self._runs.items():
            self._runs[centre] = {after.get(start, start) for start in runs}

    # -- places ----------------------------------------------------------------------------------------------
    def _centre_at(self, place: int) -> Value:
        return self._centre[self.starts[place]]

    def _last_label(self, place: int) -> Label:
        """The last label of a run."""
        if place + 1 == len(self.starts):
            return self.labels.last
        return self.labels.previous(self.starts[place + 1])

    # -- state -----------------------------------------------------------------------------------------------
    def dump(self) -> list[Class]:
        """The classes by centre, each with its labels in ascending order and their multiplicities."""
        classes: dict[Value, list[tuple[Label, int]]] = {centre: [] for centre in sorted(self._runs)}
        centre: Value = None
        for label, times in self.labels:
            centre = self._centre.get(label, centre)
            classes[centre].append((label, times))
        return list(classes.items())

    def check(self) -> None:
        """The invariants, in O(N log N)."""
        self.labels.check()
        starts = self.starts
        assert bool(starts) == bool(len(self.labels)), "runs hold all labels"
        assert all(a < b for a, b in pairwise(starts)), "starts ascend strictly"
        assert all(start in self.labels for start in starts), "a run starts with one of its labels"
        assert not starts or starts[0] == self.labels.first, "the first run starts with the first label"
        assert set(starts) == set(self._centre), "each run has a centre"
        assert all(self._centre[a] != self._centre[b] for a, b in pairwise(starts)), (
            "neighbouring runs differ"
        )
        runs = {(centre, start) for centre, held in self._runs.items() for start in held}
        assert runs == {(centre, start) for start, centre in self._centre.items()}, "classes hold their runs"
        assert all(self._runs.values()), "no class without a run"
        rights = sorted((self.ends.right(centre, self.radius), centre) for centre in self._runs)
        lefts = sorted((-self.ends.left(centre, self.radius), centre) for centre in self._runs)
        assert (rights, lefts) == (self._by_right, self._by_left), "the ends of all classes stand in order"


def _until(ends: list[tuple[Value, Value]], d: Value) -> list[Value]:
    """The centres of the classes whose ends are reached."""
    stop = 0
    while stop < len(ends) and ends[stop][0] <= d:
        stop += 1
    return [centre for _, centre in ends[:stop]]
