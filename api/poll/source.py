"""Where a feed comes from: an address, asked only for what is new, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

import httpx

from api import VERSION
from api.poll.formats import FeedError
from api.retry_after import retry_after_s

TIMEOUT_S = 30.0
MAX_REDIRECTS = 5


class Mark(NamedTuple):
    """By what the source tells whether there is something new."""

    etag: str = ""
    modified: str = ""


class Source(Protocol):
    def fetch(self, known: Mark) -> tuple[bytes, Mark] | None:
        """The feed, None if it is as it was at `known`. FeedError if it cannot be had now."""

    def close(self) -> None: ...


class FileSource:
    """A file; it is as it was while its size and its time of change are."""

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most = path, most

    def fetch(self, known: Mark) -> tuple[bytes, Mark] | None:
        try:
            with open(self._path, "rb") as stream:
                content = stream.read(self._most + 1)
            status = self._path.stat()
        except OSError as error:
            raise FeedError(f"{self._path} cannot be read: {error.strerror}") from None
        _check_size(len(content), self._most)
        mark = Mark(f"{status.st_mtime_ns}-{status.st_size}")
        return None if mark == known else (content, mark)

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

    def fetch(self, known: Mark) -> tuple[bytes, Mark] | None:
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
                mark = Mark(answer.headers.get("etag", ""), answer.headers.get("last-modified", ""))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise FeedError(f"{self._shown} cannot be read: {str(error) or type(error).__name__}") from None
        return b"".join(parts), mark


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise FeedError(f"the feed is larger than {most >> 20} MiB; --max-mb allows more")


def open_source(name: str, most: int) -> Source:
    if name.lower().startswith(("http://", "https://")):
        return HttpSource(name, most)
    return FileSource(Path(name.removeprefix("file://")), most)
