"""Streams to brokers that the server has named: a feed that is redirected goes on there, after what it has received.

A redirect only ever moves a feed: it is listened to by one stream at a time. The feeds of a broker that cannot be reached
or is lost go back to the first stream, which has them served in place. How often one feed is sent on is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection

from prosem_client.feed import Feed

if TYPE_CHECKING:
    from prosem_client.stream import Stream

MOST_HOPS = 3  # redirects that one feed follows
MOST_STREAMS = 16  # sockets to named brokers
AVOID_S = 30.0  # that a broker which could not be reached is not tried again
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def may_follow(own: str, named: str) -> bool:
    """Whether a client that reaches its server at `own` may go on at `named`.

    A key is not sent in the clear where it was not before, and an address of this machine is followed only from such a one.

    >>> may_follow("http://10.0.0.1:8080", "http://10.0.0.2:8081"), may_follow("https://a", "http://b")
    (True, False)
    >>> may_follow("http://10.0.0.1:8080", "http://127.0.0.1:8081"), may_follow("http://localhost", "http://127.0.0.1:8081")
    (False, True)
    """
    try:
        before, after = urlsplit(own), urlsplit(named)
    except ValueError:
        return False
    if after.scheme not in ("http", "https") or not after.hostname:
        return False
    if before.scheme == "https" and after.scheme != "https":
        return False
    return after.hostname not in _LOOPBACK or before.hostname in _LOOPBACK


class Redirects:
    """The streams beside `home`. `open_at` opens a socket to an address, `own` is the address of the client's own server."""

    def __init__(
        self,
        open_at: Callable[[str], Awaitable[ClientConnection]],
        own: Callable[[], str],
    ) -> None:
        self._open_at, self._own = open_at, own
        self._streams: dict[str, Stream] = {}  # by address
        self._places: dict[str, Stream] = {}  # of feeds that are not at home
        self._avoided: dict[str, float] = {}  # addresses that could not be reached, and until when
        self._closing: set[asyncio.Task[None]] = set()

    def stream_of(self, id: str) -> Stream | None:
        """The stream that a feed was redirected to."""
        return self._places.get(id)

    def streams(self) -> dict[str, Stream]:
        """The streams that are in use, by the address of their broker."""
        return dict(self._streams)

    def move(self, feed: Feed, home: Stream, url: str) -> bool:
        """Let a feed be served by the broker at an address; False if it is not followed there."""
        stream, former = self._streams.get(url), self._places.get(feed.id)
        is_avoided = self._avoided.get(url, 0.0) > asyncio.get_running_loop().time()
        if not may_follow(self._own(), url) or is_avoided or (stream is not None and stream is former):
            return False
        if stream is None:
            if len(self._streams) >= MOST_STREAMS:
                return False
            stream = self._streams[url] = home.beside(lambda: self._open_at(url), self._lost(home, url))
        feed.hops += 1
        self._places[feed.id] = stream
        if former is not None:
            self._close_unused(former)
        stream.listen(feed)
        return True

    def _lost(self, home: Stream, url: str) -> Callable[[Stream, list[Feed]], None]:
        def lost(stream: Stream, feeds: list[Feed]) -> None:
            """A broker does not answer, or not any more: its feeds are served in place."""
            if self._streams.get(url) is stream:
                del self._streams[url]
            self._places = {id: one for id, one in self._places.items() if one is not stream}
            self._avoided[url] = asyncio.get_running_loop().time() + AVOID_S
            for feed in feeds:
                feed.hops = MOST_HOPS
                if feed.is_wanted:
                    home.listen(feed)

        return lost

    def forget(self, feed: Feed) -> None:
        """A feed is left; a socket that no feed uses is closed."""
        stream = self._places.pop(feed.id, None)
        if stream is not None:
            self._close_unused(stream)

    def _close_unused(self, stream: Stream) -> None:
        if stream not in self._places.values():
            self._streams = {url: one for url, one in self._streams.items() if one is not stream}
            task = asyncio.get_running_loop().create_task(stream.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        streams, self._streams = self._streams, {}
        self._places.clear()
        for stream in streams.values():
            await stream.close()
        await asyncio.gather(*self._closing)
