"""The engine of a backtest, fed from a real server's log: for every type it notifies exactly as that server did."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import psycopg
import pytest

pytest.importorskip("pyarrow")

from pipeline.backtest.plan import ask, split
from pipeline.backtest.simulation import Event
from pipeline.backtest.worker import SliceRun, Work
from pipeline.statistics.definitions import Definitions
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.types.registry import TYPES
from prosem.values.model import Row
from prosem.values.wire import encode_exact
from tests.support.backtested import CASES, Case, Recorded, ordered, prepare, publish, record, requests
from tests.support.database import empty_database
from tests.support.live import Api
from tests.support.processes import ServerProcess


class World(NamedTuple):
    """A log with the seq at which a copy of the rows was taken, and what the server notified."""

    definitions: Definitions
    log: list[tuple[Any, ...]]  # seq, table_id, old, new, request_end
    recorded: Recorded


@pytest.fixture(scope="module")
def world(postgres: EmbeddedPostgres) -> World:
    url = empty_database(postgres)
    schema.migrate(url)
    server = ServerProcess("--database", url)
    made = requests(random.Random(18), 160)
    try:
        with Api(server.start()) as api:
            prepare(api)
            publish(api, made[:60])
            recorded = record(api, server, made[60:], CASES)
    finally:
        server.remove()
    with psycopg.connect(url) as connection:
        definitions = connection.execute(
            "SELECT 'table', id, tenant, name, definition::text FROM prosem.tenant_table"
            " UNION ALL SELECT 'view', id, tenant, name, sql FROM prosem.view_"
        ).fetchall()
        log = connection.execute(
            "SELECT seq, table_id, old::text, new::text, coalesce(request_end, seq) FROM prosem.event_log ORDER BY seq"
        ).fetchall()
    return World(Definitions(definitions), log, recorded)  # type: ignore[arg-type]


def backtest(world: World, case: Case, base: int, parts: int) -> list[tuple[int, int, Any]]:
    """All slices, one after the other; rows as of `base` come first."""
    question = ask(world.definitions, case.sql, case.notify, case.per, "default")
    ids = {table.id for table in question.tables}
    start = world.recorded.start
    log = [event for event in world.log if event[1] in ids]
    rows_at_base: dict[Any, tuple[int, str]] = {}
    for seq, table, old, new, _ in log:
        key = table, json.loads(new or old)[0]
        if seq <= base:
            rows_at_base.pop(key, None)
            if new is not None:
                rows_at_base[key] = table, new
    made = split(question, case.population, parts)
    work = Work(question.statement, question.tables, question.views, start, made.dividing)
    found: list[tuple[int, int, Any]] = []
    tables = {table.id: table for table in question.tables}

    def read(table: int, text: str | None) -> Row | None:
        return None if text is None else tables[table].read(json.loads(text))

    for number in range(made.count):

        def is_needed(*texts: str | None, number: int = number) -> bool:
            if made.dividing is None:
                return True
            values = {json.loads(text)[made.dividing.position] for text in texts if text is not None}
            read = {"null" if value is None else str(value) for value in values}  # as Spark reads it
            return any((value, number) in made.values for value in read)

        run = SliceRun(work, number)
        for at, params in enumerate(case.population):
            if made.slices[at] == number:
                run.subscribe(at, encode_exact(params).decode())
        base_rows = [one for one in rows_at_base.values() if is_needed(one[1])]
        run.load((table, None, read(table, text)) for table, text in base_rows)
        rolled = [event for event in log if base < event[0] <= start]
        rolled += [(-seq, table, new, old, 0) for seq, table, old, new, _ in log if start < seq <= base][::-1]
        for _, table, old, new, _ in rolled:
            if is_needed(old, new):
                run.roll([(table, read(table, old), read(table, new))])
        for seq, table, old, new, end in log:
            if start < seq and is_needed(old, new):
                run.apply([Event(seq, end, seq, table, read(table, old), read(table, new))])
        for batch in run.finish():
            for one in batch.to_pylist():
                found.append((one["subscription"], one["seq"], json.loads(one["change"])))
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("parts", [1, 3])
def test_a_backtest_notifies_as_the_server_did(world: World, name: str, parts: int) -> None:
    case, recorded = CASES[name], world.recorded
    assert recorded.notified[name], "the case is no test"
    for base in {1: (0, recorded.start), 3: (recorded.start - 7, recorded.end)}[parts]:
        assert ordered(backtest(world, case, base, parts)) == ordered(recorded.notified[name]), base


def test_the_cases_cover_every_type(world: World) -> None:
    asked = {
        ask(world.definitions, case.sql, case.notify, case.per, "default").form.type
        for case in CASES.values()
    }
    assert asked == {kind.name for kind in TYPES}


def test_constants_divide_the_events_and_company_stays_together(world: World) -> None:
    def of(name: str, parts: int = 3) -> Any:
        case = CASES[name]
        return split(
            ask(world.definitions, case.sql, case.notify, case.per, "default"), case.population, parts
        )

    by_symbol = of("average")
    assert by_symbol.dividing.position == 3
    assert len(set(by_symbol.slices)) == 3
    assert CASES["average"].population[0] == CASES["average"].population[-2]
    assert by_symbol.slices[0] == by_symbol.slices[-2], "one constant, one slice"
    both = of("minimum of symbols")
    assert {at for value, at in both.values if value == "b"} == set(both.slices[:2])
    assert of("minimum").dividing is None
    assert sorted(set(of("minimum").slices)) == [0, 1, 2]
    together = of("value by may and must")
    assert together.slices[2] == together.slices[3]
    assert of("join").dividing is None
    assert of("view").dividing is None
