"""The last notified values of one of many items: by when subscriptions came, then by radius."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from cn.match import kernels
from cn.model.geometry import Box, Interval, Region
from prosem.index.radii.ba_tree_ends import SMALL, Ends, Radius, Value
from prosem.index.radii.ba_tree_loose import LooseRuns
from prosem.index.radii.ba_tree_radii import Run
from prosem.index.radii.ba_tree_runs import RadiusRuns
from prosem.index.radii.ba_tree_scan import UnfitError
from prosem.index.radii.radius_block import RadiusBlocks

Birth = int  # the number of a moment at which subscriptions came; events lie between them
State = list[tuple[Birth, list[Run]]]


# By their last notified values: boxes of radii and births. A list, or a compiled value that makes them when asked.
Notified = Collection[tuple[Value, Region]]


class Piece(NamedTuple):
    """Those notified: with radii from `low` to `high` and births from `first` to `last`, last notified of `before`."""

    low: Radius
    high: Radius
    first: Birth
    last: Birth
    before: Value


class ItemEpochs(Protocol):
    """The last notified values of one item: `Epochs` in Python, or the compiled structure while numbers fit 64 bits.

    The compiled one raises UnfitError, and is as it was, at a number that does not: see `in_python`.
    """

    @property
    def value(self) -> Value: ...
    @property
    def visits(self) -> int: ...
    @property
    def stop(self) -> Birth:
        """The last birth of the last epoch; -1 if there is none."""

    @property
    def stops(self) -> list[Birth]: ...
    @property
    def is_plain(self) -> bool:
        """Whether all were notified of the current value: then there is nothing to remember."""

    def event(self, d: Value, birth: Birth, radii: RadiusBlocks, /) -> Notified:
        """The subscriptions notified of `d`. `birth` is the last one so far, `radii` (immutable) all there are by then."""

    def begin(self, birth: Birth, radii: RadiusBlocks, runs: Iterable[Run], /) -> None:
        """An epoch after all others: its last birth, and the last notified values of its radii."""

    def last_notified(self, radius: Radius, birth: Birth, /) -> Value:
        """The last notified value of those of a radius and a birth."""

    def all_regions(self) -> Notified:
        """All epochs, as if all in them were notified."""

    def state(self) -> State:
        """For each epoch its last birth, and the last notified values of neighbouring radii."""

    def copy(self) -> ItemEpochs:
        """As it is now, whatever happens to this one; both share their epochs until those change. O(epochs)."""

    def check(self) -> None:
        """The invariants, in O(N)."""


class Epochs:
    """The last notified values of one item, for all subscriptions that ever selected it, without storing any of them.

    Those that came between two events of an item were notified of the same value, whatever the radius: an *epoch*, which
    begins as one run of a BA-tree over radii and is cut only by events that notify some of it. `stops` holds the last birth
    of each epoch; those that came after the last one were notified of the current value. Neighbouring epochs with equal
    values become one. So a subscription to a million items is a point (radius, birth), and adds nothing to an item before
    that moves.

    An event that fires no subscription takes O(1). Otherwise it takes one comparison per epoch, and in each one that
    fires what it takes in a BA-tree. Loses to a B²-tree, which notifies arcs instead of epochs, where all select one item.

    >>> from prosem.index.radii.ba_tree_ends import Change
    >>> item = Epochs(Change(), 100)
    >>> ((before, ((radii, births),)),) = item.event(103, 1, RadiusBlocks([2, 4, 9]))
    >>> before, radii[:2], births[:2]
    (100, (2, 2), (0, 1))
    >>> [before for before, _ in item.event(104, 2, RadiusBlocks([2, 4, 9]))]
    [100]
    >>> [item.last_notified(radius, birth) for radius, birth in ((2, 1), (4, 1), (9, 1), (4, 2), (4, 3))]
    [103, 104, 100, 103, 104]
    """

    __slots__ = ("_ends", "_is_shared", "_near", "_runs", "stops", "value", "visits")

    def __init__(self, ends: Ends, value: Value) -> None:
        self._ends = ends
        self.value = value
        self.visits = 0
        self.stops: list[Birth] = []
        self._runs: list[RadiusRuns] = []
        self._is_shared: list[bool] = []  # of each epoch: whether a copy holds the same runs
        self._near: list[Value] = []
        self._sum_up()

    # -- events ----------------------------------------------------------------------------------------------
    def event(self, d: Value, birth: Birth, radii: RadiusBlocks, /) -> Notified:
        before, self.value = self.value, d
        if birth > self.stop and len(radii):
            self.begin(birth, radii, [Run(radii.first, radii.last, before)])
        rising = d > before
        side, x = (0, d) if rising else (1, -d)
        if not self._runs or d == before or self._near[side] > x:
            return []
        pieces: list[Piece] = []
        fired = [at for at, runs in enumerate(self._runs) if runs.root[side] <= x]
        for at in fired:
            first, last, runs = self.stops[at - 1] + 1 if at else 0, self.stops[at], self._own(at)
            visits, runs.pieces = runs.visits, []
            runs.fire(d, rising)
            pieces += [Piece(low, high, first, last, centre) for low, high, centre in runs.pieces]
            self.visits += runs.visits - visits
        for at in reversed(fired):
            self._join(at)
        self._sum_up()
        return _regions(pieces)

    def begin(self, birth: Birth, radii: RadiusBlocks, runs: Iterable[Run], /) -> None:
        kind = LooseRuns if self._ends.loose else RadiusRuns
        self.stops.append(birth)
        self._runs.append(kind(self._ends, radii, {}, runs))
        self._is_shared.append(False)
        self._sum_up()

    def _own(self, at: int) -> RadiusRuns:
        """The runs of an epoch that are about to change."""
        if self._is_shared[at]:
            self._runs[at], self._is_shared[at] = self._runs[at].copy(), False
        return self._runs[at]

    def _join(self, at: int) -> None:
        """Let an epoch and the one after it be one, if they were notified alike."""
        if at + 1 < len(self._runs) and _alike(self._runs[at], self._runs[at + 1]):
            del self.stops[at], self._runs[at], self._is_shared[at]

    def _sum_up(self) -> None:
        self._near = [min((runs.root[side] for runs in self._runs), default=0) for side in (0, 1)]

    # -- questions -------------------------------------------------------------------------------------------
    @property
    def stop(self) -> Birth:
        return self.stops[-1] if self.stops else -1

    def last_notified(self, radius: Radius, birth: Birth, /) -> Value:
        at = bisect_left(self.stops, birth)
        return self.value if at == len(self.stops) else self._runs[at].centre(radius)

    def all_regions(self) -> Notified:
        return _regions(
            Piece(low, high, stop + 1, last, centre)
            for stop, last, runs in zip([-1, *self.stops], self.stops, self._runs, strict=False)
            for low, high, centre in _joined(runs)
        )

    @property
    def is_plain(self) -> bool:
        return all(run.centre == self.value for runs in self._runs for run in runs)

    # -- state -----------------------------------------------------------------------------------------------
    def copy(self) -> Epochs:
        copied = Epochs(self._ends, self.value)
        copied.visits, copied.stops, copied._runs = self.visits, list(self.stops), list(self._runs)
        copied._near, self._is_shared = list(self._near), [True] * len(self._runs)
        copied._is_shared = list(self._is_shared)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Epochs:
        return self.copy()

    def state(self) -> State:
        return [(stop, list(_joined(runs))) for stop, runs in zip(self.stops, self._runs, strict=True)]

    def check(self) -> None:
        assert all(a < b for a, b in pairwise(self.stops)), "epochs follow one another"
        assert len(self.stops) == len(self._runs) == len(self._is_shared), (
            "each epoch was notified of something"
        )
        for runs in self._runs:
            runs.check()
        roots = [runs.root for runs in self._runs]
        assert self._near == [min((root[side] for root in roots), default=0) for side in (0, 1)]


def epochs_of(ends: Ends, value: Value) -> ItemEpochs:
    """The last notified values of an item: this one alone. Compiled if it can be; radii must be whole then, or doubles."""
    module = kernels.compiled()
    if module is not None and not ends.loose and ends.scale < SMALL:
        make: Any = module.IntegerEpochs if ends.exact else module.DoubleEpochs
        try:
            item: ItemEpochs = make(ends.name, ends.scale, value, Run, Interval, UnfitError)
            return item
        except UnfitError:
            pass
    return Epochs(ends, value)


def restored(item: ItemEpochs, ends: Ends, state: State, radii: RadiusBlocks) -> ItemEpochs:
    """The item, nothing of which is known yet, with a state.

    `radii` may have become more or less: one between two runs joins the first of them.
    """
    try:
        for stop, runs in state:
            item.begin(stop, radii, _fitted(runs, radii))
    except UnfitError:
        return restored(Epochs(ends, item.value), ends, state, radii)
    return item


def in_python(item: ItemEpochs, ends: Ends, radii: RadiusBlocks) -> ItemEpochs:
    """The same, for numbers that do not fit 64 bits."""
    return restored(Epochs(ends, item.value), ends, item.state(), radii)


def _regions(pieces: Iterable[Piece]) -> Notified:
    """Epochs that follow one another and are notified of the same radii share a box."""
    groups: dict[Value, list[Box]] = {}
    places: dict[tuple[Value, Radius, Radius], int] = {}  # of the last box in its group
    for low, high, first, last, before in pieces:
        boxes, at = groups.setdefault(before, []), places.get((before, low, high))
        if at is not None and boxes[at][1].high + 1 == first:
            boxes[at] = boxes[at][0], Interval(boxes[at][1].low, last)
        else:
            places[before, low, high] = len(boxes)
            boxes.append((Interval(low, high), Interval(first, last)))
    return [(before, tuple(boxes)) for before, boxes in groups.items()]


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Runs, neighbours that were notified of the same as one."""
    last: Run | None = None
    for run in runs:
        if last is not None and last.centre == run.centre:
            last = Run(last.low, run.high, run.centre)
            continue
        if last is not None:
            yield last
        last = run
    if last is not None:
        yield last


def _alike(first: RadiusRuns, second: RadiusRuns) -> bool:
    """Whether all radii of an epoch have the last notified values of the next one, which may have more radii."""
    if first.centre(first.last) != second.centre(first.last):
        return False
    mine, other = list(_joined(first)), list(_joined(second))
    return len(mine) == len(other) and all(
        a.centre == b.centre and b.low <= a.low and a.high <= b.high for a, b in zip(mine, other, strict=True)
    )


def _fitted(runs: Sequence[Run], radii: RadiusBlocks) -> list[Run]:
    """Runs over other radii than they were made of."""
    found: list[Run] = []
    low: Radius | None = radii.first
    for at, run in enumerate(runs):
        high = radii.last
        if at + 1 < len(runs):
            high = radii.previous(runs[at + 1].low)
        if low is None or high is None or high < low:
            continue
        found.append(Run(low, high, run.centre))
        low = radii.next(high)
    return found


def more(radii: RadiusBlocks, radius: Radius) -> RadiusBlocks:
    """The radii with one more, while holders of the old ones keep them; the blocks but one are shared."""
    if radius in radii:
        return radii
    grown = radii.shared(radius)
    grown.add(radius)
    return grown
