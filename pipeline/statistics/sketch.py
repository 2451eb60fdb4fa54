"""What is kept of a column while its values pass by: an equi-depth summary and a count of distinct values.

*Quantiles.* A summary is sorted points with weights. Compressing one of n values to k points takes the values at the
middle of k runs of equal weight, so that no rank moves by more than n / 2k; merging adds weights and errors. Summaries
are merged 32 at a time, level by level, so that n values cost log32(n / 65536) + 2 compressions: an error of about 0.2
%, which `error` bounds exactly, whatever the values are (the scheme of Manku, Rajagopalan and Lindsay, SIGMOD 1998).

*Distinct values.* The k least of their hashes ([Bar-Yossef]): up to k the count is exact, beyond it the k-th
least says how dense they lie, with a standard error of 1/√k = 1.6 %.

Memory is a few hundred kB per column, whatever passes by. A sort of everything would be exact, and move all values
through the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

POINTS = 1024
HASHES = 4096
BUFFER = 65_536
SAMPLE = 4_096
FAN_IN = 32
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Summary:
    """Sorted points, the weight of each, and by how many ranks an estimate can be wrong."""

    points: Any
    weights: npt.NDArray[np.float64]
    error: float

    @property
    def count(self) -> float:
        return float(self.weights.sum())

    def check(self) -> None:
        """The invariants: sorted, positive weights, and as many points as weights."""
        assert len(self.points) == len(self.weights)
        assert len(self.points) == 0 or (self.weights > 0).all()
        assert self.error >= 0
        if len(self.points) > 1:
            assert pc.all(pc.less_equal(self.points[:-1], self.points[1:])).as_py()

    def compressed(self, size: int = POINTS) -> Summary:
        """At most `size` points; adds half a run to the error."""
        if len(self.points) <= size:
            return self
        total = self.count
        ranks = (np.arange(size) + 0.5) * (total / size)
        chosen = np.searchsorted(np.cumsum(self.weights), ranks, side="left").clip(max=len(self.points) - 1)
        weights = np.full(size, total / size)
        return Summary(self.points.take(pa.array(chosen)), weights, self.error + total / (2 * size))

    def bounds(self, buckets: int) -> tuple[Any, float]:
        """The ends of so many runs of equal weight, and the share of values by which their ranks can be wrong."""
        total = self.count
        ranks = np.arange(1, buckets) * (total / buckets)
        chosen = np.searchsorted(np.cumsum(self.weights), ranks, side="left").clip(max=len(self.points) - 1)
        return self.points.take(pa.array(chosen)), min(1.0, (self.error + 1) / total)


def sorted_values(values: Any) -> Summary:
    """All of some values; where the first ones repeat, each is sorted once, which takes an eighth of the time for texts."""
    first = values[:SAMPLE]
    if 2 * len(pc.unique(first)) > len(first):
        return Summary(values.take(pc.sort_indices(values)), np.ones(len(values)), 0.0)
    counted = pc.value_counts(values)
    points, counts = counted.field("values"), counted.field("counts")
    order = pc.sort_indices(points)
    return Summary(points.take(order), counts.take(order).to_numpy().astype(np.float64), 0.0)


def merged(summaries: Sequence[Summary], size: int = POINTS) -> Summary:
    points = pa.concat_arrays([one.points for one in summaries])
    weights = np.concatenate([one.weights for one in summaries])
    order = pc.sort_indices(points)
    together = Summary(points.take(order), weights[order.to_numpy()], sum(one.error for one in summaries))
    return together.compressed(size)


def hashes(values: Any) -> Hashes:
    """The least hashes of the distinct values of an array."""
    unique = pc.unique(values)
    if pa.types.is_temporal(unique.type):
        unique = unique.cast(pa.int32() if pa.types.is_date32(unique.type) else pa.int64())
    made: Hashes = pd.util.hash_array(unique.to_numpy(zero_copy_only=False), categorize=False)
    return least([made])


def least(parts: Iterable[Hashes]) -> Hashes:
    return np.unique(np.concatenate(list(parts)))[:HASHES]


def distinct(found: Hashes) -> float:
    """How many values have these least hashes."""
    if len(found) < HASHES:
        return float(len(found))
    return (HASHES - 1) / (float(found[-1]) / 2**64)


@dataclass
class Sketch:
    """All that is kept of one column. `take` values, then `close`."""

    arrow: Any
    ordered: bool = True
    is_counted: bool = True  # distinct values
    events: int = 0
    nulls: int = 0
    changes: int = 0
    ends: Any = None
    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    levels: list[list[Summary]] = field(default_factory=lambda: [[]])
    _buffer: list[Any] = field(default_factory=list)
    _buffered: int = 0

    def take(self, values: Any) -> None:
        """An array without NULL."""
        if len(values):
            self._buffer.append(values)
            self._buffered += len(values)
            if self._buffered >= BUFFER:
                self._flush()

    def _flush(self) -> None:
        if not self._buffer:
            return
        values = pa.concat_arrays(self._buffer)
        self._buffer, self._buffered = [], 0
        if self.is_counted:
            self.hashes = least([self.hashes, hashes(values)])
        if not self.ordered:
            return
        exact = sorted_values(values)
        self._widen(exact.points)
        self._add(0, exact.compressed())

    def _widen(self, points: Any) -> None:
        """The least and the greatest value are exact."""
        outer = points.take(pa.array([0, len(points) - 1]))
        both = outer if self.ends is None else pa.concat_arrays([self.ends, outer])
        order = pc.sort_indices(both)
        self.ends = both.take(pa.array([order[0].as_py(), order[-1].as_py()]))

    def _add(self, level: int, one: Summary) -> None:
        if level == len(self.levels):
            self.levels.append([])
        self.levels[level].append(one)
        if len(self.levels[level]) == FAN_IN:
            together, self.levels[level] = merged(self.levels[level]), []
            self._add(level + 1, together)

    def close(self) -> Summary:
        """One summary of everything taken."""
        self._flush()
        parts = [one for level in self.levels for one in level]
        return merged(parts) if parts else Summary(pa.array([], self.arrow), np.empty(0), 0.0)

    # -- between executors -----------------------------------------------------------------------------------
    def pack(self) -> tuple[bytes, bytes]:
        """The hashes and the summary as bytes."""
        whole = self.close()
        ends = pa.array([], self.arrow) if self.ends is None else self.ends
        points = pa.concat_arrays([ends, whole.points])
        weights = pa.array(np.concatenate([np.zeros(len(ends)), whole.weights]))
        schema = pa.schema(
            [("points", points.type), ("weights", pa.float64())], {b"error": repr(whole.error).encode()}
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(pa.record_batch([points, weights], schema=schema))
        return self.hashes.tobytes(), sink.getvalue().to_pybytes()

    def absorb(self, packed_hashes: bytes, packed_summary: bytes) -> None:
        """What another executor kept of the same column."""
        self.hashes = least([self.hashes, np.frombuffer(packed_hashes, np.uint64)])
        with pa.ipc.open_stream(packed_summary) as reader:
            table = reader.read_all()
            error = float(reader.schema.metadata[b"error"])
        if table.num_rows:
            points, weights = table["points"].combine_chunks(), table["weights"].to_numpy()
            self._widen(points[:2])
            self._add(0, Summary(points[2:], weights[2:], error))

    def histogram(self, buckets: int) -> tuple[Any, float] | None:
        """The bounds of an equi-depth histogram, and the share by which their ranks can be wrong."""
        whole = self.close()
        if not len(whole.points):
            return None
        inner, error = whole.bounds(buckets)
        return pa.concat_arrays([self.ends[:1], inner, self.ends[1:]]), error
