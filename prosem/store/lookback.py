"""The last notifications: the messages of a space backwards, until each point has been found by one.

A point that has not moved since `since` was last notified by the newest message after that which finds it. Every point
is found once and then taken out, so a pass costs one search per message and O(log N) per point, however often points are
notified.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from cn.match.kernels import point_index
from cn.model.message import Message


class LookbackPoint(NamedTuple):
    """A point that does not move for `since < seq <= upto`. `key` names it here; messages may name its `sid`."""

    key: int
    since: int
    upto: int
    topic: bytes
    place: tuple[Any, ...]
    sid: int


class Lookback:
    """`payloads`: for each key that a message found, the payload of the newest one that did.

    >>> from cn.model.geometry import EVERYTHING
    >>> everywhere = ((EVERYTHING,),)
    >>> look = Lookback([LookbackPoint(1, 3, 9, b"", (5,), 1), LookbackPoint(2, 7, 9, b"", (6,), 2)])
    >>> for seq in (12, 6, 5):
    ...     look.take(Message(seq, 0, 1, "value", region=everywhere, payload=b"%d" % seq))
    >>> look.payloads, look.is_done
    ({1: b'6'}, True)
    """

    def __init__(self, points: Iterable[LookbackPoint]) -> None:
        self._waiting = sorted(points, key=lambda point: point.upto)
        self._looking: dict[int, LookbackPoint] = {}
        self._keys: dict[int, list[int]] = {}
        self.after = min((point.since for point in self._waiting), default=0)
        self.upto = self._waiting[-1].upto if self._waiting else 0
        places = [point.place for point in self._waiting]
        int64 = all(isinstance(code, int) for place in places for code in place)
        self._points = point_index(len(places[0]) if places else 1, int64)
        self.payloads: dict[int, bytes] = {}

    @property
    def is_done(self) -> bool:
        return not self._waiting and not self._looking

    def take(self, message: Message) -> None:
        """The next message, which comes before all that were taken."""
        self._begin(message.seq)
        if message.targets is not None:
            keys = self._keys
            found: Iterable[int] = [key for sid in message.targets for key in keys.get(sid, ())]
        else:
            found = self._points.find(message.topic, message.region).tolist()
        for key in found:
            point = self._looking.pop(key, None)
            if point is None:
                continue
            self._points.remove(key, point.topic, point.place)
            if message.seq > point.since:
                self.payloads[key] = message.payload

    def _begin(self, seq: int) -> None:
        fresh = []
        while self._waiting and self._waiting[-1].upto >= seq:
            fresh.append(self._waiting.pop())
        if fresh:
            self._looking.update((point.key, point) for point in fresh)
            for point in fresh:
                self._keys.setdefault(point.sid, []).append(point.key)
            keys, _, _, topics, places, _ = zip(*fresh, strict=True)
            self._points.insert_many(keys, topics, places)
