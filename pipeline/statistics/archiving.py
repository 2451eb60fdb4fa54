"""What a run adds to the archive: the rows of the log since the last one, typed, and copies of what is no log.

Each table is read and written by itself, since each has its own columns. Segments that an older version wrote, with rows
as JSON, are rewritten once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pipeline.statistics import StatisticsError, typed
from pipeline.statistics.archive import ROWS, Archive
from pipeline.statistics.catalog import Catalog, row_queries
from pipeline.statistics.database import Connection
from pipeline.statistics.definitions import Definitions
from pipeline.statistics.progress import Steps
from pipeline.statistics.segments import Segment
from pipeline.statistics.session import Session
from pipeline.statistics.typed import Columns, columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MICROSECONDS = "(extract(epoch FROM at) * 1000000)::bigint"
_EVENTS = (  # in the order of `typed.schema`
    f"SELECT seq, op, {_MICROSECONDS}, coalesce(request_end, seq), old::text, new::text,"
    " to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD') FROM prosem.event_log"
    " WHERE table_id = {table} AND seq > {after} AND seq <= {upto}"
)
# name: (schema in Spark, the query of a range)
COPIES = {
    "plan_measurement": (
        "seq long, group_id int, part int, plan string, descriptor string, server_time_us double, send_us double,"
        " bytes_out long, network_bytes long, latency_us double, affected long, at long",
        "SELECT seq, group_id, part, plan, array_to_json(descriptor)::text, server_time_us, send_us, bytes_out,"
        f" network_bytes, latency_us, affected, {_MICROSECONDS} FROM prosem.plan_measurement"
        " WHERE seq > {after} AND seq <= {upto}",
    ),
    "subscription": (
        "sid long, group_id int, active boolean, params string, sql string, notify string, per string, tenant string",
        "SELECT sid, group_id, active, params::text, sql, notify::text, per, statement.tenant FROM prosem.subscription"
        " JOIN prosem.statement ON statement.id = statement_id WHERE sid > {after} AND sid <= {upto}",
    ),
}  # fmt: skip
DEFINITION = "kind string, id int, tenant string, name string, definition string"
_UNTYPED = {  # as older versions wrote them
    "event_log": "seq long, op string, at long, request_end long, old string, new string, table_id int, day string",
    "base": "row string, table_id int",
}
_TABLE = re.compile(r"table_id=(\d+)")


COPY_AFTER = 4  # times as many events as the tables have rows, but no fewer than COPY_LEAST
COPY_LEAST = 100_000


def _is_copy_due(archive: Archive, upto: int) -> bool:
    """Whether there is no base copy, or the log since the last one is long: a backtest has to roll half of that at most."""
    if not archive.bases:
        return True
    last = archive.segments("base")[-1]
    rows = sum(content.rows for content in archive.manifest(last).tables.values())
    return upto - last.upto > max(COPY_LEAST, COPY_AFTER * rows)


def archived_definitions(archive: Archive) -> Definitions:
    """The tables and views as of the last run."""
    rows = archive.read("definition", DEFINITION).collect()
    return Definitions([tuple(row) for row in rows])


@dataclass
class Archiving:
    """One run's additions. `driver`: how PostgreSQL is read; `partitions` counts the queries of each table."""

    session: Session
    url: str
    driver: str
    steps: Steps
    connection: Connection
    partitions: dict[str, int] = field(default_factory=dict)

    def update(self, archive: Archive, catalog: Catalog) -> None:
        """Only what is new of the logs is read; subscriptions are copied as they are."""
        archive.clear()
        if archive.upto("event_log") > catalog.last_seq:
            raise StatisticsError(
                f"--archive {archive.folder} knows later events than the database, which was probably "
                "restored from a backup: give another folder"
            )
        # A table that was dropped since the last run is known from it.
        known = archived_definitions(archive).tables | catalog.tables
        columns = {number: columns_of(table) for number, table in known.items()}
        self._rewrite(archive, columns)
        after = max(archive.upto("event_log"), catalog.retained_after)
        measured = max(archive.upto("plan_measurement"), catalog.first_measurement - 1)

        def copy_measurements() -> None:
            with self.steps.step("archiving measurements"):
                rows = self._copy("plan_measurement", measured, catalog.last_measurement)
                archive.append("plan_measurement", rows, measured, catalog.last_measurement)

        def copy_subscriptions() -> None:
            with self.steps.step("archiving subscriptions"):
                rows = self._copy("subscription", 0, catalog.last_sid)
                archive.replace("subscription", rows, catalog.last_seq)

        with ThreadPoolExecutor(2) as pool:  # meanwhile Spark plans the others
            copies = [pool.submit(copy_subscriptions)]
            if catalog.last_measurement > measured:
                copies.append(pool.submit(copy_measurements))
            if catalog.last_seq > after:
                with self.steps.step("archiving the event log"):
                    self._events(archive, columns, after, catalog.last_seq)
            if _is_copy_due(archive, catalog.last_seq):
                with self.steps.step("copying the tables"):
                    archive.append_rows("base", self._rows(catalog), catalog.last_seq, catalog.last_seq)
        for copy in copies:
            copy.result()
        # Last: until then, tables that were dropped are known from the run before.
        definitions = self.session.spark.createDataFrame(catalog.definitions, DEFINITION)
        archive.replace("definition", definitions.coalesce(1), catalog.last_seq)

    # -- rows of tables -----------------------------------------------------------------------------------------
    def _events(self, archive: Archive, columns: Mapping[int, Columns], after: int, upto: int) -> None:
        from pipeline.statistics.source import ranges, table_rows

        parts = ranges(after, upto, self.session.partitions)
        self.partitions["event_log"] = len(parts)
        tables: dict[int, tuple[Columns, DataFrame]] = {}
        for number in self._with_events(columns, after, upto):
            queries = [_EVENTS.format(table=number, after=first, upto=last) for first, last in parts]
            rows = table_rows(
                self.session.spark, self.url, queries, "event_log", columns[number], self.driver
            )
            tables[number] = columns[number], rows
        left_out = self._left_out(columns, after, upto)
        archive.append_rows("event_log", tables, after, upto, left_out)

    def _with_events(self, columns: Mapping[int, Columns], after: int, upto: int) -> list[int]:
        """One look into the index per table."""
        found = self.connection.execute(
            "SELECT id FROM unnest(%s::int[]) id WHERE EXISTS"
            " (SELECT FROM prosem.event_log WHERE table_id = id AND seq > %s AND seq <= %s)",
            [list(columns), after, upto],
        )
        return [number for (number,) in found]

    def _left_out(self, columns: Mapping[int, Columns], after: int, upto: int) -> dict[int, int]:
        """The events of tables that were made and dropped between two runs; looked for between the known tables."""
        found: dict[int, int] = {}
        for low, high in pairwise([-1, *sorted(columns), 2**31 - 1]):
            if high - low > 1:
                found |= dict(
                    self.connection.execute(
                        "SELECT table_id, count(*) FROM prosem.event_log WHERE table_id > %s AND table_id < %s"
                        " AND seq > %s AND seq <= %s GROUP BY 1",
                        [low, high, after, upto],
                    ).fetchall()
                )
        return found

    def _rows(self, catalog: Catalog) -> dict[int, tuple[Columns, DataFrame]]:
        """The rows of all tables as of the catalog's snapshot."""
        from pipeline.statistics.source import table_rows

        made: dict[int, tuple[Columns, DataFrame]] = {}
        for table in catalog.tables.values():
            queries, columns = row_queries(self.connection, table), columns_of(table)
            if queries:
                rows = table_rows(
                    self.session.spark, self.url, queries, "base", columns, self.driver, catalog.snapshot
                )
                made[table.id] = columns, rows
        return made

    def _copy(self, name: str, after: int, upto: int) -> DataFrame:
        from pipeline.statistics.source import frame, ranges

        schema, query = COPIES[name]
        parts = ranges(after, upto, self.session.partitions)
        self.partitions[name] = len(parts)
        queries = [query.format(after=first, upto=last) for first, last in parts]
        return frame(self.session.spark, self.url, queries, schema, self.driver)

    # -- what an older version wrote ----------------------------------------------------------------------------
    def _rewrite(self, archive: Archive, columns: Mapping[int, Columns]) -> None:
        for name in ROWS:
            untyped = [segment for segment in archive.segments(name) if not segment.is_typed]
            if untyped:
                with self.steps.step(f"rewriting the archive's {name} with typed columns, once"):
                    for segment in untyped:
                        self._rewrite_segment(archive, name, segment, columns)

    def _rewrite_segment(
        self, archive: Archive, name: str, segment: Segment, columns: Mapping[int, Columns]
    ) -> None:
        spark = self.session.spark
        rows = spark.read.schema(_UNTYPED[name]).parquet(segment.path)
        tables: dict[int, tuple[Columns, DataFrame]] = {}
        left_out: dict[int, int] = {}
        for number in archive.table_ids(segment):
            own = rows.where(rows["table_id"] == number)
            if number not in columns:
                left_out[number] = own.count()
                continue
            schema = typed.schema(name, columns[number])
            if name == "event_log":
                own = own.selectExpr("*", "coalesce(request_end, seq) AS ends").drop("request_end")
                own = own.withColumnRenamed("ends", "request_end")
            own = own.select(*typed.raw(schema).names)
            made = own.mapInArrow(_converter(schema, columns[number]), typed.spark_schema(schema))
            tables[number] = columns[number], made
        archive.rewrite_rows(name, tables, segment, left_out)


def _converter(schema: Any, columns: Columns) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def converted(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield typed.convert(batch, schema, columns)

    return converted
