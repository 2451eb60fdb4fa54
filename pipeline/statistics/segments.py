"""Segments of the archive: how their folders are named, and which of them are in force.

A segment that was made of others is put in its place before those are removed. From then on it alone counts: at no moment
does a reader find a gap, or an event twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from pipeline.statistics import StatisticsError

REWRITTEN = "_rewritten_"  # before the name of a segment that takes the place of others once it is complete
_SEGMENT = re.compile(r"segment=(\d+)-(\d+)")


class Segment(NamedTuple):
    """The rows after one number up to another, in one folder. `is_typed`: rows of tables, as this version writes them."""

    after: int
    upto: int
    path: str
    is_typed: bool = False

    def holds(self, seq: int) -> bool:
        return self.after < seq <= self.upto

    def covers(self, other: Segment) -> bool:
        return self.after <= other.after and other.upto <= self.upto


def segment_at(path: str) -> Segment | None:
    """The segment that a folder is by its name; None if it is none, or not in its place.

    >>> segment_at("/archive/event_log/segment=3-7")
    Segment(after=3, upto=7, path='/archive/event_log/segment=3-7', is_typed=False)
    >>> segment_at("/archive/event_log/_rewritten_segment=3-7")
    """
    bounds = _SEGMENT.fullmatch(path.rpartition("/")[2])
    return None if bounds is None else Segment(int(bounds[1]), int(bounds[2]), path)


def is_segment(name: str) -> bool:
    """Whether a folder of this name is a segment, or will be one."""
    return _SEGMENT.search(name) is not None


def bounds_of(path: str) -> tuple[int, int]:
    """The numbers of a folder that `is_segment`."""
    bounds = _SEGMENT.search(path)
    if bounds is None:
        raise StatisticsError(f"{path} is no segment of an archive")
    return int(bounds[1]), int(bounds[2])


def in_force(segments: Iterable[Segment]) -> list[Segment]:
    """Those of a log that no other one covers, in order.

    >>> made = [Segment(0, 2, "a"), Segment(2, 3, "b"), Segment(0, 3, "of a and b"), Segment(3, 9, "c")]
    >>> [one.path for one in in_force(made)]
    ['of a and b', 'c']
    """
    found: list[Segment] = []
    for segment in sorted(segments, key=lambda one: (one.after, -one.upto)):
        if not found or not found[-1].covers(segment):
            found.append(segment)
    return found
