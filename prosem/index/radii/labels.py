"""Labels that keep an order: a new one fits between any two neighbours, and few others move to make room."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from sortedcontainers import SortedList

Label = int
Moved = list[tuple[Label, Label]]  # old and new label of each one that was relabelled, in ascending order

BITS = 62
LAST = (1 << BITS) - 1  # labels are 0 to LAST
ORIGIN = 1 << (BITS - 1)  # the first label of all
STEP = 1 << 32  # between neighbours where the order grows at an end
CROWDED = 4 / 3  # a range of 2^i labels has room while it holds at most CROWDED^i of them
LONG_LIST = 1024  # from here on shifting a plain list costs more than a sorted list of lists


class Labels:
    """Distinct labels in circular order, each as often as it was given out.

    A label comes to stand in the middle of its gap. Where there is no gap, the smallest range of 2^i labels, aligned
    to 2^i, that is not crowded is spread evenly: these ranges are the subtrees of [W-BOX]'s weight-balanced tree without
    the tree. Amortised O(log N) labels move for each new one, wherever it goes, for up to CROWDED^BITS = 5·10^7
    labels. Everything else takes O(log N). [ProSem thesis] 4.4.3, [W-BOX], [Dietz].

    >>> labels = Labels([(10, 1), (11, 2), (40, 1)])
    >>> labels.insert(11), labels.insert(10)
    ((25, []), (11, [(10, 9), (11, 13)]))
    >>> list(labels), len(labels), labels.next(40)
    ([(9, 1), (11, 1), (13, 2), (25, 1), (40, 1)], 6, 9)
    """

    __slots__ = ("_count", "_order", "_times")

    def __init__(self, times: Iterable[tuple[Label, int]] = ()) -> None:
        self._times: dict[Label, int] = dict(times)
        ordered = sorted(self._times)
        self._order: Any = ordered if len(ordered) < LONG_LIST else SortedList(ordered)
        self._count = sum(self._times.values())

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Label, int]]:
        return ((label, self._times[label]) for label in self._order)

    def __contains__(self, label: Label) -> bool:
        return label in self._times

    @property
    def distinct(self) -> int:
        return len(self._times)

    @property
    def first(self) -> Label:
        label: Label = self._order[0]
        return label

    @property
    def last(self) -> Label:
        label: Label = self._order[-1]
        return label

    def times(self, label: Label) -> int:
        return self._times[label]

    def next(self, label: Label) -> Label:
        """The following label; after the last one comes the first."""
        at = self._find(label) + 1
        following: Label = self._order[at if at < len(self._order) else 0]
        return following

    def previous(self, label: Label) -> Label:
        """The label before; before the first one comes the last."""
        before: Label = self._order[self._find(label) - 1]
        return before

    # -- changes -------------------------------------------------------------------------------------------
    def add(self, label: Label) -> None:
        """Give a label out once more; KeyError if it is new."""
        self._times[label] += 1
        self._count += 1

    def remove(self, label: Label) -> bool:
        """Take a label back once, and return whether that was its last time; KeyError if it is not there."""
        times = self._times[label]
        self._count -= 1
        if times > 1:
            self._times[label] = times - 1
            return False
        del self._order[self._rank(label)], self._times[label]
        if type(self._order) is not list and len(self._order) < LONG_LIST // 4:
            self._order = list(self._order)
        return True

    def insert(self, after: Label | None) -> tuple[Label, Moved]:
        """A new label that follows `after` (None: the first of all), and those that moved to make room.

        The moves happen at once: a new label may equal another one's old label.
        """
        moved: Moved = []
        if after is None:
            label = ORIGIN
        else:
            at = self._find(after) + 1
            label = self._gap(after, at)
            if label < 0:
                label, moved = self._spread(after, at)
        self._times[label] = 1
        self._count += 1
        if type(self._order) is list:
            self._order.insert(bisect_left(self._order, label), label)
            if len(self._order) >= LONG_LIST:
                self._order = SortedList(self._order)
        else:
            self._order.add(label)
        return label, moved

    def _gap(self, after: Label, at: int) -> Label:
        """A free label that follows `after`, the one before place `at`; -1 if there is none."""
        if at < len(self._order):
            middle: Label = (after + self._order[at]) // 2
            return middle if middle > after else -1
        if after + STEP <= LAST:
            return after + STEP
        return max(self.first - STEP, -1)  # the circle closes: before the first is after the last

    def _spread(self, after: Label, at: int) -> tuple[Label, Moved]:
        """Spread the smallest range around `after` that is not crowded, leaving a free label behind it."""
        for bits in range(1, BITS + 1):
            base = after >> bits << bits
            low, high = self._rank(base), self._rank(base + (1 << bits))
            if high - low < CROWDED**bits:
                break
        else:
            raise OverflowError("too many labels on one circle")
        old = list(self._order[low:high])
        share = (1 << bits) // (len(old) + 1)
        places = [base + share // 2 + share * place for place in range(len(old) + 1)]
        label = places.pop(at - low)
        moved = [(was, now) for was, now in zip(old, places, strict=True) if was != now]
        times = [self._times.pop(was) for was, _ in moved]
        self._times.update(zip((now for _, now in moved), times, strict=True))
        if type(self._order) is list:
            self._order[low:high] = places
        else:
            del self._order[low:high]
            self._order.update(places)
        return label, moved

    def rename(self, moved: Moved) -> None:
        """Give labels other names, all at once, in the same order: what an `insert` moved goes back."""
        times = [self._times.pop(was) for was, _ in moved]
        self._times.update(zip((now for _, now in moved), times, strict=True))
        ordered = sorted(self._times)
        self._order = ordered if type(self._order) is list else SortedList(ordered)

    # -- places --------------------------------------------------------------------------------------------
    def _rank(self, label: Label) -> int:
        order = self._order
        rank: int = bisect_left(order, label) if type(order) is list else order.bisect_left(label)
        return rank

    def _find(self, label: Label) -> int:
        if label not in self._times:
            raise KeyError(label)
        return self._rank(label)

    def check(self) -> None:
        """The invariants, in O(N)."""
        order = list(self._order)
        assert all(a < b for a, b in pairwise(order)), "labels ascend strictly"
        assert not order or (order[0] >= 0 and order[-1] <= LAST), "labels stay in their space"
        assert set(order) == set(self._times), "each label is counted"
        assert all(times > 0 for times in self._times.values()), "no label without a use"
        assert sum(self._times.values()) == self._count, "the count is kept"
        assert type(self._order) is not list or len(order) < LONG_LIST, "a plain list is short"
