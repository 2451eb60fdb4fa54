"""The embedded PostgreSQL: started, adopted, killed, refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from prosem.store import postmaster
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.installation import _copy, _folders, account, default_data_dir
from prosem.values.errors import SetupError
from tests.support.waiting import until

FAST = {"fsync": "off"}  # in these tests only processes die, never the machine
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the user")


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder the database's user can enter (pytest's own are private)."""
    folder = Path(tempfile.mkdtemp(prefix="prosem-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def data_dir(open_folder: Path) -> Iterator[Path]:
    """One cluster for the module; whatever a test leaves running is stopped."""
    folder = open_folder / "data"
    server = EmbeddedPostgres(folder, settings=FAST)
    server.start()
    server.stop()
    yield folder
    left = EmbeddedPostgres(folder, settings=FAST)
    left.start()
    left.stop()


@pytest.fixture
def server(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(data_dir, settings=FAST)
    yield server
    server.stop()


def test_what_was_committed_survives_a_stop_and_a_start(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.start()) as connection:
        connection.execute("CREATE TABLE kept (x int)")
        connection.execute("INSERT INTO kept VALUES (7)")
        assert connection.info.parameter_status("server_encoding") == "UTF8"
        for name, value in (("wal_level", "logical"), ("listen_addresses", "127.0.0.1")):
            assert connection.execute("SELECT current_setting(%s)", [name]).fetchone() == (value,)
    port = server.port
    server.stop()
    assert not server.is_alive()
    assert server.pid is None
    with psycopg.connect(server.start()) as connection:
        assert connection.execute("SELECT x FROM kept").fetchall() == [(7,)]
    assert server.port == port, "open pools must find the database again"
    assert not server.adopted


def test_secrets_are_private(server: EmbeddedPostgres) -> None:
    url = server.start()
    assert (server.data_dir / "password").stat().st_mode & 0o777 == 0o600
    assert server.cluster.stat().st_mode & 0o777 == 0o700
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url.replace("prosem:", "prosem:wrong"))


def test_start_again_is_harmless(server: EmbeddedPostgres) -> None:
    assert server.start() == server.start()


def test_a_crashed_postgres_is_noticed_and_started_again(server: EmbeddedPostgres) -> None:
    server.start()
    assert server.pid is not None
    first = server.pid
    os.kill(first, signal.SIGKILL)
    until(lambda: not server.is_alive(), what="an unreaped child counts as dead")
    with psycopg.connect(server.start()) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    assert server.pid != first


def _killed_server(data_dir: Path) -> int:
    """Start PostgreSQL in another process that is then killed; the postmaster's pid."""
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from prosem.store.embedded import EmbeddedPostgres\n"
        "server = EmbeddedPostgres(Path(sys.argv[1]), settings={'fsync': 'off'}); server.start()\n"
        "print(server.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(data_dir)], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    return int(done.stdout)


def test_the_postgres_of_a_killed_server_is_adopted_and_stopped(server: EmbeddedPostgres) -> None:
    orphan = _killed_server(server.data_dir)
    with psycopg.connect(server.start()) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    assert server.adopted
    assert server.pid == orphan
    assert server.is_alive()
    server.stop()
    assert not postmaster.is_running(orphan, server.cluster)


def test_an_adopted_postgres_that_dies_is_replaced(server: EmbeddedPostgres) -> None:
    orphan = _killed_server(server.data_dir)
    server.start()
    os.kill(orphan, signal.SIGKILL)
    until(lambda: not server.is_alive())
    server.start()
    assert not server.adopted
    assert server.pid != orphan


def test_a_second_server_on_the_folder_is_refused_and_harms_nobody(server: EmbeddedPostgres) -> None:
    url = server.start()
    second = EmbeddedPostgres(server.data_dir)
    with pytest.raises(SetupError, match=f"process {os.getpid()}.*--standby"):
        second.start()
    second.stop()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_standby_gives_up_when_cancelled(server: EmbeddedPostgres) -> None:
    server.start()
    answers = iter([False, False, True])
    with pytest.raises(SetupError, match="another prosem serve"):
        EmbeddedPostgres(server.data_dir).start(standby=True, cancelled=lambda: next(answers))


@pytest.mark.parametrize("pid", [2**22 + 12345, os.getpid(), -5], ids=["none", "this", "wrong"])
def test_a_stale_pid_file_is_nobody(server: EmbeddedPostgres, pid: int) -> None:
    """No such process, a process that is something else by now, and nonsense."""
    (server.cluster / "postmaster.pid").write_text(
        f"{pid}\n{server.cluster}\n1700000000\n5432\n\n\n\nready\n"
    )
    assert postmaster.find(server.cluster) is None
    (server.cluster / "postmaster.pid").unlink()


def test_the_end_of_the_log_is_in_the_error(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, settings={"shared_buffers": "nonsense"})
    with pytest.raises(SetupError, match='invalid value for parameter "shared_buffers"'):
        server.start()
    assert not server.is_alive()


def test_a_half_made_cluster_is_thrown_away(open_folder: Path) -> None:
    folder = open_folder / "half"
    (folder / "cluster.partial").mkdir(parents=True)
    (folder / "cluster.partial" / "PG_VERSION").write_text("18\n")
    (folder / "password.partial").write_text("old")
    server = EmbeddedPostgres(folder, settings=FAST)
    try:
        with psycopg.connect(server.start()) as connection:
            assert connection.execute("SELECT current_database()").fetchall() == [("prosem",)]
        assert sorted(path.name for path in folder.iterdir() if "partial" in path.name) == []
    finally:
        server.stop()


def test_a_cluster_of_another_version_is_explained(open_folder: Path) -> None:
    folder = open_folder / "old"
    (folder / "cluster").mkdir(parents=True)
    (folder / "cluster" / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(SetupError, match=r"made by PostgreSQL 9\.6"):
        EmbeddedPostgres(folder).start()


@root_only
def test_a_folder_out_of_reach_is_explained(open_folder: Path) -> None:
    private = open_folder / "private"
    private.mkdir(mode=0o700)
    with pytest.raises(SetupError, match=f"cannot enter {private}; give a --data-dir"):
        EmbeddedPostgres(private / "data").start()


@root_only
def test_binaries_out_of_reach_are_copied_and_run(open_folder: Path) -> None:
    user = account(open_folder / "nothing")
    assert user.switch
    newest = max(_folders(), key=lambda folder: folder.name)
    copied = _copy(user, newest, open_folder / "postgresql")
    output = subprocess.run(
        [copied / "bin" / "initdb", "--version"], **{**user.child(), "stdout": subprocess.PIPE}, check=True
    ).stdout
    assert b"initdb (PostgreSQL)" in output, "the libraries beside the package came along"
    assert _copy(user, newest, open_folder / "postgresql") == copied


def test_the_default_folder_can_be_reached() -> None:
    folder = default_data_dir()
    assert folder.name == "prosem"
    if os.geteuid() == 0:
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        assert account(folder / "cluster").barrier(nearest / "x") is None
