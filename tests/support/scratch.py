"""Where a run of the tests keeps its files: in memory where there is room, and gone after it.

Hundreds of servers begin with a copy of a cluster, some 1,400 files: on a disk that takes ten times as long as in memory,
and longer than the tests themselves. What a killed process has written is there in either.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_FOLDER = "PROSEM_TEST_FOLDER"  # of the environment: the processes of one run share it
MEMORY = Path("/dev/shm")
ROOM_BYTES = 8 << 30


def begin() -> bool:
    """A run begins; whether this process is the one to end it, and not one of its workers."""
    if _FOLDER in os.environ:
        return False
    made = Path(tempfile.mkdtemp(prefix="prosem-", dir=MEMORY if _has_room() else None))
    made.chmod(0o1777)  # also for the database's own user
    os.environ[_FOLDER] = os.environ["TMPDIR"] = str(made)
    tempfile.tempdir = None
    return True


def folder() -> Path | None:
    """That of the run; None outside one."""
    return Path(os.environ[_FOLDER]) if _FOLDER in os.environ else None


def end() -> None:
    shutil.rmtree(os.environ.pop(_FOLDER), ignore_errors=True)


def _has_room() -> bool:
    """The files are memory that the processes of the tests cannot use."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return False
    found = os.statvfs(MEMORY)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(found.f_bavail * found.f_frsize, free) >= ROOM_BYTES
