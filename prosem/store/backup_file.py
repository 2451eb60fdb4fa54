"""The file of a backup: a ZIP archive with one member per table, and a manifest that is written last.

    prosem/<table>    rows of a table of the server's own schema, in PostgreSQL's text format of COPY
    tables/<number>   rows of the tenant's table with this number in prosem.tenant_table
    manifest.json     `Manifest`: versions, columns, and of every member the rows, the bytes and the SHA-256

Invariant: a file that was not written to its end has no manifest, and one of which a byte is another is refused; both
before a database is touched. Text instead of binary COPY: it is the same in all versions of PostgreSQL.
"""

from __future__ import annotations

import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO

import msgspec

from prosem.store.schema import HEAD, REVISIONS
from prosem.values.errors import InputError

FORMAT = 1
MANIFEST = "manifest.json"
_BLOCK_BYTES = 1 << 20
_MAX_MANIFEST_BYTES = 64 << 20
# With which the standard library refuses an archive whose bytes are wrong, whichever field they are in.
_BAD_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, ValueError, RuntimeError,
    LookupError, ArithmeticError, MemoryError,
)  # fmt: skip
# Called with the name of what is read or written, and how many bytes more of it are done.
Progress = Callable[[str, int], object]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table: which member of the archive, and what it holds."""

    member: str
    name: str
    columns: list[str]
    rows: int
    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a backup holds, and from what it was made."""

    format: int
    version: str
    schema: str
    postgresql: int
    made: str
    last_seq: int
    timeline: str
    subscriptions: int
    partitions: list[tuple[int, int]]
    sequences: dict[str, tuple[int, bool]]
    parts: list[Part]

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)


class BackupWriter:
    """Writes beside the file's name and renames at the end, so that under the name there is a complete backup or none."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self.path, self._progress = path, progress
        self.parts: list[Part] = []
        self._partial = path.with_name(path.name + ".partial")

    @contextmanager
    def open(self) -> Iterator[BackupWriter]:
        if self.path.exists():
            raise InputError(f"{self.path} exists already: give another name, or remove it first")
        try:
            # Rows and secrets of webhooks are in it: for its owner alone.
            handle = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written: {error.strerror}; give --output a path in a folder that exists"
            ) from error
        try:
            with open(handle, "wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as self._archive:
                    yield self
                file.flush()
                os.fsync(file.fileno())
            os.link(self._partial, self.path)  # unlike a rename it does not replace a file
        except FileExistsError:
            raise InputError(f"{self.path} exists already: give another name") from None
        except OSError as error:
            raise InputError(f"{self.path} cannot be written: {error.strerror or error}") from error
        finally:
            self._partial.unlink(missing_ok=True)

    def add(self, member: str, name: str, columns: list[str], blocks: Iterable[bytes]) -> None:
        """A table with its rows as COPY gives them: each ends with a line feed, and contains no other."""
        digest, size, rows = sha256(), 0, 0
        with self._archive.open(member, "w", force_zip64=True) as target:
            for block in _joined(blocks):
                target.write(block)
                digest.update(block)
                size += len(block)
                rows += block.count(b"\n")
                self._progress(name, len(block))
        self.parts.append(Part(member, name, columns, rows, size, digest.hexdigest()))

    def finish(self, manifest: Manifest) -> None:
        self._archive.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))


def _joined(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Larger blocks: COPY gives one per row."""
    held, size = list[bytes](), 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size >= _BLOCK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


class BackupReader:
    """A backup that is complete and unchanged. InputError from `open` otherwise. Use as a context manager."""

    def __init__(self, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self._archive, self.manifest = archive, manifest

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[BackupReader]:
        """The manifest is checked; `verify` checks the members."""
        try:
            archive = zipfile.ZipFile(path)
        except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from error
        except _BAD_ARCHIVE:
            raise _damaged(path, "is no backup of prosem, or was not written to its end") from None
        with archive:
            yield cls(archive, _manifest(archive, path))

    def verify(self, progress: Progress) -> None:
        """Read everything once: sizes and digests must be those of the manifest."""
        path = Path(str(self._archive.filename))
        expected = {part.member for part in self.manifest.parts} | {MANIFEST}
        if expected != set(self._archive.namelist()) or len(self.manifest.parts) != len(expected) - 1:
            raise _damaged(path, "has other members than its manifest says")
        for part in self.manifest.parts:
            digest, size = sha256(), 0
            try:
                for block in self.blocks(part):
                    digest.update(block)
                    size += len(block)
                    progress(part.name, len(block))
            except _BAD_ARCHIVE as error:
                raise _damaged(path, f"cannot be read at {part.name} ({error})") from error
            if (size, digest.hexdigest()) != (part.size_bytes, part.sha256):
                raise _damaged(path, f"does not have the bytes of {part.name} that were written")

    def blocks(self, part: Part) -> Iterator[bytes]:
        with self._archive.open(part.member) as source:
            yield from _read(source)


def _read(source: IO[bytes]) -> Iterator[bytes]:
    while block := source.read(_BLOCK_BYTES):
        yield block


def _manifest(archive: zipfile.ZipFile, path: Path) -> Manifest:
    try:
        with archive.open(MANIFEST) as source:
            data = source.read(_MAX_MANIFEST_BYTES)
        known = msgspec.json.decode(data, type=_Known)
    except (*_BAD_ARCHIVE, msgspec.MsgspecError) as error:
        raise _damaged(path, f"has no manifest that can be read ({error})") from error
    if known.format > FORMAT or known.schema not in REVISIONS:
        raise InputError(
            f"{path} was made by prosem {known.version}, which is newer (format {known.format}, schema"
            f" {known.schema}; this version knows {FORMAT} and {HEAD}): restore it with that version"
        )
    try:
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _damaged(path, f"has a manifest that is wrong ({error})") from error


class _Known(msgspec.Struct):
    """The members of a manifest that every format has."""

    format: int
    version: str
    schema: str


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"{path} {what}: nothing was restored; use another copy of the backup")
