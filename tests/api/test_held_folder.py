"""Folders of temporary files: those of killed servers go at the next start, those of living ones stay."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from api.server.backtests import PREFIX
from api.server.held_folder import HeldFolder
from tests.support.processes import ServerProcess
from tests.support.waiting import until

HOLD = """
import sys
from api.server.held_folder import HeldFolder
print(HeldFolder("prosem-held-").path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def held_elsewhere() -> tuple[subprocess.Popen[str], Path]:
    """A process that has made a folder, and keeps it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", HOLD], text=True, **pipes)  # type: ignore[call-overload]
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_is_removed_and_nothing_else(temporary: Path) -> None:
    process, held = held_elsewhere()
    (held / "results").write_text("of a backtest")
    (temporary / "prosem-other-1").mkdir()
    (temporary / "prosem-held-file").touch()
    (temporary / "prosem-held-link").symlink_to(temporary / "prosem-other-1")
    own = HeldFolder("prosem-held-")
    own.remove_abandoned()
    assert own.path.is_dir()
    assert (held / "results").exists(), "its process lives"
    process.kill()
    process.communicate()
    own.remove_abandoned()
    assert not held.exists()
    own.close()
    assert {path.name for path in temporary.iterdir()} == {
        "prosem-other-1", "prosem-held-file", "prosem-held-link",
    }  # fmt: skip


def folder_of(server: ServerProcess) -> Path:
    """That of its backtests: the process holds it open."""
    assert server.process is not None
    links = Path(f"/proc/{server.process.pid}/fd").iterdir()
    (found,) = (path for path in map(os.path.realpath, links) if Path(path).name.startswith(PREFIX))
    return Path(found)


def test_a_server_removes_what_a_killed_one_left(own_server: ServerProcess, server: str) -> None:
    """While others live."""
    own_server.start()
    left = folder_of(own_server)
    (left / "job").write_text("pages")
    other = ServerProcess()
    try:
        other.start()
        assert left.is_dir(), "its server lives"
    finally:
        other.remove()
    own_server.kill()
    assert (left / "job").exists()
    own_server.start()
    until(lambda: not left.exists())
    assert folder_of(own_server).is_dir()
    kept = folder_of(own_server)
    own_server.stop()
    assert not kept.exists()


def test_the_process_of_a_backtest_ends_with_its_server() -> None:
    """However that ended: its standard input is closed."""
    pytest.importorskip("pyspark")
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline.backtest.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked = {"sql": "", "archive": "", "per_day": 0, "subscriptions": [{}], "master": "local[1]"}
    process.stdin.write(json.dumps(asked).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"step": "starting Spark"}
    process.stdin.close()
    assert process.wait(60) == -signal.SIGKILL
    assert not process.stdout.read(), "its Java has ended as well: it had this open"
    process.stdout.close()
