"""Folders of the archive, by Hadoop's file systems: a path like s3a://… works as a local one does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.statistics import StatisticsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folders:
    """Paths are texts; what `children` returns are Hadoop's own."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext

    def _path(self, text: str) -> tuple[Any, Any]:
        path = self._context._jvm.org.apache.hadoop.fs.Path(text)
        return path.getFileSystem(self._context._jsc.hadoopConfiguration()), path

    def make(self, text: str) -> bool:
        system, path = self._path(text)
        return bool(system.mkdirs(path))

    def exists(self, text: str) -> bool:
        system, path = self._path(text)
        return bool(system.exists(path))

    def remove(self, text: str) -> None:
        system, path = self._path(text)
        system.delete(path, True)

    def rename(self, text: str, to: str) -> None:
        system, path = self._path(text)
        if not system.rename(path, self._path(to)[1]):
            raise StatisticsError(f"--archive cannot be used: {text} cannot be renamed to {to}")

    def children(self, text: str) -> list[Any]:
        system, path = self._path(text)
        return [status.getPath() for status in system.listStatus(path)] if system.exists(path) else []

    def files(self, text: str) -> dict[str, int]:
        """The Parquet files below a folder, and how many bytes each has."""
        system, path = self._path(text)
        if not system.exists(path):
            return {}
        found, files = {}, system.listFiles(path, True)
        start = len(str(system.makeQualified(path).toString())) + 1
        while files.hasNext():
            one = files.next()
            name = one.getPath().toString()[start:]
            if name.endswith(".parquet"):
                found[name] = int(one.getLen())
        return found

    def put(self, text: str, data: bytes) -> None:
        """Write a small file, which is there as a whole or not at all."""
        system, path = self._path(f"{text}.new")
        stream = system.create(path, True)
        stream.write(bytearray(data))
        stream.close()
        self.rename(f"{text}.new", text)

    def get(self, text: str) -> bytes:
        system, path = self._path(text)
        stream = system.open(path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()
