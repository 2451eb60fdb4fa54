"""The one WebSocket `/v1/stream` of a client, shared by all its feeds.

It reconnects by itself, forever, and attaches every listening feed after the last seq it has received. An id
that was detached may be attached again only when no frame of the old attachment can come any more: the server
handles frames in order, so the pong of a ping sent after the detach says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from itertools import takewhile

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from prosem_client.backoff import Backoff
from prosem_client.errors import ProsemError
from prosem_client.feed import Feed, Frame
from prosem_client.redirects import MOST_HOPS, Redirects
from prosem_client.values import JsonObject, encode

_log = logging.getLogger("prosem_client")


Opener = Callable[[], Awaitable[ClientConnection]]
Lost = Callable[["Stream", list[Feed]], None]


class Stream:
    """Routes frames to feeds. `_confirmed[id]` is the progress known when the attach was surely seen.

    A later progress mark covers that feed too, so a reconnect resumes from there: a subscription that is told
    little does not fall behind what the server retains.

    With `redirects` it says at each attach that it follows them. A stream to a broker that was named has a `home`; it does
    not reconnect, but gives its feeds back by `lost`.
    """

    def __init__(
        self,
        open_socket: Opener,
        backoff: Backoff | None = None,
        redirects: Redirects | None = None,
        home: Stream | None = None,
        lost: Lost | None = None,
    ) -> None:
        self._open_socket = open_socket
        self._backoff = backoff or Backoff()
        self.redirects = redirects
        self._home, self._lost = home or self, lost
        self._feeds: dict[str, Feed] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_connected = False
        self._sending: asyncio.Queue[JsonObject] = asyncio.Queue()
        self._pings = 0
        self._pongs = 0
        self._leaving: dict[str, int] = {}  # detached ids, with the ping whose pong ends their old frames
        self._attaching: dict[str, int] = {}  # attached ids, with the ping whose pong confirms them
        self._confirmed: dict[str, int] = {}
        self._expected: dict[str, int] = {}  # ids whose consumer waits until nothing more comes up to a seq
        self.socket: ClientConnection | None = None
        self.progress = -1
        self._timeline: str | None = None  # that `progress` is of
        self.connects = 0

    def beside(self, open_socket: Opener, lost: Lost) -> Stream:
        """A stream to a broker that was named; its feeds come back by `lost`."""
        return Stream(open_socket, Backoff(), self.redirects, self._home, lost)

    def _elsewhere(self, feed: Feed) -> Stream | None:
        """The stream that a feed was redirected to from here."""
        if self.redirects is None or self._home is not self or self._feeds.get(feed.id) is feed:
            return None
        return self.redirects.stream_of(feed.id)

    def listen(self, feed: Feed) -> None:
        """Attach the feed: at once, when its old frames have ended, or with the next connection."""
        elsewhere = self._elsewhere(feed)
        if elsewhere is not None:
            elsewhere.listen(feed)
            return
        other = self._feeds.setdefault(feed.id, feed)
        if other is not feed:
            raise ValueError(f"the subscription {feed.id!r} is already attached by this client")
        feed.is_wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        else:
            self._attach_if_free(feed)

    def leave(self, feed: Feed) -> None:
        """Detach the feed for good."""
        elsewhere = self._elsewhere(feed)
        if elsewhere is not None:
            elsewhere.leave(feed)
            return
        feed.is_wanted = feed.is_listening = False
        if self._feeds.get(feed.id) is feed:
            del self._feeds[feed.id]
            self._expected.pop(feed.id, None)
            self._detach(feed)
            self._forget(feed)

    def _forget(self, feed: Feed) -> None:
        """A feed that was redirected here is over."""
        if self.redirects is not None and self._home is not self:
            self.redirects.forget(feed)

    def expect(self, feed: Feed, seq: int) -> None:
        """Nudge the feed when everything up to `seq` has reached it: no frame need come with that seq."""
        elsewhere = self._elsewhere(feed)
        if elsewhere is not None:
            elsewhere.expect(feed, seq)
        elif self._feeds.get(feed.id) is feed:
            self._expected[feed.id] = seq
            self._mark()

    async def close(self) -> None:
        """Close the socket; the feeds hear nothing more."""
        if self.redirects is not None and self._home is self:
            await self.redirects.close()
        self._feeds.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # -- the connection --------------------------------------------------------------------------------------
    async def _run(self) -> None:
        while True:
            try:
                self.socket = await self._open_socket()
                try:
                    await self._converse(self.socket)
                finally:
                    await self.socket.close()
            except (OSError, TimeoutError, WebSocketException) as error:
                _log.debug("the stream is not connected: %s", error)
            except ProsemError as error:  # trying again would not help
                if self._lost is not None:
                    self._give_back()
                    return
                for feed in self._feeds.values():
                    feed.end(error)
                self._feeds.clear()
                return
            if self._lost is not None:
                self._give_back()
                return
            await asyncio.sleep(self._backoff.next_s())

    def _give_back(self) -> None:
        """The broker that was named is lost: its feeds go on elsewhere, after what they have received."""
        assert self._lost is not None
        self._resume_points()
        feeds, expected = [*self._feeds.values()], self._expected
        self._feeds, self._expected = {}, {}
        self._lost(self, feeds)
        for feed in feeds:
            if feed.id in expected:
                self._home.expect(feed, expected[feed.id])

    async def _converse(self, socket: ClientConnection) -> None:
        self._resume_points()
        self._is_connected = True
        self.connects += 1
        for feed in self._feeds.values():
            if feed.is_wanted:
                self._attach(feed)
        self._ping()
        writer = asyncio.get_running_loop().create_task(self._write(socket))
        try:
            async for text in socket:
                self._read(text)
        finally:
            self._is_connected = False
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, socket: ClientConnection) -> None:
        try:
            while True:
                await socket.send(encode(await self._sending.get()))
        except ConnectionClosed:
            pass  # the reader ends too

    def _resume_points(self) -> None:
        """Begin anew; what the lost connection had told all its feeds counts as received by them."""
        for feed in self._feeds.values():
            feed.is_listening = False
            if self._home is self:
                feed.hops = 0
            if self.progress > self._confirmed.get(feed.id, self.progress):
                feed.pass_by(self.progress)
        for known in (self._confirmed, self._attaching, self._leaving):
            known.clear()
        self._sending = asyncio.Queue()
        self._pings = self._pongs = 0
        self.progress = -1
        self._timeline = None

    # -- frames out ------------------------------------------------------------------------------------------
    def _attach(self, feed: Feed) -> None:
        frame: JsonObject = {"op": "attach", "id": feed.id}
        if feed.is_raw:
            frame["raw"] = True
        elif feed.received is not None:
            frame["after"] = feed.received
            if feed.timeline is not None:
                frame["timeline"] = feed.timeline
        if self.redirects is not None and feed.hops < MOST_HOPS:
            frame["redirects"] = True
        feed.is_listening = True
        self._sending.put_nowait(frame)
        self._attaching[feed.id] = self._pings + 1

    def _attach_if_free(self, feed: Feed) -> None:
        """Attach a feed that wants it, unless frames of an old attachment may still come."""
        is_idle = feed.is_wanted and not feed.is_listening and feed.id not in self._leaving
        if is_idle and self._is_connected and self._feeds.get(feed.id) is feed:
            self._attach(feed)
            self._ping()

    def _detach(self, feed: Feed) -> None:
        """Frames of the id may still come until the pong; until then it is not attached again."""
        self._attaching.pop(feed.id, None)
        self._confirmed.pop(feed.id, None)
        if self._is_connected and feed.id not in self._leaving:
            self._sending.put_nowait({"op": "detach", "id": feed.id})
            self._ping()
            self._leaving[feed.id] = self._pings

    def _ping(self) -> None:
        self._pings += 1
        self._sending.put_nowait({"op": "ping"})

    # -- frames in -------------------------------------------------------------------------------------------
    def _read(self, text: str | bytes) -> None:
        try:
            self._route(json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            raise ProsemError(0, "protocol", f"the stream sent what is no frame: {text[:200]!r}") from error

    def _route(self, frame: JsonObject) -> None:
        if "snapshot" in frame or "change" in frame:
            is_snapshot = "snapshot" in frame
            payload = frame["snapshot" if is_snapshot else "change"]
            feed = self._feeds.get(frame["id"])
            told = Frame(frame["seq"], payload, is_snapshot, frame.get("timeline"))
            if feed is not None and not feed.take(told):
                self._detach(feed)
        elif "raw" in frame:
            is_state = frame["raw"][0]["message"] == "state"
            feed = self._feeds.get(frame["id"])
            if feed is not None and not feed.take(Frame(frame["seq"], frame["raw"], is_state)):
                self._detach(feed)
        elif "progress" in frame:
            self._advance(frame["progress"], frame.get("timeline"))
            self._mark()
        elif "pong" in frame:
            self._backoff.reset()
            self._pongs += 1
            self._settle(frame.get("timeline"))
            self._mark()
        elif "redirect" in frame:
            self._redirected(frame)
        elif "error" in frame:
            self._refused(frame)

    def _advance(self, seq: int, timeline: str | None) -> None:
        """All that is attached has come to `seq`. Another timeline begins anew, perhaps at a smaller one."""
        if timeline == self._timeline:
            self.progress = max(self.progress, seq)
            return
        is_first, self.progress, self._timeline = self._timeline is None, seq, timeline
        for id in self._confirmed:  # a mark follows what was replayed for each of them
            self._feeds[id].timeline = timeline
            if not is_first:
                self._confirmed[id] = -1

    def _settle(self, timeline: str | None) -> None:
        """The server has handled everything up to the ping that was answered, and its timeline is this one."""
        for id in self._answered(self._attaching):
            self._confirmed[id] = self.progress
            if timeline is not None and id in self._feeds:
                self._feeds[id].timeline = timeline
        for id in self._answered(self._leaving):
            if id in self._feeds:
                self._attach_if_free(self._feeds[id])

    def _mark(self) -> None:
        """Tell the feeds that wait for it how far they have received everything.

        A mark from before the attach counts too once that is confirmed: an attach brings all since `after`.
        """
        for id, seq in list(self._expected.items()):
            if seq <= self.progress and id in self._confirmed:
                del self._expected[id]
                self._feeds[id].pass_by(self.progress)
                self._feeds[id].nudge()

    def _answered(self, waiting: dict[str, int]) -> list[str]:
        """Take out the ids whose ping was answered: they stand first, since pings are answered in order."""
        ids = list(takewhile(lambda id: waiting[id] <= self._pongs, waiting))
        for id in ids:
            del waiting[id]
        return ids

    def _redirected(self, frame: JsonObject) -> None:
        """An attach is answered by the address of a broker: nothing comes here for the feed, so it begins there at once."""
        feed = self._feeds.get(frame["id"])
        if feed is None or not feed.is_listening or self.redirects is None:
            return
        feed.is_listening = False
        self._attaching.pop(feed.id, None)
        self._confirmed.pop(feed.id, None)
        expected = self._expected.pop(feed.id, None)
        del self._feeds[feed.id]
        if not self.redirects.move(feed, self._home, frame["redirect"]):
            feed.hops = MOST_HOPS  # it is served in place
            self._feeds[feed.id] = feed
            self._attach_if_free(feed)
        if expected is not None:
            self._home.expect(feed, expected)

    def _refused(self, frame: JsonObject) -> None:
        error = ProsemError.of_problem(frame["error"])
        feed = self._feeds.get(frame.get("id", ""))
        if feed is None:
            _log.log(logging.DEBUG if "id" in frame else logging.WARNING, "the stream reports: %s", error)
            return
        feed.is_listening = False
        self._attaching.pop(feed.id, None)
        self._confirmed.pop(feed.id, None)
        if error.status == 503:  # the server is busy: the same again, later
            asyncio.get_running_loop().call_later(self._backoff.next_s(), self._attach_if_free, feed)
            return
        del self._feeds[feed.id]
        self._expected.pop(feed.id, None)
        self._forget(feed)
        feed.end(error)
