"""The training set of the estimator: for each group, or part of one, few measurements that cover the descriptors of all.

Centres are chosen by farthest-first traversal ([Gonzalez]): each next one is the descriptor farthest from all
centres so far, so that with k of them no descriptor is farther from its centre than twice what the best k could reach.
Each executor reduces its partition to k as it reads, and the centres of all are reduced once more (a composable
core-set, within a constant of the best). An entry holds the mean of what was measured in its cell: a measurement on its
own is mostly noise. Dimensions are scaled to the same width.

A measurement weighs half of one that is `HALF_LIFE_DAYS` younger. Weights are powers of two that grow with the moment, so
that entries made in different nights are combined as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIGURES = ("server_time", "response_time", "server_stress", "bandwidth", "affected")
MEANS = (*FIGURES, "at")  # `at`: the moment, in µs since 1970
HALF_LIFE_DAYS = 30
_DAY_US = 86_400_000_000
_EPOCH_US = 1_577_836_800_000_000  # 2020: the weights of a century are doubles
ENTRIES = "group_id long, part int, plan string, descriptor string, weight double, " + ", ".join(
    f"{name} double" for name in MEANS
)
_SCHEMA = pa.schema(
    [("group_id", pa.int64()), ("part", pa.int32()), ("plan", pa.string()), ("descriptor", pa.string())]
    + [(name, pa.float64()) for name in ("weight", *MEANS)]
)
BUFFER = 4  # times the number of entries: how many wait before they are reduced
Array = npt.NDArray[np.float64]
Key = tuple[int, int, str, int]  # group, part, plan, length of a descriptor


def entries_of(measurements: DataFrame, size: int) -> DataFrame:
    """At most so many entries per group, part and plan of each partition; rows of `ENTRIES`.

    The cost model's four metrics ([ProSem thesis] 6.4.2), in µs and bytes per event: server time is processing and sending,
    response time the latency, server stress what leaves the server, bandwidth what the network carries.
    """
    from pyspark.sql import functions as f

    at = f.coalesce("at", f.lit(0))
    rows = measurements.select(
        f.col("group_id").cast("long"),
        f.coalesce("part", f.lit(0)).alias("part"),  # older segments have none
        "plan",
        "descriptor",
        f.pow(f.lit(2.0), (at - _EPOCH_US) / (HALF_LIFE_DAYS * _DAY_US)).alias("weight"),
        (f.col("server_time_us") + f.col("send_us")).alias("server_time"),
        f.col("latency_us").alias("response_time"),
        f.col("bytes_out").cast("double").alias("server_stress"),
        f.col("network_bytes").cast("double").alias("bandwidth"),
        f.col("affected").cast("double"),
        at.cast("double").alias("at"),
    )
    return rows.mapInArrow(_reduce_batches(size), ENTRIES)


def combined(entries: DataFrame, size: int) -> DataFrame:
    """At most so many entries per group and part, shared evenly by its plans; rows of `ENTRIES`."""
    return entries.groupBy("group_id", "part").applyInArrow(_reduce_group(size), ENTRIES)


def cover(descriptors: Array, size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The positions of at most `size` centres, and for each descriptor which of them is the nearest.

    Every centre is a new descriptor; O(size · n) vector operations. Ties go to the first: the same input gives the
    same.

    >>> centres, nearest = cover(np.array([[0.0], [1.0], [10.0], [9.0]]), 2)
    >>> centres.tolist(), nearest.tolist()
    ([0, 2], [0, 0, 1, 1])
    """
    low, high = descriptors.min(axis=0), descriptors.max(axis=0)
    scaled = (descriptors - low) / np.where(high > low, high - low, 1.0)
    centres = [0]
    nearest = np.zeros(len(scaled), np.int64)
    distance = ((scaled - scaled[0]) ** 2).sum(axis=1)
    while len(centres) < size:
        farthest = int(distance.argmax())
        if distance[farthest] == 0:
            break
        to_new = ((scaled - scaled[farthest]) ** 2).sum(axis=1)
        closer = to_new < distance
        nearest[closer] = len(centres)
        distance = np.where(closer, to_new, distance)
        centres.append(farthest)
    return np.array(centres, np.int64), nearest


def reduced(descriptors: Array, figures: Array, weights: Array, size: int) -> tuple[Array, Array, Array]:
    """At most `size` entries: a descriptor that was measured, the mean figures of its cell, and how many they are of."""
    if not len(descriptors):
        return descriptors, figures, weights
    centres, nearest = cover(descriptors, size)
    total: Array = np.bincount(nearest, weights, len(centres)).astype(np.float64)
    sums = np.stack([np.bincount(nearest, column * weights, len(centres)) for column in figures.T], axis=1)
    return descriptors[centres], sums / total[:, None], total


class Entries:
    """Measurements of one group, plan and length of descriptor, never more than a few times `size` of them."""

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._parts: list[tuple[Array, Array, Array]] = []
        self._count = 0

    def take(self, descriptors: Array, figures: Array, weights: Array) -> None:
        step = self._size * BUFFER
        for start in range(0, len(weights), step):
            part = slice(start, start + step)
            self._parts.append((descriptors[part], figures[part], weights[part]))
            self._count += len(weights[part])
            if self._count > step:
                self._reduce()

    def _reduce(self) -> None:
        descriptors, figures, weights = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        self._parts = [reduced(descriptors, figures, weights, self._size)]
        self._count = len(self._parts[0][2])

    def close(self) -> tuple[Array, Array, Array]:
        self._reduce()
        return self._parts[0]


def _collect(known: dict[Key, Entries], batch: Any, size: int) -> None:
    """The rows of a batch to the entries of their group and plan."""
    groups, parts, plans, texts, weights = (batch.column(at).to_pylist() for at in range(5))
    figures = np.stack([batch.column(at).to_numpy() for at in range(5, 5 + len(MEANS))], axis=1)
    descriptors = msgspec.json.decode("[" + ",".join(texts) + "]")
    places: dict[Key, list[int]] = {}
    for at, (group, part, plan, descriptor) in enumerate(zip(groups, parts, plans, descriptors, strict=True)):
        places.setdefault((group, part, plan, len(descriptor)), []).append(at)
    for key, some in places.items():
        array = np.array([descriptors[at] for at in some], np.float64).reshape(len(some), key[-1])
        if key[-1] == 0:
            array = np.zeros((len(some), 1))  # no descriptor at all is one place
        known.setdefault(key, Entries(size)).take(
            array, figures[some], np.array([weights[at] for at in some])
        )


def _rows(known: dict[Key, Entries]) -> Any:
    made: list[tuple[Any, ...]] = []
    for (group, part, plan, length), one in sorted(known.items(), key=lambda item: item[0]):
        for descriptor, figures, weight in zip(*one.close(), strict=True):
            text = msgspec.json.encode(descriptor[:length].tolist()).decode()
            made.append((group, part, plan, text, float(weight), *map(float, figures)))
    columns = list(zip(*made, strict=True)) or [()] * len(_SCHEMA)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=_SCHEMA)


def _reduce_batches(entries: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def reduce(batches: Iterator[Any]) -> Iterator[Any]:
        known: dict[Key, Entries] = {}
        for batch in batches:
            if batch.num_rows:
                _collect(known, batch, entries)
        yield _rows(known)

    return reduce


def _reduce_group(entries: int) -> Callable[[Any], Any]:
    def reduce(table: Any) -> Any:
        lengths = [len(msgspec.json.decode(text)) for text in table["descriptor"].to_pylist()]
        plans = len(set(zip(table["plan"].to_pylist(), lengths, strict=True)))
        known: dict[Key, Entries] = {}
        for batch in table.combine_chunks().to_batches():
            _collect(known, batch, max(1, entries // plans))
        return pa.Table.from_batches([_rows(known)])

    return reduce
