"""A socket that follows subscriptions over every fault: it attaches again where it was, at the next address."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Iterable

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.support.live import Json, fold

AGAIN_S = 0.2


class Stream:
    """One subscription as this socket received it; fails at a change that is lost, repeated or out of order."""

    def __init__(self, key: Iterable[str]) -> None:
        self._key = tuple(key)
        self.answer: Json | None = None
        self.seq, self.changes = -1, 0
        self.seqs = hashlib.sha256()  # of all changes, to compare sockets

    def take(self, frame: Json) -> None:
        if "snapshot" in frame:
            assert self.answer is None, f"a snapshot instead of the changes after {self.seq}: {frame}"
            self.answer = frame["snapshot"]
        else:
            assert self.answer is not None, f"a change without a snapshot: {frame}"
            assert frame["seq"] > self.seq, f"twice or out of order: {frame} after {self.seq}"
            self.answer = fold(self.answer, frame["change"], self._key)
            self.changes += 1
            self.seqs.update(b"%d " % frame["seq"])
        self.seq = frame["seq"]


class Follower:
    """`latencies_s` are of the witness, since the last time they were taken: from sending the event to here."""

    def __init__(self, urls: list[str], keys: dict[str, Iterable[str]], witness: str) -> None:
        self._urls = [url.replace("http", "ws", 1) + "/v1/stream" for url in urls]
        self._witness = witness
        self.streams = {id: Stream(key) for id, key in keys.items()}
        self.progress = -1
        self.connected = 0
        self.latencies_s: list[float] = []
        self._timeline = ""

    async def run(self) -> None:
        while True:
            url = self._urls[0]
            self._urls.append(self._urls.pop(0))
            try:
                async with connect(
                    url,
                    compression=None,
                    proxy=None,
                    max_size=None,
                    ping_interval=2,
                    ping_timeout=6,
                    open_timeout=5,
                ) as socket:
                    self.connected += 1
                    await self._follow(socket)
            except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError):
                await asyncio.sleep(AGAIN_S)

    async def _follow(self, socket: ClientConnection) -> None:
        for id, stream in self.streams.items():
            place = {} if stream.answer is None else {"after": stream.seq, "timeline": self._timeline}
            await socket.send(json.dumps({"op": "attach", "id": id, **place}))
        async for text in socket:
            frame = json.loads(text)
            if "error" in frame:
                assert frame["error"].get("status") in (429, 503), frame
                return
            if "progress" in frame:
                self.progress = max(self.progress, frame["progress"])
            if "id" not in frame:
                continue
            self._timeline = frame.get("timeline", self._timeline)
            self.streams[frame["id"]].take(frame)
            if frame["id"] == self._witness and "change" in frame:
                now, change = time.monotonic(), frame["change"]
                self.latencies_s += [now - row["sent"] for row in change["add"] + change["update"]]
