"""What sockets were sent, in 20 bytes per change: the subscription, the seq, and a digest of the change."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw, UnsetType
from websockets.asyncio.client import connect

from tests.support.backtested import alike

_encode = msgspec.json.Encoder(order="sorted").encode


def digest(change: bytes | str | Raw) -> int:
    """Of all that a change says: its rows and values have no order, and the row of a minimum may be another one."""
    text = _encode(alike(msgspec.json.decode(change)))
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True)


class _Frame(msgspec.Struct):
    id: str = ""
    seq: int = -1
    change: Raw | UnsetType = UNSET
    progress: int | UnsetType = UNSET
    error: Any = UNSET


_frame = msgspec.json.Decoder(_Frame).decode
Changes = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]  # seqs and digests


class Receiver:
    """One socket with some of the subscriptions; `numbers` says what each id is called here."""

    def __init__(self, url: str, numbers: Mapping[str, int]) -> None:
        self._url = url.replace("http", "ws", 1) + "/v1/stream"
        self._numbers = numbers
        self.attached, self.progress = 0, -1
        self.gone: set[str] = set()
        self.subscriptions, self.seqs, self.digests = array("i"), array("q"), array("q")

    async def run(self) -> None:
        async with connect(
            self._url, compression=None, proxy=None, max_size=None, ping_interval=None
        ) as socket:
            for id in self._numbers:
                await socket.send(msgspec.json.encode({"op": "attach", "id": id}).decode())
            async for text in socket:
                self._take(_frame(text))

    def _take(self, frame: _Frame) -> None:
        if frame.change is not UNSET:
            self.subscriptions.append(self._numbers[frame.id])
            self.seqs.append(frame.seq)
            self.digests.append(digest(frame.change))
        elif frame.progress is not UNSET:
            self.progress = frame.progress
        elif frame.error is not UNSET:
            assert frame.error["status"] == 404, frame
            self.gone.add(frame.id)
        else:
            self.attached += 1


class Received:
    """All changes of all sockets, by subscription and seq."""

    def __init__(self, receivers: Sequence[Receiver]) -> None:
        def gathered(name: str) -> np.ndarray[Any, Any]:
            return np.concatenate([np.asarray(getattr(one, name)) for one in receivers])

        numbers, seqs, digests = gathered("subscriptions"), gathered("seqs"), gathered("digests")
        order = np.lexsort((seqs, numbers))
        self._numbers, self._seqs, self._digests = numbers[order], seqs[order], digests[order]

    def __len__(self) -> int:
        return len(self._seqs)

    def of(self, number: int, after: int, upto: int) -> Changes:
        """Those of one subscription with `after < seq <= upto`."""
        first, last = np.searchsorted(self._numbers, [number, number + 1])
        seqs = self._seqs[first:last]
        start, end = (
            first + np.searchsorted(seqs, after, "right"),
            first + np.searchsorted(seqs, upto, "right"),
        )
        return self._seqs[start:end], self._digests[start:end]
