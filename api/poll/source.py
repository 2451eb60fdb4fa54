"""Where a feed comes from: an address, asked only for what is new, or a file."""

from __future__ import annotations

import os
import stat
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import httpx

from api import VERSION
from api.poll.formats import FeedError
from prosem.runtime.retry_after import retry_after_s

TIMEOUT_S = 30.0
MAX_REDIRECTS = 5


class SourceVersion(NamedTuple):
    """How the source shows that there is something new."""

    etag: str = ""
    modified: str = ""


class Source(Protocol):
    def fetch(self, known: SourceVersion) -> tuple[bytes, SourceVersion] | None:
        """The feed, None if it is as it was at `known`. FeedError if it cannot be had now."""

    def close(self) -> None: ...


class FileSource:
    """A file. It is read at each look: its time of change says nothing of a write in the middle of a look.

    What is being written while it is read is not taken, so that no half of a file becomes rows.
    """

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most = path, most

    def fetch(self, known: SourceVersion) -> tuple[bytes, SourceVersion] | None:
        try:
            with open(self._path, "rb") as stream:
                before = os.fstat(stream.fileno())
                content = stream.read(self._most + 1)
                after = os.fstat(stream.fileno())
        except OSError as error:
            raise FeedError(f"{self._path} cannot be read: {error.strerror}") from None
        _check_size(len(content), self._most)
        same = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
        if not same or (stat.S_ISREG(after.st_mode) and len(content) != after.st_size):
            raise FeedError(
                f"{self._path} is being written; write it under another name and rename it, then it is whole at any time"
            )
        return content, SourceVersion()

    def close(self) -> None:
        pass


class HttpSource:
    """An address. What the server said of its last answer (ETag, Last-Modified) is sent with the next question."""

    def __init__(self, url: str, most: int) -> None:
        self._url, self._most = url, most
        self._shown = url.partition("?")[0]  # what follows may be a password
        self._http = httpx.Client(
            timeout=TIMEOUT_S,
            follow_redirects=True,
            max_redirects=MAX_REDIRECTS,
            headers={"User-Agent": f"ProSem/{VERSION}"},
        )

    def close(self) -> None:
        self._http.close()

    def fetch(self, known: SourceVersion) -> tuple[bytes, SourceVersion] | None:
        headers = {"If-None-Match": known.etag, "If-Modified-Since": known.modified}
        try:
            asked = {name: value for name, value in headers.items() if value}
            with self._http.stream("GET", self._url, headers=asked) as answer:
                if answer.status_code == 304:
                    return None
                if answer.status_code != 200:
                    raise FeedError(f"{self._shown} answers {answer.status_code}", retry_after_s(answer))
                parts, size = [], 0
                for part in answer.iter_bytes():
                    size += len(part)
                    _check_size(size, self._most)
                    parts.append(part)
                mark = SourceVersion(answer.headers.get("etag", ""), _modified(answer))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise FeedError(f"{self._shown} cannot be read: {str(error) or type(error).__name__}") from None
        return b"".join(parts), mark


def _modified(answer: httpx.Response) -> str:
    """Last-Modified where it distinguishes two versions: not if the feed may change again in the same second."""
    modified = str(answer.headers.get("last-modified", ""))
    try:
        age = parsedate_to_datetime(answer.headers["date"]) - parsedate_to_datetime(modified)
    except (KeyError, TypeError, ValueError):
        return ""
    return modified if age.total_seconds() > 1 else ""


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise FeedError(f"the feed is larger than {most >> 20} MiB; --max-mb allows more")


def open_source(name: str, most: int) -> Source:
    if name.lower().startswith(("http://", "https://")):
        return HttpSource(name, most)
    return FileSource(Path(name.removeprefix("file://")), most)
