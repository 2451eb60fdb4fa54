"""How many rows have each join key: kept in the archive, and brought forward by the log.

A run adds the events since the last one to the counts that it kept: a row that came adds one to its key, a row that went
takes one away. Counts of a side that has none yet, or whose columns have another type now, begin at the last base copy of
the tables; so do all of them after a gap in the log. The tables themselves are not read. A run costs time in proportion to
the new events and the distinct keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as f

from pipeline.statistics.archive import Archive
from pipeline.statistics.catalog import Catalog, family
from pipeline.statistics.columns import union
from pipeline.statistics.typed import Columns, columns_of
from prosem.values.model import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STORED = "join_key"  # the folder of the archive
COUNTS = "table_id int, columns string, key string, rows long"


class Source(NamedTuple):
    """A table and the columns of it that are joined, with their types."""

    table_id: int
    columns: Columns

    @property
    def name(self) -> str:
        """The columns as the archive has them."""
        return json.dumps(self.columns)


def side_keys(archive: Archive, catalog: Catalog) -> DataFrame:
    """The keys of every side of a join (by its place in `catalog.sides`) with their rows, as of the end of the archive."""
    members = [
        (number, Source(table.id, _typed(table, side.columns)))
        for number, side in enumerate(catalog.sides)
        for table in family(catalog.tables, side.table)
    ]
    counts = bring_forward(archive, sorted({source for _, source in members}))
    wanted = [(number, source.table_id, source.name) for number, source in members]
    sides = counts.sparkSession.createDataFrame(wanted, "side int, table_id int, columns string")
    joined = counts.where("rows > 0").join(f.broadcast(sides), ["table_id", "columns"])
    return joined.groupBy("side", "key").agg(f.sum("rows").alias("rows"))


def _typed(table: Table, names: Iterable[str]) -> Columns:
    kinds = dict(columns_of(table))
    return tuple((name, kinds[name]) for name in names)


def bring_forward(archive: Archive, sources: Iterable[Source]) -> DataFrame:
    """Write the counts as of the end of the archive, and read them. A row without a key marks a source that is counted."""
    upto = archive.upto("event_log")
    kept = _kept(archive)
    known = set() if kept is None else {(one.table_id, one.columns) for one in _marks(kept.counts)}
    wanted = {(source.table_id, source.name): source for source in sources}
    if kept is not None and kept.upto == upto:
        if known == wanted.keys():
            return kept.counts
        known = set()  # the copy is about to be written over: all counts begin anew
    base = max(archive.bases)
    parts = []
    for identity, source in wanted.items():
        is_known = identity in known
        start = kept.upto if is_known and kept is not None else base
        parts.append(_moved(archive, source, start))
        if not is_known:
            parts.append(_counted(archive, source, base))
    marks = parts[0].sparkSession.createDataFrame([(*one, None, 0) for one in wanted], COUNTS)
    if kept is not None and known:
        parts.append(
            kept.counts.join(
                f.broadcast(marks.select("table_id", "columns")), ["table_id", "columns"], "left_semi"
            )
        )
    together = union([marks, *parts]).groupBy("table_id", "columns", "key").agg(f.sum("rows").alias("rows"))
    archive.replace(STORED, together.where("rows <> 0 OR key IS NULL"), upto)
    return archive.read(STORED, COUNTS)


class _Kept(NamedTuple):
    counts: DataFrame
    upto: int


def _kept(archive: Archive) -> _Kept | None:
    """The counts of the last run; None if there are none, or if events since then are not in the archive."""
    upto = archive.upto(STORED)
    if not archive.segments(STORED) or not archive.log_start <= upto <= archive.upto("event_log"):
        return None
    return _Kept(archive.read(STORED, COUNTS), upto)


def _marks(counts: DataFrame) -> list[Any]:
    return counts.where("key IS NULL").select("table_id", "columns").collect()


def _counted(archive: Archive, source: Source, base: int) -> DataFrame:
    """The keys of the rows in the base copy as of this seq, one row each."""
    rows = archive.rows("base", source.table_id, source.columns, base, base)
    return _keyed(rows.select(_key("row", source.columns).alias("key"), f.lit(1).alias("rows")), source)


def _moved(archive: Archive, source: Source, after: int) -> DataFrame:
    """What the events after this seq add to keys and take from them."""
    events = archive.rows("event_log", source.table_id, source.columns, after + 1).where(f"seq > {after}")
    keys = events.select(*[_key(name, source.columns).alias(name) for name in ("new", "old")])
    moved = keys.where(~f.col("new").eqNullSafe(f.col("old")))
    changes = f.array(*[
        f.struct(f.col(name).alias("key"), f.lit(sign).alias("rows")) for name, sign in (("new", 1), ("old", -1))
    ])  # fmt: skip
    return _keyed(moved.select(f.explode(changes).alias("one")).select("one.*"), source)


def _keyed(rows: DataFrame, source: Source) -> DataFrame:
    """Rows of `COUNTS`; a row with a NULL in its key joins no row."""
    table, columns = f.lit(source.table_id).cast("int"), f.lit(source.name)
    present = rows.where("key IS NOT NULL")
    return present.select(
        table.alias("table_id"), columns.alias("columns"), "key", f.col("rows").cast("long")
    )


def _key(row: str, columns: Columns) -> Column:
    """The key of a row as text, the same for equal keys; NULL where there is no row, or a NULL in its key."""
    values = []
    for name, kind in columns:
        value = f.col(row).getField(name)
        values.append(value + f.lit(0.0) if kind == "double precision" else value)  # -0.0 equals 0.0
    whole = f.to_json(f.struct(*[value.alias(f"c{at}") for at, value in enumerate(values)]))
    present = f.lit(True)
    for value in values:
        present = present & value.isNotNull()
    return f.when(present, whole)
