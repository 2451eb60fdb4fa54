"""What the BA-tree asks of the radii below it, and the values that pass between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any, Final, NamedTuple, Protocol

from prosem.index.radii.ba_tree_ends import Radius, Value
from prosem.index.radii.bw_tree import Arcs


class _Several:
    def __repr__(self) -> str:
        return "SEVERAL"


SEVERAL: Final = (
    _Several()
)  # stands for the centre of a radius whose subscriptions were last notified of different values
Ranges = tuple[list[Radius], list[Radius]]  # the first and the last radius of each range
# The notified: all labels of a closed range of radii (arcs None), or one radius and some arcs of its labels.
# A plain tuple (radius_low, radius_high, arcs): there may be thousands per event, and a named one takes five times as long.
Fired = tuple[Radius, Radius, Arcs | None]
Part = tuple[Radius, Arcs]  # a radius that fires in part, and the labels that do
Held = Mapping[Radius, Any]  # of a radius with several centres: its classes


def wholly(ranges: Ranges) -> list[Fired]:
    """Ranges of which all labels are notified."""
    return list(zip(*ranges, repeat(None)))


class Run(NamedTuple):
    """Neighbouring radii, from the first to the last, with the same centre; one radius if it has SEVERAL."""

    low: Radius
    high: Radius
    centre: Value


class Radii(Protocol):
    """The centres of all radii, which are their last notified values: as a tree of runs, or as arrays.

    `root` holds the nearest right end and the nearest negated left end of all, or less. `work` is
    about what the last event cost here, and `work_elsewhere` what it would have cost the other way, in microseconds.
    """

    root: list[Value]
    visits: int
    work: float
    work_elsewhere: float

    def __iter__(self) -> Iterator[Run]: ...
    def centre(self, radius: Radius) -> Value:
        """The centre of a radius; SEVERAL if its classes hold them."""

    def insert(self, radius: Radius, centre: Value) -> None:
        """Take up a radius that has just been put into the order of all."""

    def delete(self, radius: Radius) -> None:
        """Drop a radius that is about to be taken out of the order of all."""

    def set_centre(self, radius: Radius, centre: Value) -> None:
        """The radius has one centre."""

    def set_several(self, radius: Radius) -> None:
        """It has several centres, or others than before: its classes hold the ends."""

    def fire(self, d: Value, rising: bool) -> tuple[list[Fired], list[Part]]:
        """Recentre those that fire: maximal ranges of radii that do so wholly, and the radii that do so in part."""

    def recentre(self, d: Value) -> None:
        """All were notified of `d`; there are no several values."""

    def check(self) -> None: ...


class Journal(Protocol):
    """What events of one batch overwrote in compiled radii."""

    def __len__(self) -> int: ...


class CompiledRadii(Radii, Protocol):
    """The compiled structure: its events note in a journal what they overwrite, and `rewind` takes them back."""

    def fire(
        self, d: Value, rising: bool, journal: Journal | None = None
    ) -> tuple[list[Fired], list[Part]]: ...
    def recentre(self, d: Value, journal: Journal | None = None) -> None: ...
    def journal(self) -> Journal: ...
    def rewind(self, journal: Journal, /) -> None:
        """The radii are those of then, and their classes are as they were."""
