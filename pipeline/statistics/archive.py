"""The archive: what was read from PostgreSQL, as Parquet, so that it is read once and outlives the retention.

    <folder>/<id of the database>/event_log/segment=<after>-<upto>/table_id=<id>/day=<date>/   one segment per run
                                  base/segment=<seq>-<seq>/table_id=<id>/   the rows of each table as of this seq
                                  sketch/segment=<after>-<upto>/            of the log's segment (see `incremental`)
                                  join_key/segment=0-<upto>/                rows per join key as of it (see `join_keys`)
                                  plan_measurement/segment=<after>-<upto>/
                                  training/segment=<after>-<upto>/          of the measurements' (see `training`)
                                  definition/segment=<after>-<upto>/        tables and views; only the last copy is kept
                                  subscription/segment=<after>-<upto>/      likewise

Rows of tables are typed columns (see `typed`). The rows of a table at any seq of an unbroken log follow from one base
copy: the log is applied forwards from it, or taken back. A base copy is made at the beginning of the log, again when the
log since the last one has become long, and where the server's retention was shorter than the time between two runs, so
that events are missing.

A segment counts only if it is complete: if Spark has put its `_SUCCESS` into it, or, of rows of tables, if it has its
manifest (see `manifest`); both come last. A run that was killed leaves nothing that a later one would read, and its
remains are cleared away. Folders are reached by Hadoop's file systems: a path like s3a://… works as a local one does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING

import msgspec

from pipeline.statistics import StatisticsError
from pipeline.statistics.folders import Folders
from pipeline.statistics.manifest import REMEDIES, Content, Manifest, content, differences, evolved, measures
from pipeline.statistics.places import reason
from pipeline.statistics.segments import REWRITTEN, Segment, bounds_of, in_force, is_segment, segment_at
from pipeline.statistics.typed import Columns, schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLE = re.compile(r"table_id=(\d+)")
ROWS = {"event_log": ("day",), "base": ()}  # what holds rows of tables, and the folders within a table's
DERIVED = {
    "sketch": "event_log",
    "training": "plan_measurement",
}  # what is made of each segment of another one
MANIFEST = "_manifest.json"
WRITERS = 4  # tables that are written at a time: of a small one most of the time is Spark's own


class Archive:
    """The archive of one database in a folder. One run at a time uses it (the database's advisory lock sees to that)."""

    def __init__(self, spark: SparkSession, folder: str, database: str) -> None:
        self._spark, self.folder, self._folders = spark, folder, Folders(spark)
        self._root = f"{folder.rstrip('/')}/{database}"

    def check(self) -> None:
        """StatisticsError if the folder cannot be reached or made."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        try:
            is_there = self._folders.make(self._root)
        except Py4JError as error:
            raise StatisticsError(f"--archive {self.folder} cannot be used: {reason(error)}") from error
        if not is_there:
            raise StatisticsError(f"--archive {self.folder} cannot be used: its folder cannot be made")

    def databases(self) -> list[str]:
        """The databases that have an archive in the folder."""
        names = [path.getName() for path in self._folders.children(self.folder)]
        return sorted(name for name in names if self._folders.exists(f"{self.folder}/{name}/definition"))

    def segments(self, name: str) -> list[Segment]:
        """The complete segments of a table, in order, without those that another one covers: it was made of them."""
        found = []
        for path in self._folders.children(f"{self._root}/{name}"):
            segment = segment_at(str(path))
            if segment is None:
                continue
            is_typed = name in ROWS and self._folders.exists(f"{path}/{MANIFEST}")
            if is_typed or self._folders.exists(f"{path}/_SUCCESS"):
                found.append(segment._replace(is_typed=is_typed))
        return sorted(found) if name in DERIVED else in_force(found)

    def incomplete(self) -> list[str]:
        """The folders of segments that are not complete, not in their place, or replaced by one that covers them."""
        found = []
        for folder in self._folders.children(self._root):
            complete = {segment.path for segment in self.segments(folder.getName())}
            names = [path for path in self._folders.children(str(folder)) if is_segment(path.getName())]
            found += [str(path) for path in names if str(path) not in complete]
        return found

    def clear(self) -> None:
        """Remove what a killed run left incomplete. Only the run that holds the database's lock may."""
        for path in self.incomplete():
            if REWRITTEN in path and self._folders.exists(f"{path}/{MANIFEST}"):
                self._put_in_place(path)  # which it was killed before
            else:
                self._folders.remove(path)
        self.remove_unmatched()

    def remove_unmatched(self) -> None:
        """Remove what is of no segment in force: it was compacted, or removed to be read again."""
        for name, origin in DERIVED.items():
            bounds = {one[:2] for one in self.segments(origin)}
            for segment in self.segments(name):
                if segment[:2] not in bounds:
                    self._folders.remove(segment.path)

    def upto(self, name: str) -> int:
        """The greatest number that has been archived of a table."""
        return max((segment.upto for segment in self.segments(name)), default=0)

    @property
    def log_start(self) -> int:
        """The seq after which the log is archived without a gap."""
        start = self.upto("event_log")
        for segment in reversed(self.segments("event_log")):
            if segment.upto < start:
                break
            start = segment.after
        return start

    @property
    def bases(self) -> list[int]:
        """The seqs of base copies that the log is archived around, in order."""
        start = self.log_start
        return [segment.upto for segment in self.segments("base") if segment.upto >= start]

    def append(self, name: str, rows: DataFrame, after: int, upto: int) -> None:
        """Write what is new; it counts from the moment it is complete."""
        rows.write.mode("overwrite").parquet(f"{self._root}/{name}/segment={after}-{upto}")

    def replace(self, name: str, rows: DataFrame, upto: int) -> None:
        """Write a copy of a table that is no log; older copies go once it is complete."""
        older = [one for one in self.segments(name) if (one.after, one.upto) != (0, upto)]
        self.append(name, rows, 0, upto)
        for segment in older:
            self._folders.remove(segment.path)

    def read(self, name: str, schema: str) -> DataFrame:
        """All that is archived of what is no rows of tables."""
        paths = [segment.path for segment in self.segments(name)]
        return self.read_paths(name, schema, paths) if paths else self._spark.createDataFrame([], schema)

    def read_paths(self, name: str, schema: str, paths: list[str]) -> DataFrame:
        """Some of its segments."""
        read = self._spark.read.schema(schema).option("basePath", f"{self._root}/{name}")
        return read.parquet(*paths).drop("segment")

    # -- rows of tables -----------------------------------------------------------------------------------------
    def append_rows(
        self,
        name: str,
        tables: Mapping[int, tuple[Columns, DataFrame]],
        after: int,
        upto: int,
        left_out: Mapping[int, int] | None = None,
    ) -> Manifest:
        """Write a segment of tables, each with its columns; it counts from the moment its manifest is there.

        `left_out`: events of tables whose columns are not known, since they were dropped before they were archived.
        """
        return self._append_rows(name, f"{self._root}/{name}/segment={after}-{upto}", tables, left_out or {})

    def rewrite_rows(
        self,
        name: str,
        tables: Mapping[int, tuple[Columns, DataFrame]],
        segment: Segment,
        left_out: Mapping[int, int],
    ) -> None:
        """Put these rows in a segment's place, which may be what they are read from."""
        made = f"{self._root}/{name}/{REWRITTEN}segment={segment.after}-{segment.upto}"
        self._append_rows(name, made, tables, left_out)
        self._put_in_place(made)

    def _put_in_place(self, made: str) -> None:
        """In force from the moment that it is in its place; only then do those go that it was made of."""
        place = made.replace(REWRITTEN, "")
        new = segment_at(place)
        assert new is not None
        self._folders.remove(place)  # the same segment, as an older version wrote it
        self._folders.rename(made, place)
        for path in map(str, self._folders.children(place.rpartition("/")[0])):
            old = segment_at(path)
            if old is not None and old[:2] != new[:2] and new.covers(old):
                self._folders.remove(path)

    def table_ids(self, segment: Segment) -> list[int]:
        """The tables that a segment has a folder of."""
        names = [path.getName() for path in self._folders.children(segment.path)]
        return sorted(int(found[1]) for name in names if (found := _TABLE.fullmatch(name)))

    def _append_rows(
        self,
        name: str,
        path: str,
        tables: Mapping[int, tuple[Columns, DataFrame]],
        left_out: Mapping[int, int],
    ) -> Manifest:
        self._folders.remove(path)

        def write(number: int) -> tuple[int, Content]:
            columns, rows = tables[number]
            return number, self._write(f"{path}/table_id={number}", ROWS[name], columns, rows)

        with ThreadPoolExecutor(WRITERS) as pool:
            written = dict(pool.map(write, tables))
        manifest = Manifest(*bounds_of(path), written, dict(left_out))
        self._folders.put(f"{path}/{MANIFEST}", msgspec.json.format(msgspec.json.encode(manifest)))
        return manifest

    def _write(self, path: str, folders: tuple[str, ...], columns: Columns, rows: DataFrame) -> Content:
        from pyspark.sql import Observation

        seen = Observation()
        rows.observe(seen, *measures(rows)).write.mode("overwrite").partitionBy(*folders).parquet(path)
        return content(columns, seen.get, self._folders.files(path))

    def manifest(self, segment: Segment) -> Manifest:
        """StatisticsError if the segment is of an older version."""
        if not segment.is_typed:
            raise StatisticsError(
                f"the segment {segment.path} was written by an older version: prosem stats refresh rewrites it once"
            )
        return msgspec.json.decode(self._folders.get(f"{segment.path}/{MANIFEST}"), type=Manifest)

    def rows(
        self, name: str, table_id: int, columns: Columns, after: int = 0, upto: int | None = None
    ) -> DataFrame:
        """The rows of a table in the segments that end between these numbers, with these columns of the table.

        A column that a segment does not have, or has with another type, is NULL in its rows. StatisticsError if a file is
        not as it was written.
        """
        chosen: dict[Columns, list[str]] = {}
        for segment in self.segments(name):
            if after <= segment.upto and (upto is None or segment.upto <= upto):
                found = self.manifest(segment).tables.get(table_id)
                if found is not None and found.rows:
                    chosen.setdefault(found.columns, []).append(self._whole(name, segment, table_id, found))
        wanted = spark_schema(schema(name, columns))
        if not chosen:
            return self._spark.createDataFrame([], wanted)
        parts = [self._of_columns(name, paths, stored, columns) for stored, paths in chosen.items()]
        return reduce(lambda one, other: one.unionByName(other), parts)

    def moments(self, parts: Iterable[tuple[Segment, int, Content]]) -> DataFrame:
        """The seq and the moment of every event that some segments of the log have of some tables."""
        paths = [self._whole("event_log", *part) for part in parts]
        read = self._spark.read.schema("seq long, at timestamp").option("basePath", f"{self._root}/event_log")
        return read.parquet(*paths).select("seq", "at")

    def differences(self, segment: Segment, table_id: int, written: Content) -> Iterator[tuple[str, str]]:
        """The files of a table that are not as they were written, each with what is wrong with it."""
        path = f"{segment.path}/table_id={table_id}"
        for file, wrong in differences(written, self._folders.files(path)):
            yield f"{path}/{file}", wrong

    def _whole(self, name: str, segment: Segment, table_id: int, written: Content) -> str:
        """The folder of a table, if its files are as they were written: Spark would read what is there without a word."""
        for file, wrong in self.differences(segment, table_id, written):
            raise StatisticsError(f"{file}: {wrong}; {REMEDIES[name]}")
        return f"{segment.path}/table_id={table_id}"

    def segment_rows(self, name: str, segment: Segment, table_id: int, written: Content) -> DataFrame:
        """The rows that one segment has of a table, with the columns of its time."""
        path = self._whole(name, segment, table_id, written)
        return self._of_columns(name, [path], written.columns, written.columns)

    def counted(self, segment: Segment, after: int) -> dict[int, int]:
        """How many events a segment has of each table after a seq."""
        if not self.manifest(segment).tables:
            return {}
        rows = self._spark.read.schema("seq long, table_id int").parquet(segment.path)
        return {
            row.table_id: row["count"]
            for row in rows.where(f"seq > {after}").groupBy("table_id").count().collect()
        }

    def _of_columns(self, name: str, paths: list[str], stored: Columns, columns: Columns) -> DataFrame:
        read = self._spark.read.schema(spark_schema(schema(name, stored)))
        rows = read.option("basePath", f"{self._root}/{name}").parquet(*paths)
        return rows.select(*[evolved(field, stored, columns) for field in schema(name, stored)])


def only_database(spark: SparkSession, folder: str) -> str:
    """The only database of an archive."""
    names = Archive(spark, folder, "").databases()
    if not names:
        raise StatisticsError(f"--archive {folder} is empty: prosem stats refresh fills it")
    if len(names) > 1:
        raise StatisticsError(
            f"--archive {folder} has several databases; give --archive-of one of {', '.join(names)}"
        )
    return names[0]
