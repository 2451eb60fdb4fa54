"""A data folder as it is after a server's first start, made once for a run of the tests and copied for each server.

initdb and the migrations take longer than all the rest of a first start. The tests of `prosem.store.embedded` and of the
command line make clusters of their own; every other server begins with a copy of this one.
"""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from tests.support import scratch


def fill(data_dir: Path) -> None:
    """Make a new data folder of a server; one that has a cluster stays as it is, and so does any outside a run."""
    run = scratch.folder()
    if (data_dir / "cluster").exists() or run is None:
        return
    folder = run / "template"
    folder.mkdir(mode=0o755, exist_ok=True)
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
