"""The network within one process: no brokers, no links, every hosted id at one edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cn.match.box_index import BoxIndex
from cn.match.kernels import box_index, point_index
from cn.match.point_index import PointIndex
from cn.model.message import Message
from cn.model.network import Deliver, Place, Release, Space


class LocalNetwork:
    """Matches at once, in the caller's thread, against one index for each space.

    A message costs one search among the *hosted* places of its space, whatever the number of subscriptions.
    It loses when one process cannot hold all sockets: then brokers must share the matching.

    >>> from cn.model.geometry import Interval
    >>> deliver = lambda message, ids: print(message.seq, [*map(int, ids)])
    >>> network = LocalNetwork(deliver, lambda seq: print("up to", seq))
    >>> network.register(Space(1, 1, True), 7, b"", (42,))
    >>> network.inject(Message(1, 0, 1, "minimum", region=((Interval(40, 50),),)))
    1 [7]
    >>> network.watermark(1)
    up to 1
    """

    name = "local"

    def __init__(self, deliver: Deliver, release: Release) -> None:
        self._deliver, self._release = deliver, release
        self._points: dict[int, PointIndex] = {}
        self._filters: dict[int, BoxIndex] = {}
        self._places: dict[int, tuple[Space, bytes, Place | None]] = {}  # of every hosted id
        self._messages = self._bytes = self._injected = self._last_seq = 0

    def __len__(self) -> int:
        return len(self._places)

    def register(self, space: Space, id: int, topic: bytes, place: Place | None) -> None:
        """Host an id at a place; O(log N)."""
        old = self._places.get(id)
        if old == (space, topic, place):
            return
        if old is not None and old[0] == space and old[2] is not None and place is not None:
            if space.dimensions:
                self._points[space.id].move(id, old[1], old[2], topic, place)
            else:
                self._filters[space.id].update(id, place)
        else:
            self._add(space, id, topic, place)
            self.remove(id)
        self._places[id] = space, topic, place

    def move(self, space: Space, id: int, topic: bytes, place: Place | None) -> None:
        """Take a hosted id to another place; O(log N)."""
        if id in self._places:
            self.register(space, id, topic, place)

    def remove(self, id: int) -> None:
        """Host an id no longer; O(log N)."""
        space, topic, place = self._places.pop(id, (None, b"", None))
        if space is None or place is None:
            return
        if space.dimensions:
            points = self._points[space.id]
            points.remove(id, topic, place)
            if not points:
                del self._points[space.id]
        else:
            filters = self._filters[space.id]
            filters.remove(id)
            if not filters:
                del self._filters[space.id]

    def inject(self, message: Message) -> None:
        """Deliver a message to the hosted ids that match it now."""
        self._injected += 1
        ids = self._concerned(message)
        if len(ids):
            self._messages += 1
            self._bytes += len(message.payload)
            self._last_seq = message.seq
            self._deliver(message, ids)

    def watermark(self, seq: int) -> None:
        """Release everything up to `seq`: it has been delivered when it was injected."""
        self._release(seq)

    def links(self) -> list[dict[str, Any]]:
        """The one link, from the server to the edge; its bytes are those of the payloads."""
        return [
            {
                "from": "server",
                "to": "edge",
                "messages": self._messages,
                "bytes": self._bytes,
                "last_seq": self._last_seq,
                "injected": self._injected,
                "hosted": len(self._places),
            }
        ]

    def check(self) -> None:
        """Assert that the indexes hold the places of the hosted ids and nothing else."""
        indexes: list[PointIndex | BoxIndex] = [*self._points.values(), *self._filters.values()]
        for index in indexes:
            index.check()
            assert len(index)
        placed = {id: known for id, known in self._places.items() if known[2] is not None}
        points = {(space, *item) for space, points in self._points.items() for item in points.items()}
        assert points == {
            (s.id, id, topic, place) for id, (s, topic, place) in placed.items() if s.dimensions
        }
        assert all(id in self._filters[s.id] for id, (s, _, _) in placed.items() if not s.dimensions)
        assert sum(map(len, self._filters.values())) + len(points) == len(placed)

    def covers(self, message: Message) -> bool:
        """Whether a message matches any place; a region is searched up to the first block with a point.

        See [ProSem thesis] 3.2.3.
        """
        if message.targets is None and message.attributes is None:
            points = self._points.get(message.space)
            return points is not None and points.any(message.topic, message.region)
        return len(self._concerned(message)) > 0

    def _concerned(self, message: Message) -> Sequence[int] | NDArray[np.int64]:
        space = message.space
        if message.targets is not None:
            hosted = ((id, self._places.get(id)) for id in dict.fromkeys(message.targets))
            return [id for id, known in hosted if known is not None and known[0].id == space]
        if message.attributes is not None:
            filters = self._filters.get(space)
            vectors = [vector for vector in message.attributes if vector is not None]
            if filters is None or not vectors:
                return ()
            return filters.match_each((vectors,))[0]
        points = self._points.get(space)
        return points.find(message.topic, message.region) if points is not None else ()

    def _add(self, space: Space, id: int, topic: bytes, place: Place | None) -> None:
        if place is None:
            return
        if not space.dimensions:
            self._filters.setdefault(space.id, box_index()).insert(id, place)
            return
        points = self._points.get(space.id) or point_index(space.dimensions, space.int64)
        points.insert(id, topic, place)
        self._points[space.id] = points
