"""What a poller must know after a restart, in a small file: what the feed said last, and which rows were published.

The file is replaced as a whole, after each request that the server has acknowledged. `id` and `count` name the request that
follows: a process that dies between the acknowledgement and the file sends that request again under the same name, and the
server applies it once.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

import msgspec

from api.poll.source import SourceVersion
from prosem.values.errors import SetupError


class Stored(msgspec.Struct):
    """`feed` is what was polled and how it was read; `rows` is the digest of each row that was published, by its key."""

    id: str
    feed: str
    count: int = 0
    mark: SourceVersion = SourceVersion()
    digest: str = ""
    rows: dict[str, str] = {}


class StateFile:
    """Held by one process at a time."""

    def __init__(self, path: Path, feed: str) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SetupError(
                f"the state cannot be kept in {path}: {error.strerror}; choose --state"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise SetupError(
                f"another prosem poll keeps its state in {path}; choose another --state"
            ) from None
        try:
            self.stored = self._read(feed)
        except BaseException:
            self.close()
            raise

    def _read(self, feed: str) -> Stored:
        try:
            stored = msgspec.json.decode(self.path.read_bytes(), type=Stored)
        except FileNotFoundError:
            stored = Stored(secrets.token_hex(8), feed)
            self.save(stored)
            return stored
        except (msgspec.DecodeError, OSError) as error:
            raise SetupError(
                f"the state in {self.path} cannot be read: {error}. Remove it, and every row is published again"
            ) from None
        if stored.feed != feed:  # it is read another way now: what the feed said last is of no use
            stored = msgspec.structs.replace(stored, feed=feed, mark=SourceVersion(), digest="")
        return stored

    def save(self, stored: Stored) -> None:
        """Durably, as a whole or not at all."""
        self.stored = stored
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            with open(fresh, "wb") as stream:
                stream.write(msgspec.json.encode(stored))
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(fresh, self.path)
        except OSError as error:
            raise SetupError(f"the state cannot be kept in {self.path}: {error.strerror}") from None

    def close(self) -> None:
        os.close(self._lock)
