"""The archive: what was read from PostgreSQL, as Parquet, so that it is read once and outlives the retention.

    <folder>/<id of the database>/event_log/segment=<after>-<upto>/table_id=<id>/day=<date>/   one segment per run
                                  base/segment=<seq>-<seq>/table_id=<id>/   the rows of each table as of this seq
                                  plan_measurement/segment=<after>-<upto>/
                                  definition/segment=<after>-<upto>/        tables and views; only the last copy is kept
                                  subscription/segment=<after>-<upto>/      likewise

Rows of tables are typed columns (see `typed`). The rows of a table at any seq of an unbroken log follow from one base
copy: the log is applied forwards from it, or taken back. A base copy is made at the beginning of the log, and again where
the server's retention was shorter than the time between two runs, so that events are missing.

A segment counts only if it is complete: if Spark has put its `_SUCCESS` into it, or, of rows of tables, if it has its
manifest (see `manifest`); both come last. A run that was killed leaves nothing that a later one would read, and its
remains are cleared away. Folders are reached by Hadoop's file systems: a path like s3a://… works as a local one does.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pipeline.statistics import StatisticsError
from pipeline.statistics.manifest import Content, Manifest, content, evolved, measures
from pipeline.statistics.typed import Columns, schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SEGMENT = re.compile(r"segment=(\d+)-(\d+)")
_TABLE = re.compile(r"table_id=(\d+)")
REWRITTEN = "_rewritten_"  # before the name of a segment that takes the place of another once it is complete
ROWS = {"event_log": ("day",), "base": ()}  # what holds rows of tables, and the folders within a table's
MANIFEST = "_manifest.json"
WRITERS = 4  # tables that are written at a time: of a small one most of the time is Spark's own


def check_folder(folder: str, master: str) -> None:
    """StatisticsError if a folder of this machine cannot hold the archive: found before Spark starts.

    What is meant by a path without a scheme is Hadoop's to say where it is configured, and on a cluster.
    """
    elsewhere = "PYSPARK_GATEWAY_PORT" in os.environ or "HADOOP_CONF_DIR" in os.environ
    if elsewhere or _SCHEME.match(folder) or not (master or "local").startswith("local"):
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError:
        raise StatisticsError(f"--archive {folder} is a file: give a folder") from None
    except (OSError, ValueError) as error:
        wrong = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StatisticsError(f"--archive {folder} cannot be used: {wrong}") from None


def reason(error: Exception) -> str:
    """The line of a long report that names the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    named = [line for line in lines if re.match(r"(: )?[\w.]+(Error|Exception)\b.*:", line)]
    return named[-1].removeprefix(": ") if named else lines[0]


class Segment(NamedTuple):
    """The rows after one number up to another, in one folder. `is_typed`: rows of tables, as this version writes them."""

    after: int
    upto: int
    path: str
    is_typed: bool = False


class Archive:
    """The archive of one database in a folder. One run at a time uses it (the database's advisory lock sees to that)."""

    def __init__(self, spark: SparkSession, folder: str, database: str) -> None:
        self._spark, self.folder = spark, folder
        self._root = f"{folder.rstrip('/')}/{database}"

    def check(self) -> None:
        """StatisticsError if the folder cannot be reached or made."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        try:
            system, path = self._path(self._root)
            is_there = system.mkdirs(path)
        except Py4JError as error:
            raise StatisticsError(f"--archive {self.folder} cannot be used: {reason(error)}") from error
        if not is_there:
            raise StatisticsError(f"--archive {self.folder} cannot be used: its folder cannot be made")

    def databases(self) -> list[str]:
        """The databases that have an archive in the folder."""
        names = [path.getName() for path in self._children(self.folder)]
        return sorted(name for name in names if self._exists(f"{self.folder}/{name}/definition"))

    def segments(self, name: str) -> list[Segment]:
        """The complete segments of a table, in order."""
        found = []
        for path in self._children(f"{self._root}/{name}"):
            bounds = _SEGMENT.fullmatch(path.getName())
            if bounds is None:
                continue
            is_typed = name in ROWS and self._exists(f"{path}/{MANIFEST}")
            if is_typed or self._exists(f"{path}/_SUCCESS"):
                found.append(Segment(int(bounds[1]), int(bounds[2]), str(path), is_typed))
        return sorted(found)

    def clear(self) -> None:
        """Remove what a killed run left incomplete. Only the run that holds the database's lock may."""
        for folder in self._children(self._root):
            name = folder.getName()
            for path in self._children(str(folder)):
                if path.getName().startswith(REWRITTEN):
                    if self._exists(f"{path}/{MANIFEST}"):  # it was killed while it put it in its place
                        self._put_in_place(str(path))
                    else:
                        self._remove(str(path))
            complete = {segment.path for segment in self.segments(name)}
            for path in self._children(str(folder)):
                if _SEGMENT.fullmatch(path.getName()) and str(path) not in complete:
                    self._remove(str(path))

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
            self._remove(segment.path)

    def read(self, name: str, schema: str) -> DataFrame:
        """All that is archived of what is no rows of tables."""
        paths = [segment.path for segment in self.segments(name)]
        if not paths:
            return self._spark.createDataFrame([], schema)
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
        place = made.replace(REWRITTEN, "")
        self._remove(place)
        system, path = self._path(made)
        system.rename(path, self._path(place)[1])

    def table_ids(self, segment: Segment) -> list[int]:
        """The tables that a segment has a folder of."""
        names = [path.getName() for path in self._children(segment.path)]
        return sorted(int(found[1]) for name in names if (found := _TABLE.fullmatch(name)))

    def _append_rows(
        self,
        name: str,
        path: str,
        tables: Mapping[int, tuple[Columns, DataFrame]],
        left_out: Mapping[int, int],
    ) -> Manifest:
        self._remove(path)

        def write(number: int) -> tuple[int, Content]:
            columns, rows = tables[number]
            return number, self._write(f"{path}/table_id={number}", ROWS[name], columns, rows)

        with ThreadPoolExecutor(WRITERS) as pool:
            written = dict(pool.map(write, tables))
        bounds = _SEGMENT.search(path)
        assert bounds is not None
        manifest = Manifest(int(bounds[1]), int(bounds[2]), written, dict(left_out))
        self._put(f"{path}/{MANIFEST}", msgspec.json.format(msgspec.json.encode(manifest)))
        return manifest

    def _write(self, path: str, folders: tuple[str, ...], columns: Columns, rows: DataFrame) -> Content:
        from pyspark.sql import Observation

        seen = Observation()
        rows.observe(seen, *measures(rows)).write.mode("overwrite").partitionBy(*folders).parquet(path)
        return content(columns, seen.get, self._files(path))

    def manifest(self, segment: Segment) -> Manifest:
        """StatisticsError if the segment is of an older version."""
        if not segment.is_typed:
            raise StatisticsError(
                f"the segment {segment.path} was written by an older version: prosem stats refresh rewrites it once"
            )
        return msgspec.json.decode(self._get(f"{segment.path}/{MANIFEST}"), type=Manifest)

    def rows(
        self, name: str, table_id: int, columns: Columns, after: int = 0, upto: int | None = None
    ) -> DataFrame:
        """The rows of a table in the segments that end between these numbers, with these columns of the table.

        A column that a segment does not have, or has with another type, is NULL in its rows.
        """
        chosen: dict[Columns, list[str]] = {}
        for segment in self.segments(name):
            if after <= segment.upto and (upto is None or segment.upto <= upto):
                found = self.manifest(segment).tables.get(table_id)
                if found is not None and found.rows:
                    chosen.setdefault(found.columns, []).append(f"{segment.path}/table_id={table_id}")
        wanted = spark_schema(schema(name, columns))
        if not chosen:
            return self._spark.createDataFrame([], wanted)
        parts = [self._of_columns(name, paths, stored, columns) for stored, paths in chosen.items()]
        return reduce(lambda one, other: one.unionByName(other), parts)

    def moments(self, after: int) -> DataFrame:
        """The seq and the moment of every event of the log after this seq, whatever its table."""
        paths = []
        for segment in self.segments("event_log"):
            if segment.upto > after and self.manifest(segment).tables:
                paths.append(segment.path)
        if not paths:
            return self._spark.createDataFrame([], "seq long, at timestamp")
        read = self._spark.read.schema("seq long, at timestamp").option("basePath", f"{self._root}/event_log")
        return read.parquet(*paths).select("seq", "at").where(f"seq > {after}")

    def _of_columns(self, name: str, paths: list[str], stored: Columns, columns: Columns) -> DataFrame:
        read = self._spark.read.schema(spark_schema(schema(name, stored)))
        rows = read.option("basePath", f"{self._root}/{name}").parquet(*paths)
        return rows.select(*[evolved(field, stored, columns) for field in schema(name, stored)])

    # -- Hadoop's file systems ----------------------------------------------------------------------------------
    def _path(self, text: str) -> tuple[Any, Any]:
        context: Any = self._spark.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(text)
        return path.getFileSystem(context._jsc.hadoopConfiguration()), path

    def _exists(self, text: str) -> bool:
        system, path = self._path(text)
        return bool(system.exists(path))

    def _remove(self, text: str) -> None:
        system, path = self._path(text)
        system.delete(path, True)

    def _children(self, text: str) -> list[Any]:
        system, path = self._path(text)
        return [status.getPath() for status in system.listStatus(path)] if system.exists(path) else []

    def _files(self, text: str) -> dict[str, int]:
        """The Parquet files below a folder, and how many bytes each has."""
        system, path = self._path(text)
        found, files = {}, system.listFiles(path, True)
        start = len(str(system.makeQualified(path).toString())) + 1
        while files.hasNext():
            one = files.next()
            name = one.getPath().toString()[start:]
            if name.endswith(".parquet"):
                found[name] = int(one.getLen())
        return found

    def _put(self, text: str, data: bytes) -> None:
        """Write a small file, which is there as a whole or not at all."""
        system, path = self._path(f"{text}.new")
        stream = system.create(path, True)
        stream.write(bytearray(data))
        stream.close()
        if not system.rename(path, self._path(text)[1]):
            raise StatisticsError(f"--archive {self.folder} cannot be used: {text} cannot be written")

    def _get(self, text: str) -> bytes:
        system, path = self._path(text)
        stream = system.open(path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()
