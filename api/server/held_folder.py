"""A folder for temporary files of a server, and the removal of those that killed servers have left.

A server holds a lock on its folder; the system lets go of it when the process ends, however it ends. So a folder without a
lock is one that no living server uses.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


class HeldFolder:
    """`path` is there until `close`, in the folder of temporary files."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.path, self._lock = _made(prefix)

    def remove_abandoned(self) -> None:
        """Remove the folders with this prefix, of this user, that no process holds."""
        for path in self.path.parent.glob(f"{self._prefix}*"):
            for lock in _opened(path):
                with suppress(BlockingIOError):  # one that a living process holds
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _made(prefix: str) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():  # else it was taken for an abandoned one before it was held
                return path, lock
            os.close(lock)


def _opened(path: Path) -> Iterator[int]:
    """A descriptor of a folder of this user, closed afterwards; none if it is something else, or gone."""
    try:
        found = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if os.fstat(found).st_uid == os.geteuid():
            yield found
    finally:
        os.close(found)
