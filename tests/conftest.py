"""Real parts for the tests: one PostgreSQL and one server for the whole run, each started by our own code."""

from __future__ import annotations

import gc
import inspect
import logging
import shutil
import time
import uuid
from collections.abc import Iterator

import hypothesis
import psycopg
import pytest
from prosem_client import Client
from psycopg import sql
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.log import Writer
from prosem.store.retention import Retention
from tests.support import authorities, scratch, secrets
from tests.support.database import empty_database
from tests.support.effort import SHORT, STRESS
from tests.support.live import Api
from tests.support.processes import ServerProcess, open_folder
from tests.support.waiting import bounded

LONGEST = {
    "test_statistics",
    "test_backtest",
    "test_acceptance",
    "test_attach_operation",
    "test_attach",
    "test_wheels",
    "test_brokers",
    "test_timelines",
    "test_join_live",
    "test_value_live",
    "test_value_recovery",
    "test_connections",
    "test_tenants",
    "test_cli",
    "test_console",
    "test_workers",
    "test_top_k",
    "test_new_type",
    "test_simulation",
    "test_brokers_long",
    "test_kit_on_networks",
    "test_kills",
    "test_nats_contract",
}  # begin first, so that no worker is left with one of them at the end
ON_SPARK = {
    "tests/pipeline/test_archive.py",
    "tests/pipeline/test_join_keys.py",
    "tests/pipeline/test_run_decides.py",
    "tests/pipeline/test_statistics.py",
    "tests/pipeline/test_backtest.py",
    "tests/pipeline/test_backtest_exactness.py",
    "tests/pipeline/test_cluster.py",
}
LEFT_OUT = "the seeds of this test have had their time"
SEEDS_S = 30.0  # that the seeds of one slow test may take in make stress
_seeds_s: dict[str, float] = {}  # that were taken, by test
_begun: set[tuple[str, str]] = set()  # tests with parameters other than the seed
# No test asserts a time; a busy machine must not fail one either.
for profile, number in (("short", SHORT), ("stress", STRESS)):
    hypothesis.settings.register_profile(
        profile,
        deadline=None,
        max_examples=number,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio alone."""
    return "asyncio"


class Scheduling(LoadFileScheduling):
    """The tests of a file run in one process, and so do all that need Spark: it is started once."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "spark" if file in ON_SPARK else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stress", action="store_true", help="also run the long checks")
    parser.addoption(
        "--images", action="store_true", help="write the documentation's screenshots to docs/images"
    )


def pytest_configure(config: pytest.Config) -> None:
    if scratch.begin():
        config.add_cleanup(scratch.end)
    authorities.shorten()
    hypothesis.settings.load_profile("stress" if config.getoption("--stress") else "short")


def pytest_collection_finish() -> None:
    """Servers that are built in this process collect garbage: they need not look at thousands of tests, which stay."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = bounded(item.obj)
        if "spark" in getattr(item, "fixturenames", ()) and item.nodeid.partition("::")[0] not in ON_SPARK:
            raise pytest.UsageError(f"{item.nodeid} starts a Spark of its own: name its file in ON_SPARK")
    if not config.getoption("--stress"):
        skip = pytest.mark.skip(reason="long; run by make stress")
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Seeds of a slow test are left out when they have had their time, but for the first of each other parameter."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or "seed" not in callspec.params or "slow" not in item.keywords:
        return (yield)
    name = item.nodeid.partition("[")[0]
    variant = name, str({key: value for key, value in callspec.params.items() if key != "seed"})
    if _seeds_s.get(name, 0.0) >= SEEDS_S and variant in _begun:
        pytest.skip(LEFT_OUT)
    _begun.add(variant)
    since = time.perf_counter()
    try:
        return (yield)
    finally:
        _seeds_s[name] = _seeds_s.get(name, 0.0) + time.perf_counter() - since


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tests that count say at the end how much they did."""
    if config.getoption("--stress"):
        passed, left = terminalreporter.getreports("passed"), terminalreporter.getreports("skipped")
        slow = sum("slow" in report.keywords for report in passed)
        seeds = sum(LEFT_OUT in str(report.longrepr) for report in left)
        terminalreporter.write_line(
            f"make stress: {len(passed)} passed, {slow} of them slow; {seeds} seeds left out, each of a test"
            f" whose seeds had taken {SEEDS_S:.0f} s"
        )
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "summary":
                terminalreporter.write_line(str(value))


@pytest.fixture(scope="session")
def log_of_tests() -> Iterator[secrets.Listening]:
    """Every record that is logged in this process."""
    handler = secrets.Listening()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.fixture(autouse=True)
def no_secret_in_logs(log_of_tests: secrets.Listening) -> Iterator[None]:
    """Logs of processes are looked at when these end (`tests/support/processes.py`)."""
    log_of_tests.found.clear()
    yield
    assert not log_of_tests.found


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    folder = open_folder("prosem-test-")
    made = EmbeddedPostgres(folder / "data", settings={"fsync": "off"})
    secrets.note(made.start())
    yield made
    made.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a running server; tests use tables with names of their own."""
    made = ServerProcess()
    yield made.start()
    made.remove()


@pytest.fixture
def api(server: str) -> Iterator[Api]:
    with Api(server) as made:
        yield made


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    with Client(server) as made:
        yield made


@pytest.fixture
def own_server() -> Iterator[ServerProcess]:
    """A server that a test may kill."""
    made = ServerProcess()
    yield made
    if made.process is not None:
        made.remove()


@pytest.fixture
def source(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database of the test's own, to be followed."""
    name = "source_" + uuid.uuid4().hex[:8]
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        yield postgres.url.replace("/prosem?", f"/{name}?")
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
        )
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]


@pytest.fixture(scope="session")
def database(postgres: EmbeddedPostgres) -> str:
    """One for the whole run: a database has 300 files, and PostgreSQL syncs them all when it stops."""
    made = empty_database(postgres)
    schema.migrate(made)
    return made


@pytest.fixture
def url(database: str) -> str:
    """A database of the store's own, as empty as after its migration."""
    with psycopg.connect(database) as connection:
        names = connection.execute(
            "SELECT relname, relispartition FROM pg_class WHERE relnamespace = 'prosem'::regnamespace"
            " AND relkind IN ('r', 'p') AND relname <> 'alembic_version' ORDER BY relispartition DESC"
        ).fetchall()
        for name, is_partition in names:
            action = "DROP TABLE {}" if is_partition else "TRUNCATE {} CASCADE"
            connection.execute(sql.SQL(action).format(sql.Identifier("prosem", name)))
        connection.execute("INSERT INTO prosem.engine_state DEFAULT VALUES")
        connection.execute("DROP SCHEMA IF EXISTS tenant_default CASCADE")
    return database


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    writer = Writer.connect(url, partition_size=100)
    yield writer
    writer.close()


@pytest.fixture
def retention(writer: Writer) -> Iterator[Retention]:
    made = Retention(writer.session)
    yield made
    made.close()
