"""Equi-depth histograms of what executors compute in Python: each makes one sketch per item of its partition.

The sketches, a few kB each, are merged by item; no value is moved between executors. Columns of the log, whose values
Spark reads itself, have Spark's own sketches (see `columns`).

Hot keys come from the same sketches: a value that fills several of 1,024 ranks is as frequent as these, within the error of
two ranks. A sketch of quantiles with so small an error finds every value that is more frequent than twice the error, as a
sketch of frequent items of its size does; a second sketch would be one more pass over each value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from pipeline.statistics.kinds import kind
from pipeline.statistics.sketch import Sketch, distinct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKETS = 64
RANKS = 16 * BUCKETS  # at which quantiles are asked for
HOT_KEYS = 64  # at most, the most frequent ones
SKETCHES = "owner int, item string, type string, events long, nulls long, changes long, hashes binary, summary binary"
STATISTICS = (
    "owner int, item string, type string, events long, nulls long, changes long, distinct_values double,"
    " histogram string, rank_error double, hot_keys string"
)
_SKETCHES = pa.schema(
    [("owner", pa.int32()), ("item", pa.string()), ("type", pa.string())]
    + [(name, pa.int64()) for name in ("events", "nulls", "changes")]
    + [("hashes", pa.binary()), ("summary", pa.binary())]
)
Batches = Iterator[Any]


class Sketches:
    """The sketches of one partition, by owner (a table, a group) and which of its items they describe."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[str, Sketch]] = {}

    def of(self, owner: int, item: str, type_name: str) -> Sketch:
        found = self._known.get((owner, item))
        if found is None:
            made = kind(type_name)
            found = self._known[owner, item] = (type_name, Sketch(made.arrow, made.ordered))
        return found[1]

    def batches(self) -> Batches:
        rows = [
            (*at, name, one.events, one.nulls, one.changes, *one.pack())
            for at, (name, one) in self._known.items()
        ]
        if rows:
            yield pa.record_batch([list(values) for values in zip(*rows, strict=True)], schema=_SKETCHES)


def merged(sketches: DataFrame) -> DataFrame:
    """The sketches of one owner and item made one, and its figures taken."""
    return sketches.groupBy("owner", "item", "type").applyInArrow(_merge, STATISTICS)


def _merge(sketches: Any) -> Any:
    """The figures of one item, from the sketches of all partitions."""
    type_name = sketches["type"][0].as_py()
    made = kind(type_name)
    whole = Sketch(made.arrow, made.ordered)
    for packed_hashes, packed_summary in zip(sketches["hashes"], sketches["summary"], strict=True):
        whole.absorb(packed_hashes.as_py(), packed_summary.as_py())
    events, nulls, changes = (sum(sketches[name].to_pylist()) for name in ("events", "nulls", "changes"))
    found = whole.histogram(RANKS) if made.ordered else None
    histogram, error, hot = described(
        None if found is None else made.shown(found[0]), found[1] if found else 0.0
    )
    row = {
        "owner": pa.array([sketches["owner"][0].as_py()], pa.int32()),
        "item": [sketches["item"][0].as_py()],
        "type": [type_name],
        "events": [events],
        "nulls": [nulls],
        "changes": [changes],
        "distinct_values": [distinct(whole.hashes)],
        "histogram": pa.array([histogram], pa.string()),
        "rank_error": [error],
        "hot_keys": [hot],
    }
    return pa.table(row)


def described(quantiles: Sequence[Any] | None, error: float) -> tuple[str | None, float, str]:
    """The histogram of values whose quantiles at all `RANKS` are these, their error, and the hot keys."""
    if quantiles is None:
        return None, 0.0, "[]"
    bounds, hot = quantiles[:: RANKS // BUCKETS], hot_keys(quantiles, error)
    return msgspec.json.encode(bounds).decode(), error, msgspec.json.encode(hot).decode()


def hot_keys(quantiles: Sequence[Any], error: float) -> list[tuple[Any, float]]:
    """The values that are frequent beyond the error of two ranks, with the share that they have at least but for that.

    >>> hot_keys([1, *[2] * 513, *range(3, 514)], 0.001)
    [(2, 0.5)]
    >>> hot_keys([1, *[2] * 513, *range(3, 514)], 0.3)
    []
    """
    runs = ((value, sum(1 for _ in same)) for value, same in groupby(quantiles))
    shares = ((value, (count - 1) / (len(quantiles) - 1)) for value, count in runs)
    found = [(value, share) for value, share in shares if share > 2 * error]
    return sorted(found, key=lambda one: -one[1])[:HOT_KEYS]
