"""Rows per join key follow the log: after every run they are those of the tables, which are not read."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.statistics.archive import Archive
from pipeline.statistics.join_keys import STORED, Source, bring_forward
from pipeline.statistics.session import Session
from pipeline.statistics.typed import Columns, schema, spark_schema

T, U = 1, 2
COLUMNS: Columns = (("k", "integer"), ("g", "integer"), ("f", "double precision"), ("t", "text"))
BY_G = Source(T, (("g", "integer"),))
BY_F_T = Source(T, (("f", "double precision"), ("t", "text")))
OF_U = Source(U, (("g", "integer"),))
NOW = datetime(2026, 3, 1, tzinfo=UTC)
Row = tuple[Any, ...]


class World:
    """Two tables and their log, archived run by run as the job does it."""

    def __init__(self, session: Session, folder: Path, seed: int) -> None:
        self.spark, self.chance = session.spark, random.Random(seed)
        self.archive = Archive(session.spark, str(folder), "db")
        self.tables: dict[int, dict[int, Row]] = {T: {}, U: {}}
        self.seq = 0

    def row(self, key: int) -> Row:
        choose = self.chance.choice
        return key, choose((1, 2, 3, None)), choose((0.0, -0.0, 1.5, None)), choose(("", "a", 'q"', None))

    def run(self, count: int) -> None:
        after, events = self.seq, {T: list[Row](), U: list[Row]()}
        for _ in range(count):
            table, key = self.chance.choice((T, U)), self.chance.randrange(12)
            old, self.seq = self.tables[table].get(key), self.seq + 1
            new = None if old is not None and self.chance.random() < 0.3 else self.row(key)
            events[table].append((self.seq, "update", NOW, self.seq, old, new, "2026-03-01"))
            if new is None:
                del self.tables[table][key]
            else:
                self.tables[table][key] = new
        self._append("event_log", events, after)

    def copy_tables(self) -> None:
        self._append(
            "base",
            {table: [(row,) for row in rows.values()] for table, rows in self.tables.items()},
            self.seq,
        )

    def _append(self, name: str, rows: dict[int, list[Row]], after: int) -> None:
        shape = spark_schema(schema(name, COLUMNS))
        frames = {table: (COLUMNS, self.spark.createDataFrame(some, shape)) for table, some in rows.items()}
        self.archive.append_rows(name, frames, after, self.seq)

    def check(self, *sources: Source) -> None:
        found: dict[Source, list[int]] = {source: [] for source in sources}
        for one in bring_forward(self.archive, sources).where("key IS NOT NULL").collect():
            source = next(
                each for each in sources if (each.table_id, each.name) == (one.table_id, one.columns)
            )
            found[source].append(one.rows)
        names = [name for name, _ in COLUMNS]
        for source in sources:
            keys = Counter(
                tuple(row[names.index(name)] for name, _ in source.columns)
                for row in self.tables[source.table_id].values()
            )
            expected = [rows for key, rows in keys.items() if None not in key]
            assert sorted(found[source]) == sorted(expected), source


@pytest.fixture
def world(spark: Session, tmp_path: Path) -> World:
    return World(spark, tmp_path, seed=11)


def test_counts_follow_the_log(world: World) -> None:
    world.run(30)
    world.copy_tables()
    world.check(BY_G, OF_U)
    world.run(25)
    world.check(BY_G, OF_U)
    world.check(BY_G, OF_U)  # nothing new
    world.run(25)
    world.check(BY_G, BY_F_T, OF_U)  # a side that is new begins at the base copy
    world.check(BY_F_T)  # of the same seq
    assert len(world.archive.segments(STORED)) == 1


def test_a_run_reads_only_the_events_since_the_last_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(30)
    world.copy_tables()
    world.check(BY_G)
    world.run(10)
    asked: list[tuple[str, int]] = []
    rows = Archive.rows

    def noted(
        self: Archive, name: str, table_id: int, columns: Columns, after: int = 0, upto: int | None = None
    ) -> Any:
        asked.append((name, after))
        return rows(self, name, table_id, columns, after, upto)

    monkeypatch.setattr(Archive, "rows", noted)
    world.check(BY_G)
    assert asked == [("event_log", 31)]


def test_after_a_gap_in_the_log_counts_begin_at_the_new_copy(world: World) -> None:
    world.run(20)
    world.copy_tables()
    world.check(BY_G)
    missing = world.seq
    world.seq += 5  # events that were dropped before a run archived them
    for key in range(6):
        world.tables[T][key] = world.row(key)
    world._append("event_log", {T: [], U: []}, missing + 3)
    world.copy_tables()
    world.check(BY_G)
    world.run(15)
    world.check(BY_G)


def test_a_table_without_rows_is_counted_once(world: World) -> None:
    world.run(0)
    world.copy_tables()
    world.check(BY_G)
    assert bring_forward(world.archive, [BY_G]).count() == 1
