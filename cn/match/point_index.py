"""Points in a box: which of a space's points lie in a region."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cn.match.block import FIRST, ID, WHOLE, Column, Ids
from cn.match.slabs import Slabs
from cn.match.span import Span, integer_span, object_span
from cn.match.tiles import Tiles
from cn.match.topics import Topics
from cn.model.geometry import Box, Point, Region

BLOCK_SIZE = 2048
BULK = 64  # from so many new points per block on, a batch is merged at once instead of one by one
NOT_ASKED: Span = (None, None, None)  # in the place of the ids
NO_IDS: Ids = np.empty(0, np.int64)
NO_IDS.flags.writeable = False


class PointIndex:
    """All points of one space: (id, topic, point), each triple at most once.

    With one or two dimensions the points stand in blocks by (topic, c0, c1, id), which makes the blocks slabs of the first
    dimension; with more the blocks are tiles, the leaves of a k-d tree. Within a block they are sorted by c1 (c0
    with one dimension), so a box costs two bisections a block; blocks are skipped by their bounds.

    Insert, remove and move cost O(log N + block). A find costs O(log N), the blocks that the box cuts and
    the points it holds. Slabs lose against tiles where a box is wide in c0 and narrow in c1: every slab in the box's
    width is then looked at, though few of its points are in the box. They win for (lo, hi) of one range, and never rebuild.

    With `int64` the codes are 64-bit integers and a missing end is INT64_MIN or INT64_MAX; otherwise they are
    any mutually comparable objects and a missing end is BOTTOM or TOP.

    >>> from cn.model.geometry import EVERYTHING, Interval
    >>> index = PointIndex(2, int64=True)
    >>> for id, point in enumerate([(10, 20), (10, 35), (30, 40)]):
    ...     index.insert(id, b"tech", point)
    >>> index.find(b"tech", ((Interval(None, 10), Interval(20, 35, low_open=True)),))
    array([1])
    >>> index.count(b"tech", ((EVERYTHING, EVERYTHING),)), index.any(b"food", ((EVERYTHING, EVERYTHING),))
    (3, False)
    """

    __slots__ = ("_blocks", "_length", "_topics", "dimensions", "int64")

    def __init__(self, dimensions: int, int64: bool, *, block_size: int = BLOCK_SIZE) -> None:
        if dimensions < 1 or block_size < 4:
            raise ValueError("an index needs at least one dimension and blocks of at least four points")
        self.dimensions, self.int64 = dimensions, int64
        self._length = 0
        self._topics = Topics()
        of_blocks: type[Slabs] | type[Tiles] = Slabs if dimensions <= 2 else Tiles
        self._blocks = of_blocks(dimensions, int64, block_size)

    def __len__(self) -> int:
        return self._length

    # -- changes -------------------------------------------------------------------------------------------
    def insert(self, id: int, topic: bytes, point: Point) -> None:
        """Add a point that is not there yet."""
        self._check(id, point)
        self._blocks.add((id, self._topics.take(topic), *point))
        self._length += 1

    def insert_many(
        self,
        ids: Sequence[int] | Ids,
        topics: bytes | Sequence[bytes],
        points: Sequence[Point] | NDArray[Any],
    ) -> None:
        """Add many points that are not there yet, under one topic or one each; a large batch at once.

        `points` is an array of n rows and one column per dimension, or n tuples.
        """
        length = len(ids)
        if len(points) != length or not (isinstance(topics, bytes) or len(topics) == length):
            raise ValueError("there must be as many points as ids, and one topic or as many")
        if not length:
            return
        codes = self._codes(points)
        ids = array("q", np.asarray(ids, np.int64).tobytes())
        if isinstance(topics, bytes):
            numbers = array("q", [self._topics.take(topics, length)]) * length
        else:
            numbers = array("q", map(self._topics.take, topics))
        if length < BULK * max(1, len(self._blocks.blocks)):
            for entry in zip(ids, numbers, *codes, strict=True):
                self._blocks.add(entry)
        else:
            self._blocks.merge([ids, numbers, *codes])
        self._length += length

    def remove(self, id: int, topic: bytes, point: Point) -> None:
        """Take a point out; KeyError if it is not there."""
        number = self._topics.number(topic)
        if number is None or len(point) != self.dimensions or not self._blocks.take((id, number, *point)):
            raise KeyError((id, topic, point))
        self._topics.release(number)
        self._length -= 1

    def move(self, id: int, old_topic: bytes, old_point: Point, topic: bytes, point: Point) -> None:
        """Take a point to another place; KeyError if it is not at the old one."""
        self._check(id, point)
        old_number = self._topics.number(old_topic)
        if old_number is None or len(old_point) != self.dimensions:
            raise KeyError((id, old_topic, old_point))
        number = self._topics.take(topic)
        is_moved = self._blocks.exchange((id, old_number, *old_point), (id, number, *point))
        self._topics.release(old_number if is_moved else number)
        if not is_moved:
            raise KeyError((id, old_topic, old_point))

    # -- questions -----------------------------------------------------------------------------------------
    def find(self, topic: bytes, region: Region) -> Ids:
        """The ids of the points under the topic in one of the (disjoint) boxes, in no order."""
        few, many = self._collect(topic, region, ID)
        if not many:
            return np.array(few, np.int64) if few else NO_IDS
        if few:
            many.append(np.array(few, np.int64))
        return np.concatenate(many) if len(many) > 1 else many[0]

    def codes(self, topic: bytes, region: Region, dimension: int) -> Ids | list[Any]:
        """One coordinate of each point that `find` gives, in its order."""
        few, many = self._collect(topic, region, FIRST + dimension)
        return np.concatenate([*many, np.array(few, np.int64)]) if self.int64 else few

    def entries(self, topic: bytes, region: Region) -> NDArray[np.int64]:
        """The points that `find` gives, in one search: their ids in the first line, then one line per dimension.

        For integer codes alone.
        """
        few, many = self._collect(topic, region, WHOLE)
        if few or not many:
            width = FIRST + self.dimensions
            many.append(np.array(few, np.int64).T if few else np.empty((width, 0), np.int64))
        found = np.concatenate(many, axis=1) if len(many) > 1 else many[0]
        return np.delete(found, 1, axis=0)  # the topic is known

    def _collect(self, topic: bytes, region: Region, selected: int) -> tuple[list[Any], list[Ids]]:
        few: list[Any] = []
        many: list[Ids] = []
        number = self._topics.number(topic)
        if number is not None:
            for box in region:
                spans = self._spans(number, box)
                if spans is not None:
                    self._blocks.collect(spans, few, many, selected=selected)
        return few, many

    def count(self, topic: bytes, region: Region) -> int:
        """How many points `find` gives."""
        return len(self.find(topic, region))

    def any(self, topic: bytes, region: Region) -> bool:
        """Whether `find` gives any point; looks no further than the first block that has one."""
        number = self._topics.number(topic)
        if number is None:
            return False
        for box in region:
            spans = self._spans(number, box)
            if spans is not None and self._blocks.collect(spans, [], [], first_only=True):
                return True
        return False

    def items(self) -> Iterator[tuple[int, bytes, Point]]:
        """All points as (id, topic, point), in no order; the index must not change meanwhile."""
        for block in self._blocks.blocks:
            for id, number, *point in zip(*block.columns, strict=True):
                yield id, self._topics.name(number), tuple(point)

    def sample(self, count: int, source: Random) -> list[Point]:
        """So many points at random, one perhaps twice; O(blocks + count)."""
        blocks = self._blocks.blocks
        chosen = source.choices(blocks, [len(block) for block in blocks], k=count) if blocks else []
        found = []
        for block in chosen:
            at = source.randrange(len(block))
            found.append(tuple([column[at] for column in block.columns[FIRST:]]))
        return found

    def population(self, topic: bytes) -> int:
        """How many points stand under a topic; O(1)."""
        number = self._topics.number(topic)
        return 0 if number is None else self._topics.uses(number)

    def thinned(self, count: int) -> list[Point]:
        """About `count` of the points, evenly from their order (all if there are fewer); O(blocks + count)."""
        step = max(1, self._length // count)
        found: list[Point] = []
        at = step // 2
        for block in self._blocks.blocks:
            columns, length = block.columns[2:], len(block.columns[0])
            found += [tuple([column[here] for column in columns]) for here in range(at, length, step)]
            at = (at - length) % step if at < length else at - length
        return found

    @property
    def visits(self) -> int:
        """Blocks looked at by all questions so far."""
        return self._blocks.visits

    @property
    def nbytes(self) -> int:
        """Bytes held, without the codes themselves where they are objects."""
        return self._blocks.nbytes + self._topics.nbytes

    def check(self) -> None:
        """Assert the invariants of blocks and topics."""
        self._blocks.check()
        uses = Counter(number for block in self._blocks.blocks for number in block.columns[1])
        self._topics.check(dict(uses))
        assert self._length == uses.total()

    def _spans(self, topic: int, box: Box) -> list[Span] | None:
        """The box as one span a column; None if it is seen to be empty."""
        if len(box) != self.dimensions:
            raise ValueError(f"a box of {len(box)} dimensions in a space of {self.dimensions}")
        as_span = integer_span if self.int64 else object_span
        spans = [NOT_ASKED, (topic, topic, None)]
        for side in box:
            span = as_span(side)
            if span is None:
                return None
            spans.append(span)
        return spans

    def _check(self, id: int, point: Point) -> None:
        """Refuse what the columns cannot hold, before anything has changed."""
        if len(point) != self.dimensions:
            raise ValueError(f"a point of {len(point)} dimensions in a space of {self.dimensions}")
        array("q", (id, *point) if self.int64 else (id,))

    def _codes(self, points: Sequence[Point] | NDArray[Any]) -> list[Column]:
        """The points as one column per dimension."""
        if not self.int64:
            for point in points:
                self._check(0, point)
            return [list(column) for column in zip(*points, strict=True)]
        vectors = np.asarray(points).astype(np.int64, casting="safe", copy=False)
        if vectors.ndim != 2 or vectors.shape[1] != self.dimensions:
            raise ValueError(f"points must have {self.dimensions} dimensions")
        return [array("q", vector.tobytes()) for vector in vectors.T]
