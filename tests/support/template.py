"""A data folder as it is after a server's first start, made once for a run of the tests and copied for each server.

initdb and the migrations take longer than all the rest of a first start. The tests of `prosem.store.embedded` and of the
command line make clusters of their own; every other server begins with a copy of this one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres

_FOLDER = "PROSEM_TEST_TEMPLATE"  # of the environment: the processes of one run share it


def begin() -> bool:
    """A run begins; whether this process is the one to end it, and not one of its workers."""
    if _FOLDER in os.environ:
        return False
    folder = Path(tempfile.mkdtemp(prefix="prosem-template-"))
    folder.chmod(0o755)
    os.environ[_FOLDER] = str(folder)
    return True


def end() -> None:
    shutil.rmtree(os.environ.pop(_FOLDER), ignore_errors=True)


def fill(data_dir: Path) -> None:
    """Make a new data folder of a server; one that has a cluster stays as it is."""
    if (data_dir / "cluster").exists() or _FOLDER not in os.environ:
        return
    folder = Path(os.environ[_FOLDER])
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the file is closed
        if not (folder / "made").exists():
            _make(folder)
    data_dir.mkdir(mode=0o755, exist_ok=True)
    for name in ("password", "cluster"):
        subprocess.run(["cp", "-a", folder / "data" / name, data_dir / name], check=True)


def _make(folder: Path) -> None:
    postgres = EmbeddedPostgres(folder / "data", settings={"fsync": "off"})
    try:
        schema.migrate(postgres.start())
    finally:
        postgres.stop()
    (folder / "made").touch()
