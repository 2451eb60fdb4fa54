"""The SV tree of one attribute: for each cell of codes the members that admit it, a bit vector and its count.

After FASTINT's SV trees ([Beretta] 5.3), which keep ⟨S, C, V⟩ at each of 2N leaves: O(N²) bits. Here the
leaves are a few dozen cells between quantiles of the members' ends, 4 bytes per member altogether; a vector
is then a superset at the two cells in which a member's ends lie, and candidates are verified. Members
are positions. V lies in chunks of positions, so that one member's bits are near each other and growing moves
nothing.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from cn.model.geometry import INT64_MAX, INT64_MIN

Vector = NDArray[np.uint64]
Integers = NDArray[np.int64]

CUTS = 31  # cuts between cells at most, so 32 cells and one for NULL
WORDS = 64  # 64-bit words of a chunk
CHUNK = 64 * WORDS  # positions of a chunk
DENSE = 4 * CHUNK  # up to so many positions unpacking all bits is quicker than looking for the words with any
_WORD = np.dtype("<u8")
_SET = [np.uint64(1 << bit) for bit in range(64)]
_CLEAR = [~bit for bit in _SET]


class SVTree:
    """Bit vectors over positions by cell; the last cell is NULL's.

    A member is `low, above, refuses`: the image of its least code, `~` that of its greatest, and whether NULL
    is refused. Put, clear and move cost O(cells); a vector costs nothing but is as long as the members are
    many, so it loses where an attribute admits few members: there canonical nodes part them beforehand.

    >>> tree = SVTree([10, 20])
    >>> tree.put(0, 5, ~12, True)
    >>> tree.put(1, 20, ~99, False)
    >>> tree.count(15), positions(tree.vector(15, 1)), positions(tree.vector(None, 1))
    (1, array([0]), array([1]))
    """

    __slots__ = ("_counts", "_cuts", "_vectors")

    def __init__(self, cuts: list[int]) -> None:
        self._cuts = cuts
        self._counts = np.zeros(len(cuts) + 2, np.int64)
        self._vectors = np.zeros((1, len(cuts) + 2, WORDS), _WORD)

    def _cell(self, code: int | None) -> int:
        return len(self._cuts) + 1 if code is None else bisect_right(self._cuts, code)

    def count(self, code: int | None) -> int:
        """How many members the vector of a code has."""
        return int(self._counts[self._cell(code)])

    def vector(self, code: int | None, chunks: int) -> Vector:
        """The members that may admit a code, one row per chunk; a view."""
        return self._vectors[:chunks, self._cell(code)]

    def put(self, position: int, low: int, above: int, refuses: bool) -> None:
        """Set the bits of a position that has none."""
        chunk, word, bit = position // CHUNK, position // 64 % WORDS, _SET[position % 64]
        self._reserve(chunk + 1)
        first, stop = bisect_right(self._cuts, low), bisect_right(self._cuts, ~above) + 1
        if low == above == INT64_MAX:
            stop = first  # no code at all
        if not refuses:
            if not first and stop > len(self._cuts):
                stop += 1
            else:
                self._vectors[chunk, -1, word] |= bit
                self._counts[-1] += 1
        if first < stop:
            self._vectors[chunk, first:stop, word] |= bit
            self._counts[first:stop] += 1

    def clear(self, position: int) -> None:
        """Clear the bits of a position."""
        column = self._vectors[position // CHUNK, :, position // 64 % WORDS]
        self._counts -= (column & _SET[position % 64]) != 0
        column &= _CLEAR[position % 64]

    def move(self, source: int, target: int) -> None:
        """Let the target have the bits of the source, which then has none."""
        self.clear(target)
        column = self._vectors[source // CHUNK, :, source // 64 % WORDS]
        bits = (column >> np.uint64(source % 64)) & _SET[0]
        column &= _CLEAR[source % 64]
        self._vectors[target // CHUNK, :, target // 64 % WORDS] |= bits << np.uint64(target % 64)

    def fill(self, start: int, low: Integers, above: Integers, refuses: NDArray[np.bool_]) -> None:
        """Set all bits of the chunk that starts at a position, for members one after the other."""
        chunk = start // CHUNK
        self._reserve(chunk + 1)
        cuts = np.array(self._cuts, np.int64)
        cells = np.arange(len(cuts) + 1, dtype=np.int8)[:, None]
        first = np.searchsorted(cuts, low, "right").astype(np.int8)
        last = np.searchsorted(cuts, ~above, "right").astype(np.int8)
        last[(low == INT64_MAX) & (above == INT64_MAX)] = -1
        bits = np.zeros((len(cells) + 1, CHUNK), np.bool_)
        np.logical_and(cells >= first, cells <= last, out=bits[:-1, : len(low)])
        bits[-1, : len(low)] = ~refuses
        self._counts += bits.sum(axis=1) - self._ones(chunk)
        self._vectors[chunk] = np.packbits(bits, axis=1, bitorder="little").view(_WORD)

    def _ones(self, chunk: int) -> Integers:
        packed = np.ascontiguousarray(self._vectors[chunk]).view(np.uint8)
        ones: Integers = np.unpackbits(packed, axis=1).sum(axis=1, dtype=np.int64)
        return ones

    def _reserve(self, chunks: int) -> None:
        have, cells, words = self._vectors.shape
        if chunks > have:  # zeros behind what is there; a large block is not even moved
            self._vectors.resize((max(chunks, have + have // 4), cells, words), refcheck=False)

    @property
    def nbytes(self) -> int:
        return self._vectors.nbytes + self._counts.nbytes + 8 * len(self._cuts)

    def check(self, low: Integers, above: Integers, refuses: NDArray[np.bool_]) -> None:
        """Assert that the bits and counts are those of these members, from position 0 on."""
        assert self._cuts == sorted(set(self._cuts))
        fresh = SVTree(self._cuts)
        for start in range(0, len(low), CHUNK):
            stop = start + CHUNK
            fresh.fill(start, low[start:stop], above[start:stop], refuses[start:stop])
        used = min(len(fresh._vectors), len(self._vectors))
        assert np.array_equal(fresh._vectors[:used], self._vectors[:used])
        assert not self._vectors[used:].any()
        assert not fresh._vectors[used:].any()
        assert np.array_equal(fresh._counts, self._counts)


def quantiles(low: Integers, above: Integers) -> list[int]:
    """Cuts for members with these ends: every end if they are few, otherwise as many ends between any two."""
    starts = low[(low != INT64_MIN) & (low != INT64_MAX)]
    stops = -above[(above != INT64_MIN) & (above != INT64_MAX)]  # one beyond the greatest code
    ends = np.sort(np.concatenate((starts, stops)))
    cuts: list[int] = sorted(set(ends.tolist()))
    if len(cuts) > CUTS:
        cuts = sorted(set(ends[np.linspace(0, len(ends) - 1, CUTS + 2).astype(np.int64)[1:-1]].tolist()))
    return cuts


def positions(vector: Vector) -> Integers:
    """The positions whose bits are set in a vector of one row per chunk."""
    words = np.ascontiguousarray(vector).reshape(-1)
    if len(words) * 64 <= DENSE:
        return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_))
    used = np.flatnonzero(words != 0)
    bits = np.flatnonzero(np.unpackbits(words[used].view(np.uint8), bitorder="little").view(np.bool_))
    found: Integers = (used[bits >> 6] << 6) + (bits & 63)
    return found
