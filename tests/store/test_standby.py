"""Servers that share a database, as processes and in one: takeover, lost sessions, lost answers, locks of other sessions."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.values.errors import ConflictError, RecoveringError
from tests.support.database import empty_database
from tests.support.live import Api, insert, lowest, upsert
from tests.support.processes import BOOT_S, ServerProcess
from tests.support.running import TABLE, WAIT_S, outcome, publish, ready, running, stored_rows, subscribe
from tests.support.waiting import until_async

COLUMNS = {"k": "integer", "x": "integer", "y": "integer"}


@pytest.fixture
def own_database(postgres: EmbeddedPostgres) -> str:
    made = empty_database(postgres)
    schema.migrate(made)
    return made


@pytest.fixture
def servers() -> Iterator[list[ServerProcess]]:
    made: list[ServerProcess] = []
    yield made
    for server in made:
        if server.process is not None and server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGCONT)
            server.kill()
        shutil.rmtree(server.folder, ignore_errors=True)


# -- the lease ---------------------------------------------------------------------------------------------------
def test_a_standby_takes_over_from_a_stopped_server(own_database: str, servers: list[ServerProcess]) -> None:
    options = ("--database", own_database, "--standby", "--takeover-s", "2")
    first, second = ServerProcess(*options), ServerProcess(*options)
    servers += [first, second]
    first.start()
    second.start(wait=False)
    with Api(first.url) as api:
        table = api.table(COLUMNS, ["k"])
        id = lowest(api, table)
        api.publish(table, [insert(k=1, x=1, y=10)])
    assert first.process is not None
    os.killpg(first.process.pid, signal.SIGSTOP)
    second.wait_ready()
    with Api(second.url) as api:
        api.publish(table, [insert(k=2, x=1, y=5)])
        assert api.result(id)["result"]["value"] == 5
    os.killpg(first.process.pid, signal.SIGCONT)
    deadline = time.monotonic() + BOOT_S
    while "starting again" not in first.log:
        assert time.monotonic() < deadline, first.log[-3000:]
        for path in ("/readyz", f"/v1/subscriptions/{id}/result", "/v1/tables"):
            assert _status(first.url + path) != 200, "nothing is answered from a memory that is out of date"
    second.stop()
    first.wait_ready()
    with Api(first.url) as api:
        assert api.result(id)["result"]["value"] == 5


def _status(url: str) -> int | None:
    try:
        return httpx.get(url, trust_env=False).status_code
    except httpx.HTTPError:
        return None


# -- a session that is lost --------------------------------------------------------------------------------------
async def test_a_server_that_lost_its_session_refuses_until_it_owns_the_database_again(url: str) -> None:
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        id = (await made.call(subscribe(0, 9)))["id"]
        await made.call(publish(insert(k=1, x=1, y=10)))
        state = made.state
        session = made.writer.session
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as other:
            lock = asyncio.create_task(other.execute("SELECT pg_advisory_lock(%s)", [schema.ENGINE_LOCK]))
            with psycopg.connect(url, autocommit=True) as looking:
                waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                await until_async(lambda: looking.execute(waiting).fetchall())
                pid = session.require().info.backend_pid
                looking.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
            await lock
            await until_async(lambda: not made.is_ready)
            assert isinstance(await _refused(made, c.Result(id)), RecoveringError)
            with pytest.raises(RecoveringError, match="lost"):
                _ = made.state
            with pytest.raises(RecoveringError):
                made.submit(publish(insert(k=2, x=2, y=2)))
        await ready(made)
        assert (await made.call(c.Result(id)))["result"]["value"] == 10
        await made.call(publish(insert(k=2, x=2, y=2)))
        assert made.state is state, "nothing was rebuilt: no other server had the database"


async def _refused(made: RunningServer, command: c.Command) -> object:
    try:
        return await outcome(made, command)
    except RecoveringError as error:
        return error


# -- answers that are lost ---------------------------------------------------------------------------------------
class Proxy:
    """Between a server and PostgreSQL; while it swallows, the answer to the commit of the row 2, 2, 2 is lost."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to, self._is_closing, self.is_down, self.is_swallowing = to, False, False, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closing = True
        self._thread.join()

    def _run(self) -> None:
        pairs: dict[socket.socket, socket.socket] = {}
        writer: socket.socket | None = None  # the server's end of the session that publishes
        while not self._is_closing:
            if self.is_down:
                for link in pairs:
                    link.close()
                pairs.clear()
            for link in select.select([self._listener, *pairs], [], [], 0.01)[0]:
                if link is self._listener:
                    client = link.accept()[0]
                    if self.is_down:
                        client.close()
                        continue
                    server = socket.create_connection(self._to)
                    pairs |= {client: server, server: client}
                    continue
                if link not in pairs:
                    continue
                try:
                    data = link.recv(1 << 16)
                except OSError:
                    data = b""
                if self.is_swallowing and writer is None and b"[2,2,2]" in data:
                    writer = link
                if self.is_swallowing and link is pairs.get(writer):  # type: ignore[arg-type]
                    if b"COMMIT\0" in data:
                        self.is_down, writer = True, None
                    continue
                if not data:
                    other = pairs.pop(link)
                    pairs.pop(other, None)
                    link.close()
                    other.close()
                    continue
                pairs[link].sendall(data)
        for link in (self._listener, *pairs):
            link.close()


@pytest.mark.parametrize(
    "way", ["http", *(pytest.param(way, marks=pytest.mark.slow) for way in ("ndjson", "socket"))]
)
def test_a_publisher_is_not_answered_when_the_outcome_is_unknown(
    postgres: EmbeddedPostgres, own_database: str, servers: list[ServerProcess], way: str
) -> None:
    address = urlsplit(own_database)
    assert address.hostname
    assert address.port
    proxy = Proxy((address.hostname, address.port))
    try:
        server = ServerProcess("--database", own_database.replace(f":{address.port}/", f":{proxy.port}/"))
        servers.append(server)
        with Api(server.start()) as api:
            table = api.table(COLUMNS, ["k"], "t")
            api.publish(table, [insert(k=1, x=1, y=1)])
            proxy.is_swallowing = True
            _publish(api, way)
            assert proxy.is_down
            assert _status(server.url + "/readyz") != 200
            proxy.is_swallowing = proxy.is_down = False
            server.wait_ready()
            assert (2, 2, 2) in stored_rows(own_database), "it was committed"
            api.publish(table, [upsert(k=3, x=3, y=3)])
    finally:
        proxy.close()


def _publish(api: Api, way: str) -> None:
    event = insert(k=2, x=2, y=2)
    if way == "http":
        with pytest.raises(httpx.TransportError):
            api.publish("t", [event])
    elif way == "ndjson":
        with pytest.raises(httpx.TransportError):
            api.http.post(
                "/v1/tables/t/events",
                content=json.dumps(event),
                headers={"Content-Type": "application/x-ndjson"},
            )
    else:
        with connect(f"ws{api.url.removeprefix('http')}/v1/publish", proxy=None) as link:
            link.send(json.dumps({"tag": 1, "table": "t", "events": [event]}))
            with pytest.raises(ConnectionClosed):
                link.recv(timeout=BOOT_S)


# -- locks of other sessions -------------------------------------------------------------------------------------
async def test_a_table_that_another_session_reads_is_not_dropped_and_nothing_waits(url: str) -> None:
    async with running(url) as made, asyncio.timeout(WAIT_S):
        await made.call(c.CreateTable(TABLE))
        await made.call(c.CreateTable({**TABLE, "name": "u"}))
        state = made.state
        with psycopg.connect(url, application_name="a report") as reader:
            reader.execute("SELECT * FROM tenant_default.u")
            refused = await outcome(made, c.DropTable("u"))
            assert isinstance(refused, ConflictError)
            for text in (f"process {reader.info.backend_pid}", "a report", "idle in transaction"):
                assert text in refused.detail
            await made.call(publish(insert(k=1, x=1, y=1)))
            assert made.state is state, "nothing was rebuilt"
            assert "u" in made.state.tables()
        await made.call(c.DropTable("u"))
        await made.call(publish(insert(k=2, x=2, y=2)))
        assert stored_rows(url) == {(1, 1, 1), (2, 2, 2)}
        assert "u" not in made.state.tables()


async def test_a_drop_that_is_refused_holds_no_lock(url: str) -> None:
    async with running(url) as made, asyncio.timeout(WAIT_S):
        await made.call(c.CreateTable(TABLE))
        await made.call(subscribe(0, 9))
        assert isinstance(await outcome(made, c.DropTable("t")), ConflictError)
        assert stored_rows(url) == set()
