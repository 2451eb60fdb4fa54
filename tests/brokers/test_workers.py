"""`prosem serve --workers`: sockets in other processes behind one port, exact whatever is killed."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("nats")

from api.commands.workers import MOST, number_of_workers
from prosem.values.errors import SetupError
from tests.support.live import Api, Json, attached, lowest, upsert
from tests.support.processes import ServerProcess
from tests.support.waiting import until

COLUMNS = {"k": "integer", "x": "integer", "y": "integer"}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    made = ServerProcess("--workers", "2")
    made.start()
    joined(made)
    yield made
    made.remove()


def joined(server: ServerProcess, count: int = 2) -> None:
    """Wait until all workers serve."""
    with Api(server.url) as api:
        until(lambda: len(api.call("GET", "/v1/network")["brokers"]) == count)


def workers(server: ServerProcess) -> list[int]:
    """The processes that the server has started as workers."""
    assert server.process is not None
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            is_worker = b"--name=worker-" in (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if is_worker and parent == server.process.pid:
            found.append(int(folder.name))
    return found


def hosting(api: Api) -> tuple[int, int]:
    """Subscriptions that workers host, and those at the server's own edge."""
    report: Json = api.call("GET", "/v1/network")
    own = next(link["hosted"] for link in report["links"] if link["to"] == "edge")
    return sum(one["hosted"] for one in report["brokers"]), own


def test_sockets_are_held_by_workers(server: ServerProcess) -> None:
    with Api(server.url) as api:
        table = api.table(COLUMNS, ["k"])
        ids = [lowest(api, table, lo, lo + 3) for lo in range(12)]
        sockets = [attached(server.url, [id]) for id in ids]
        for step in range(40):
            seq = api.publish(table, [upsert(k=step % 15, x=step % 15, y=step * 7 % 11)])["last_seq"]
        for id, one in zip(ids, sockets, strict=True):
            one.progress(seq)
            assert one.answer(id) == api.result(id)["result"]
        until(lambda: hosting(api) == (12, 0))
        assert "prosem_events_total" in api.http.get("/metrics").text, "the server's own"
        for one in sockets:
            one.close()
    store = server.folder / "data" / "nats" / "store"
    assert not [path for path in store.rglob("*") if path.suffix == ".blk"], (
        "nothing is written to disk on the way"
    )


def test_a_worker_that_is_killed_is_started_again(server: ServerProcess) -> None:
    with Api(server.url) as api:
        table = api.table(COLUMNS, ["k"])
        id = lowest(api, table)
        first = attached(server.url, [id])
        seqs = [api.publish(table, [upsert(k=1, x=1, y=90 - step)])["last_seq"] for step in range(5)]
        first.progress(seqs[-1])
        before = workers(server)
        assert len(before) == 2
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        first.close()
        until(lambda: len(set(workers(server)) - set(before)) == 2)
        server.wait_ready()
        joined(server)
    with Api(server.url) as api:
        shown = api.http.get("/metrics").text
        assert all(f'prosem_task_restarts_total{{task="worker-{one}"}} 1.0' in shown for one in (1, 2))
        more = [api.publish(table, [upsert(k=1, x=1, y=80 - step)])["last_seq"] for step in range(5)]
        with api.socket() as again:
            again.attach(id, after=seqs[-1])
            again.progress(more[-1])
            assert again.seqs(id) == more
            assert again.of(id)[-1]["change"] == api.result(id)["result"]


@pytest.mark.slow
def test_workers_end_with_their_server() -> None:
    made = ServerProcess("--workers", "2", "--admin-key", "a key that is long enough for it")
    try:
        made.start()
        known = {"Authorization": "Bearer a key that is long enough for it"}
        assert httpx.get(made.url + "/v1/tables", trust_env=False).status_code == 401
        until(lambda: httpx.get(made.url + "/v1/tables", headers=known, trust_env=False).status_code == 200)
        keys = httpx.get(made.url + "/v1/keys", headers=known, trust_env=False).json()["keys"]
        assert len(keys) == 1, "the workers' key is not stored"
        pids = workers(made)
        made.kill()
        until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", httpx.URL(made.url).port or 0))
        made.start()
        assert made.stop() == 0
        assert not workers(made)
    finally:
        made.remove()


@pytest.mark.parametrize("text", ["-1", "two", "", "1.5", str(MOST + 1)])
def test_the_number_of_workers(text: str) -> None:
    with pytest.raises(SetupError, match="--workers is a number"):
        number_of_workers(text)
    assert number_of_workers("0") == 0
    assert number_of_workers("auto") >= 1
