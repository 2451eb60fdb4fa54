"""The archive: what was read from PostgreSQL, as Parquet, so that it is read once and outlives the retention.

    <folder>/<id of the database>/event_log/segment=<after>-<upto>/table_id=<id>/day=<date>/   one segment per run
                                  base/segment=<seq>-<seq>/table_id=<id>/   the rows of each table as of this seq
                                  plan_measurement/segment=<after>-<upto>/
                                  definition/segment=<after>-<upto>/        tables and views; only the last copy is kept
                                  subscription/segment=<after>-<upto>/      likewise

The rows of a table at any seq of an unbroken log follow from one base copy: the log is applied forwards from it, or taken
back. A base copy is made at the beginning of the log, and again where the server's retention was shorter than the time
between two runs, so that events are missing.

A segment counts only if Spark has put its `_SUCCESS` into it, which comes last: a run that was killed leaves nothing
that a later one would read, and its remains are cleared away. Folders are reached by Hadoop's file systems: a path like
s3a://… works as a local one does.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.statistics import StatisticsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SEGMENT = re.compile(r"segment=(\d+)-(\d+)")
PARTITIONS = {"event_log": ("table_id", "day"), "base": ("table_id",)}  # the folders of a segment


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
    """The rows after one number up to another, in one folder."""

    after: int
    upto: int
    path: str


class Archive:
    """The archive of one database in a folder. One run at a time uses it (the database's advisory lock sees to that)."""

    def __init__(self, spark: SparkSession, folder: str, database: str) -> None:
        self._spark, self._folder = spark, folder
        self._root = f"{folder.rstrip('/')}/{database}"

    def check(self) -> None:
        """StatisticsError if the folder cannot be reached or made."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        try:
            system, path = self._path(self._root)
            is_there = system.mkdirs(path)
        except Py4JError as error:
            raise StatisticsError(f"--archive {self._folder} cannot be used: {reason(error)}") from error
        if not is_there:
            raise StatisticsError(f"--archive {self._folder} cannot be used: its folder cannot be made")

    def databases(self) -> list[str]:
        """The databases that have an archive in the folder."""
        names = [path.getName() for path in self._children(self._folder)]
        return sorted(name for name in names if self._exists(f"{self._folder}/{name}/definition"))

    def segments(self, name: str) -> list[Segment]:
        """The complete segments of a table, in order; what is incomplete is removed."""
        found = []
        for path in self._children(f"{self._root}/{name}"):
            bounds = _SEGMENT.fullmatch(path.getName())
            if bounds is None:
                continue
            if self._exists(f"{path}/_SUCCESS"):
                found.append(Segment(int(bounds[1]), int(bounds[2]), str(path)))
            else:
                self._remove(str(path))
        return sorted(found)

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
        made = rows.write.mode("overwrite").partitionBy(*PARTITIONS.get(name, ()))
        made.parquet(f"{self._root}/{name}/segment={after}-{upto}")

    def replace(self, name: str, rows: DataFrame, upto: int) -> None:
        """Write a copy of a table that is no log; older copies go once it is complete."""
        older = [one for one in self.segments(name) if (one.after, one.upto) != (0, upto)]
        self.append(name, rows, 0, upto)
        for segment in older:
            self._remove(segment.path)

    def read(self, name: str, schema: str, after: int = 0, upto: int | None = None) -> DataFrame:
        """All that is archived of a table, in the segments that end between these numbers."""
        paths = [
            segment.path
            for segment in self.segments(name)
            if after <= segment.upto and (upto is None or segment.upto <= upto)
        ]
        if not paths:
            return self._spark.createDataFrame([], schema)
        read = self._spark.read.schema(schema).option("basePath", f"{self._root}/{name}")
        return read.parquet(*paths).drop("segment")

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
