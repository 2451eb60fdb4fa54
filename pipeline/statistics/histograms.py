"""Column statistics from the event log: equi-depth histograms, distinct values, NULLs and changes.

What is counted is the row an event leaves behind (of a delete, the row it takes away): a row that is written ten times
counts ten times, since the optimizer prices events and not rows. Each executor makes one sketch a column of its
partition; the sketches, a few kB each, are merged by column. One pass over the log, and no value of it is moved between
executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from pipeline.statistics.kinds import kind
from pipeline.statistics.sketch import Sketch, distinct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from prosem.values.model import Table

BUCKETS = 64
SKETCHES = "owner int, item string, type string, events long, nulls long, changes long, hashes binary, summary binary"
STATISTICS = (
    "owner int, item string, type string, events long, nulls long, changes long, distinct_values double,"
    " histogram string, rank_error double"
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


def column_statistics(events: DataFrame, tables: Mapping[int, Table]) -> DataFrame:
    """One row of `STATISTICS` for each column of each table that has events; the item is the column's position."""
    types = {number: tuple(column.type.name for column in table.columns) for number, table in tables.items()}
    return merged(events.select("table_id", "old", "new").mapInArrow(_summarise(types), SKETCHES))


def merged(sketches: DataFrame) -> DataFrame:
    """The sketches of one owner and item made one, and its figures taken."""
    return sketches.groupBy("owner", "item", "type").applyInArrow(_merge, STATISTICS)


def _summarise(types: Mapping[int, Sequence[str]]) -> Callable[[Batches], Batches]:
    """`types`: of each table the names of its columns' types, which travel to the executors."""

    def summarise(batches: Batches) -> Batches:
        found = Sketches()
        for batch in batches:
            by_table: dict[int, tuple[list[str | None], list[str | None]]] = {}
            columns = (batch.column(at).to_pylist() for at in range(3))
            for table_id, old, new in zip(*columns, strict=True):
                olds, news = by_table.setdefault(table_id, ([], []))
                olds.append(old)
                news.append(new)
            for table_id, (olds, news) in by_table.items():
                if table_id in types:  # it may have been dropped since
                    _take(found, table_id, types[table_id], _decoded(olds), _decoded(news))
        yield from found.batches()

    return summarise


def _decoded(texts: list[str | None]) -> list[list[Any] | None]:
    """JSON arrays, decoded at once: several times as quick as one by one."""
    made: list[list[Any] | None] = msgspec.json.decode(
        "[" + ",".join([text or "null" for text in texts]) + "]"
    )
    return made


def _take(
    found: Sketches,
    table_id: int,
    types: Sequence[str],
    olds: list[list[Any] | None],
    news: list[list[Any] | None],
) -> None:
    rows = [old if new is None else new for old, new in zip(olds, news, strict=True)]
    pairs = [(old, new) for old, new in zip(olds, news, strict=True) if old is not None and new is not None]
    before = list(zip(*[old for old, _ in pairs], strict=True)) or [()] * len(types)
    after = list(zip(*[new for _, new in pairs], strict=True)) or [()] * len(types)
    for at, values in enumerate(zip(*[row for row in rows if row is not None], strict=True)):
        sketch = found.of(table_id, str(at), types[at])
        present = [value for value in values if value is not None]
        sketch.events += len(values)
        sketch.nulls += len(values) - len(present)
        sketch.changes += sum(map(_differ, before[at], after[at]))
        sketch.take(kind(types[at]).array(present))


def _differ(one: Any, other: Any) -> bool:
    return bool(one != other)


def _merge(sketches: Any) -> Any:
    """The figures of one item, from the sketches of all partitions."""
    type_name = sketches["type"][0].as_py()
    made = kind(type_name)
    whole = Sketch(made.arrow, made.ordered)
    for packed_hashes, packed_summary in zip(sketches["hashes"], sketches["summary"], strict=True):
        whole.absorb(packed_hashes.as_py(), packed_summary.as_py())
    events, nulls, changes = (sum(sketches[name].to_pylist()) for name in ("events", "nulls", "changes"))
    histogram, error = None, 0.0
    if made.ordered and (bounds := whole.histogram(BUCKETS)) is not None:
        histogram, error = msgspec.json.encode(made.shown(bounds[0])).decode(), bounds[1]
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
    }
    return pa.table(row)
