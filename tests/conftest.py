"""Real parts for the tests: one PostgreSQL and one server for the whole run, each started by our own code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import hypothesis
import psycopg
import pytest
from prosem_client import Client

from api.commands.process import free_port
from prosem.store.embedded import EmbeddedPostgres
from tests.support.live import Api

BOOT_S = 90.0
LONGEST = {
    "test_statistics",
    "test_acceptance",
    "test_value_live",
    "test_value_recovery",
    "test_attach",
}  # begin first
# No test asserts a time; a busy machine must not fail one either.
hypothesis.settings.register_profile(
    "prosem", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("prosem")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stress", action="store_true", help="also run the long checks")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    if not config.getoption("--stress"):
        skip = pytest.mark.skip(reason="long; run by make stress")
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(skip)


def open_folder(prefix: str) -> Path:
    """A folder that the database's own user can reach."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    folder = open_folder("prosem-test-")
    made = EmbeddedPostgres(folder / "data", settings={"fsync": "off"})
    made.start()
    yield made
    made.stop()
    shutil.rmtree(folder, ignore_errors=True)


class CommandProcess:
    """A command of ours as a user starts it, in a process group of its own; what it says goes to a file."""

    process: subprocess.Popen[bytes] | None = None

    def launch(self, said: Path, *arguments: str) -> None:
        with open(said, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "api.commands.cli", *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """End it as Ctrl-C does; its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(40)


class ServerProcess(CommandProcess):
    """`prosem serve` or `prosem broker`."""

    def __init__(
        self, *options: str, folder: Path | None = None, command: str = "serve", port: int | None = None
    ) -> None:
        self.options, self.command, self.port = options, command, port
        self.folder = folder or open_folder("prosem-server-")
        self.url = ""

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def start(self, wait: bool = True) -> str:
        port = self.port or free_port()
        self.url = f"http://127.0.0.1:{port}"
        arguments = [self.command, "--port", str(port), *self.options]
        if self.command == "serve" and "--database" not in self.options:
            arguments += ["--data-dir", str(self.folder / "data")]
        self.launch(self.folder / "server.log", *arguments)
        if wait:
            self.wait_ready()
        return self.url

    def wait_ready(self) -> None:
        deadline = time.monotonic() + BOOT_S
        assert self.process is not None
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(self.url + "/readyz", trust_env=False).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"the server did not become ready:\n{self.log[-3000:]}")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


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
