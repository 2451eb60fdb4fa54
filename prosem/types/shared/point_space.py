"""The server's side of a space of points: the index over all active points, and the two plans every such type has."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, cast

from cn.match.kernels import point_index
from cn.model.geometry import Region
from cn.model.network import Space as NetworkSpace
from prosem.types.base import Bound, Draft, placements
from prosem.types.shared.sketched import Sketched
from prosem.values.model import Delta


class Shape(Protocol):
    """Of which kind the points are."""

    @property
    def dimensions(self) -> int: ...
    @property
    def int64(self) -> bool: ...


class PointSpace(Sketched):
    """Reformulation sends each region as it is; enumeration finds the points in it and names them in one message.

    Reformulation costs the same for one subscription and a million. Enumeration wins only while an event affects few
    subscriptions; it is the way of a server without a content-driven network. No plan makes a message for a region
    without a point: `step` leaves such regions out ([ProSem thesis] 3.2.3).
    """

    plans: tuple[str, ...] = ("reformulate", "enumerate")

    def __init__(self, shape: Shape, space_id: int) -> None:
        self.network = NetworkSpace(space_id, shape.dimensions, shape.int64)
        super().__init__(point_index(shape.dimensions, shape.int64))

    @abstractmethod
    def step(self, delta: Delta) -> Any | None:
        """Take the row's new state into the indexes; describe the affected subscriptions (None: there are none)."""

    @abstractmethod
    def drafts(self, description: Any) -> list[Draft]:
        """The description as messages with regions."""

    def regions(self, description: Any) -> Sequence[tuple[bytes, Region]]:
        """The regions of a description with their topics, without what is said to them."""
        return [(draft.topic, draft.region) for draft in self.drafts(description) if draft.targets is None]

    @property
    def visits(self) -> int:
        return self.points.visits

    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        placed = [
            one
            for sid, bound in zip(sids, bounds, strict=True)
            if bound.place is not None
            for one in placements(sid, bound)
        ]
        if len(placed) == 1:
            self.points.insert(*cast("tuple[int, bytes, tuple[Any, ...]]", placed[0]))
        elif placed:
            numbers, topics, places = zip(*placed, strict=True)
            self.points.insert_many(numbers, topics, cast("tuple[tuple[Any, ...], ...]", places))

    def move(self, sid: int, before: Bound, after: Bound) -> None:
        if before.place is None or after.place is None or before.others or after.others:
            super().move(sid, before, after)
        else:
            self.points.move(sid, before.topic, before.place, after.topic, after.place)

    def remove(self, sid: int, bound: Bound) -> None:
        if bound.place is not None:
            for id, topic, place in placements(sid, bound):
                self.points.remove(id, topic, cast("tuple[Any, ...]", place))

    def messages(self, description: Any, plan: str) -> list[Draft]:
        drafts = self.drafts(description)
        if plan == "reformulate":
            return drafts
        addressed = []
        for draft in drafts:
            if draft.targets is not None:
                addressed.append(draft)
                continue
            found = self.points.find(draft.topic, draft.region)
            if len(found):
                addressed.append(draft._replace(region=(), targets=tuple(found.tolist())))
        return addressed
