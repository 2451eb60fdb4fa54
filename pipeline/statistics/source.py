"""A Spark data source over PostgreSQL: every partition is one query, read as Arrow batches by an executor.

By ADBC, whose driver turns PostgreSQL's binary COPY into Arrow by itself (measured: 440k log rows/s in two partitions);
where it is not installed, COPY by psycopg, as CSV, with Arrow's reader (175k). The queries give integers, doubles and
texts only, so that both ways give the same; rows of tables, which they give as JSON, become typed columns here.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pipeline.statistics import typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_A_BATCH = 20_000
_ARROW = {"integer": pa.int32(), "long": pa.int64(), "double": pa.float64(), "string": pa.string()}
_ARROW["boolean"] = pa.bool_()


def driver() -> str:
    """The quickest way there is: `adbc`, else `copy`."""
    return "adbc" if importlib.util.find_spec("adbc_driver_postgresql") else "copy"


class PostgresSource(DataSource):
    """Options: `url`, `queries` (a JSON list, one a partition), `driver`, `snapshot` (of PostgreSQL; empty: none).

    `rows`: what is read are rows of a table, and how (`event_log` or `base`); `columns`: those of the table.
    """

    @classmethod
    def name(cls) -> str:
        return "prosem-postgres"

    def reader(self, schema: StructType) -> PostgresReader:
        return PostgresReader(schema, dict(self.options))


class PostgresReader(DataSourceReader):
    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self.url, self.driver, self.snapshot = options["url"], options["driver"], options["snapshot"]
        self.queries: list[str] = json.loads(options["queries"])
        self.fields = [(field.name, field.dataType.typeName()) for field in schema.fields]
        self.rows = options["rows"]
        self.columns: typed.Columns = tuple((name, kind) for name, kind in json.loads(options["columns"]))

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(query) for query in self.queries]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        batches = {"adbc": _by_adbc, "copy": _by_copy}[self.driver]
        query = cast(str, partition.value)
        if not self.rows:
            schema = pa.schema([(name, _ARROW[kind]) for name, kind in self.fields])
            yield from batches(self.url, query, schema, self.snapshot)
            return
        schema = typed.schema(self.rows, self.columns)
        for batch in batches(self.url, query, typed.raw(schema), self.snapshot):
            yield typed.convert(batch, schema, self.columns)


def frame(
    spark: SparkSession,
    url: str,
    queries: list[str],
    schema: str,
    driver_name: str = "",
) -> DataFrame:
    """The rows of the queries, each read in a partition of its own."""
    return _load(spark, url, queries, schema, driver_name)


def table_rows(
    spark: SparkSession,
    url: str,
    queries: list[str],
    rows: str,
    columns: typed.Columns,
    driver_name: str = "",
    snapshot: str = "",
) -> DataFrame:
    """Rows of a table as the archive has them (`rows`: `event_log` or `base`), of queries that give them as JSON."""
    schema = typed.spark_schema(typed.schema(rows, columns))
    options = {"rows": rows, "columns": json.dumps(columns), "snapshot": snapshot}
    return _load(spark, url, queries, schema, driver_name, options)


def _load(
    spark: SparkSession,
    url: str,
    queries: list[str],
    schema: str | StructType,
    driver_name: str,
    more: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    """Spark hides an option called url in its plans."""
    options = {"url": url, "queries": json.dumps(queries), "driver": driver_name or driver()}
    options |= {"rows": "", "columns": "[]", "snapshot": "", **more}
    return spark.read.format("prosem-postgres").options(**options).schema(schema).load()


def ranges(after: int, upto: int, parts: int) -> list[tuple[int, int]]:
    """`after < n <= upto` in at most so many parts of the same length.

    >>> ranges(10, 15, 2)
    [(10, 12), (12, 15)]
    >>> ranges(0, 1, 4), ranges(7, 7, 2)
    ([(0, 1)], [(7, 7)])
    """
    ends = sorted({after + (upto - after) * at // parts for at in range(parts + 1)})
    return list(itertools.pairwise(ends)) or [(after, upto)]


def _by_adbc(url: str, query: str, schema: pa.Schema, snapshot: str) -> Iterator[pa.RecordBatch]:
    from adbc_driver_postgresql import dbapi  # type: ignore[import-untyped]

    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        for statement in (*_entering(snapshot), query):
            cursor.execute(statement)
        for batch in cursor.fetch_record_batch():
            for start in range(0, batch.num_rows, ROWS_A_BATCH):
                yield batch.slice(start, ROWS_A_BATCH).rename_columns(schema.names).cast(schema)


def _by_copy(url: str, query: str, schema: pa.Schema, snapshot: str) -> Iterator[pa.RecordBatch]:
    from pyarrow import csv

    with psycopg.connect(url, client_encoding="utf8") as connection, connection.cursor() as cursor:
        for statement in _entering(snapshot):
            cursor.execute(statement.encode())
        text = f"COPY ({query}) TO STDOUT (FORMAT csv)"
        with cursor.copy(text.encode()) as copy:
            stream = io.BufferedReader(_Stream(iter(copy)), 1 << 20)
            if not stream.peek(1):
                return
            yield from csv.open_csv(
                stream,
                csv.ReadOptions(column_names=schema.names, block_size=4 << 20),
                csv.ParseOptions(newlines_in_values=True),
                csv.ConvertOptions(
                    column_types=schema,
                    null_values=[""],
                    true_values=["t"],
                    false_values=["f"],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )


def _entering(snapshot: str) -> tuple[str, ...]:
    """The first statements of a transaction that reads in another one's snapshot, with moments in UTC."""
    if not snapshot:
        return ()
    return (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        f"SET TRANSACTION SNAPSHOT '{snapshot}'",
        "SET LOCAL timezone = 'UTC'",
    )


class _Stream(io.RawIOBase):
    """What COPY sends, as a file."""

    def __init__(self, blocks: Iterator[Any]) -> None:
        self._blocks, self._rest = blocks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = bytes(block)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
