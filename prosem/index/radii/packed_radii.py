"""The radii of one data item as compiled structures read them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Self

from prosem.index.radii.ba_tree_ends import Radius
from prosem.index.radii.radius_block import RadiusBlocks


class PackedRadii(RadiusBlocks):
    """Blocks of radii, each also as 64-bit numbers one after the other: a search reads them without an object for each.

    A change packs one block anew, which takes some microseconds; copies share the others.

    >>> radii = PackedRadii("q", [2, 4, 6])
    >>> array("q", radii._packed[0]).tolist(), PackedRadii("q", [2, 2**70])._packed
    ([2, 4, 6], [None])
    """

    __slots__ = ("_packed", "_typecode")

    def __init__(self, typecode: str, radii: Iterable[Radius] = ()) -> None:
        self._typecode = typecode
        self._packed: list[bytes | None] = []  # None: not all of its radii fit
        super().__init__(radii)

    def _renewed(self, at: int, before: int, after: int) -> None:
        self._packed[at : at + before] = map(self._pack, self._blocks[at : at + after])

    def _pack(self, block: list[Radius]) -> bytes | None:
        try:
            return array(self._typecode, block).tobytes()
        except (OverflowError, TypeError):
            return None

    def shared(self, radius: Radius) -> Self:
        copied = super().shared(radius)
        copied._packed = list(self._packed)
        return copied

    def check(self) -> None:
        super().check()
        assert self._packed == [self._pack(block) for block in self._blocks], "each block is packed as it is"
