"""Uploads: any number of events or lines, in bodies of bounded size.

Each body is one NDJSON request with an idempotency key of its own, so a lost connection is overcome by
repeating it, memory stays bounded, and progress counts what is committed, not what was sent.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from prosem_client.errors import PartlyPublished, ProsemError
from prosem_client.transport import Transport
from prosem_client.values import Event, JsonObject, Published, encode

Line = Event | str | bytes
Progress = Callable[[int], None]


class Upload:
    """One upload under way. `send` takes its next lines; the lines before a bad one are committed."""

    def __init__(self, transport: Transport, path: str, progress: Progress | None = None) -> None:
        self._transport = transport
        self._path = path
        self._progress = progress
        self._first_seq = self._last_seq = self._count = self._sent = 0

    @property
    def published(self) -> Published:
        return Published(self._first_seq, self._last_seq, self._count)

    async def send(self, lines: list[Line]) -> None:
        """Commit some lines, or raise PartlyPublished at the first bad one."""
        offset, body = self._sent, "".join(map(_text, lines))
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": uuid.uuid4().hex}
        try:
            answer: JsonObject = await self._transport.send("POST", self._path, body, headers)
        except ProsemError as error:
            if not self._count:
                raise
            raise self._refusal(error, offset) from error
        self._sent += len(lines)
        if answer["count"]:
            self._first_seq = self._first_seq or answer["first_seq"]
            self._last_seq = answer["last_seq"]
            self._count += answer["count"]
        if self._progress is not None:
            self._progress(self._count)
        if answer.get("errors"):
            bad = answer["errors"][0].get("detail", "a line was refused")
            raise self._refusal(ProsemError(422, "bad-input", bad, answer["errors"]), offset)

    def _refusal(self, error: ProsemError, offset: int) -> PartlyPublished:
        errors = [moved(problem, offset) for problem in error.errors]
        return PartlyPublished(self.published, ProsemError(error.status, error.code, error.detail, errors))


def moved(problem: Mapping[str, Any], offset: int) -> JsonObject:
    """The problem with its line counted from the start of the upload.

    >>> moved({"at": "/7/row/x", "detail": "…"}, 2000)
    {'at': '/2007/row/x', 'detail': '…'}
    """
    line, slash, rest = str(problem.get("at", ""))[1:].partition("/")
    return {**problem, "at": f"/{int(line) + offset}{slash}{rest}"} if line.isdigit() else dict(problem)


def batches(lines: Iterable[Line], size: int) -> Iterator[list[Line]]:
    """The lines, `size` at a time."""
    iterator = iter(lines)
    while batch := list(islice(iterator, size)):
        yield batch


async def async_batches(lines: Iterable[Line] | AsyncIterable[Line], size: int) -> AsyncIterator[list[Line]]:
    """The same from either kind of source; an iterable is read on the loop."""
    if not isinstance(lines, AsyncIterable):
        for batch in batches(lines, size):
            yield batch
        return
    batch = []
    async for line in lines:
        batch.append(line)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _text(line: Line) -> str:
    if isinstance(line, bytes):
        line = line.decode()
    return (line.rstrip("\r\n") if isinstance(line, str) else encode(line)) + "\n"
