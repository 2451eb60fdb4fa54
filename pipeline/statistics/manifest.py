"""The manifest of a segment: what its files hold of each table, so that they can be read and verified without another.

It is JSON, beside the folders of the tables. The columns are those of the table when the segment was written: a table
may have others later, and readers ask for the columns that they know (`evolved`). The checksum is the exclusive or of
the hashes of all rows, so that neither their order nor the number of files matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from pipeline.statistics.typed import Columns, spark_schema, struct

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REMEDIES = {  # for files that are not as they were written, by what they hold
    "event_log": "restore it from a copy of the archive; without one, remove the folder of this segment and those of later"
    " segments of event_log: prosem stats refresh reads again what the log still has",
    "base": "remove the folder of this segment: the next prosem stats refresh copies the tables again",
}


class Content(msgspec.Struct, frozen=True):
    """What a segment holds of one table; of a base copy there are no seqs and moments. Files are by their bytes."""

    columns: Columns
    files: dict[str, int]
    rows: int = 0
    checksum: int = 0
    first_seq: int = 0
    last_seq: int = 0
    first_us: int = 0
    last_us: int = 0


class Manifest(msgspec.Struct, frozen=True):
    """`left_out`: how many events of tables whose columns were not known when the segment was written."""

    after: int
    upto: int
    tables: dict[int, Content]
    left_out: dict[int, int] = {}


def measures(rows: DataFrame) -> list[Column]:
    """What is counted of the rows of a table while they are written, and again when they are verified."""
    from pyspark.sql import functions as f

    stored = [
        f.col(name) for name in rows.columns if name != "day"
    ]  # which is a folder, and follows from the moment
    made = [f.count(f.lit(1)).alias("rows"), f.bit_xor(f.xxhash64(*stored)).alias("checksum")]
    if "seq" in rows.columns:
        moment = f.unix_micros("at")
        made += [f.min("seq").alias("first_seq"), f.max("seq").alias("last_seq")]
        made += [f.min(moment).alias("first_us"), f.max(moment).alias("last_us")]
    return made


def content(columns: Columns, measured: dict[str, Any], files: dict[str, int]) -> Content:
    """Of no rows at all everything is 0."""
    return Content(columns=columns, files=files, **{name: value or 0 for name, value in measured.items()})


def differences(written: Content, files: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """The files of a table that are not as the manifest has them, each with what is wrong with it.

    >>> written = Content((), {"a": 5, "b": 7})
    >>> list(differences(written, {"b": 8, "c": 1}))
    [('a', 'the file is missing'), ('b', 'the file has 8 bytes instead of 7'), ('c', 'the file is not of the segment')]
    """
    for file in sorted(files.keys() | written.files.keys()):
        had, has = written.files.get(file), files.get(file)
        if has is None:
            yield file, "the file is missing"
        elif had is None:
            yield file, "the file is not of the segment"
        elif had != has:
            yield file, f"the file has {has:,} bytes instead of {had:,}"


def evolved(field: Any, stored: Columns, columns: Columns) -> Column:
    """A field of the files as one with these columns of the table: NULL where the files have none of that name and type."""
    from pyspark.sql import functions as f

    whole = f.col(field.name)
    if stored == columns or field.type != struct(stored):
        return whole
    kinds = {one.name: one.dataType for one in spark_schema(pa.schema(struct(columns))).fields}
    values = [
        (whole.getField(name) if (name, kind) in stored else f.lit(None)).cast(kinds[name]).alias(name)
        for name, kind in columns
    ]
    return f.when(whole.isNotNull(), f.struct(*values)).alias(field.name)
