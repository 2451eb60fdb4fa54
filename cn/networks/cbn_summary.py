"""Brokers that know summaries of what lies beyond their links: widened at once, narrowed from below ([Beretta] 5.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cn.model.frames import Data, Frame, Leave, Placed, PlaceRemoved, PositionMark, Summary
from cn.model.geometry import Extent, Filters
from cn.model.message import Message
from cn.networks.lub import Aggregate, as_filters, may_concern
from cn.networks.node import Options, Out, TreeNode, TreeRoot

THRESHOLD = 8  # distinct filters up to which a summary is exact
CONFIRM = (
    32  # places passed down a link after which its summary is sent again, though it may not have changed
)


class _Widened(NamedTuple):
    position: int
    space: int
    filters: Filters


class LinkSummary:
    """What is asked for beyond one link: a summary from below as of a position, and every place that passed since.

    It never asks for less than what is hosted below: a place is added before anything later can pass, and leaves only
    with a summary that was made after it had arrived.
    """

    def __init__(self) -> None:
        self.spaces: dict[int, Filters] = {}
        self.recent: list[_Widened] = []

    def widen(self, position: int, space: int, filters: Filters) -> None:
        self.recent.append(_Widened(position, space, filters))

    def narrow(self, frame: Summary) -> None:
        reported = dict(frame.spaces)
        self.spaces.update(reported)
        self.recent = [
            one for one in self.recent if one.space not in reported or one.position > frame.position
        ]

    def filters(self, space: int) -> Iterator[Filters]:
        yield self.spaces.get(space, ())
        yield from (one.filters for one in self.recent if one.space == space)

    def may_concern(self, message: Message) -> bool:
        return any(may_concern(filters, message) for filters in self.filters(message.space))


class SummaryNode(TreeNode):
    """Knows its own places, and of each link a summary; sends its parent the summary of both.

    A message costs the size of the summaries, whatever the number of places below. Ids are known one by one, for
    messages that name them. It loses where places are scattered: a bound then asks for almost everything.
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.threshold = self.options.get("threshold", THRESHOLD)
        self.links: dict[str, LinkSummary] = {}
        self._hops: dict[int, dict[str, str]] = {}  # id → host → link
        self._own: dict[int, tuple[int, Filters]] = {}  # the places of this broker: id → space, filters
        self._aggregates: dict[int, Aggregate] = {}  # of the own places, by space
        self._reported: dict[int, Filters] = {}
        self._changed: dict[int, int] = {}  # space → places passed since it was reported

    # -- messages ----------------------------------------------------------------------------------------------
    def carry(self, frame: Data) -> Iterable[Out]:
        message = frame.message
        if message.targets is not None:
            named = (self._hops.get(id, {}) for id in message.targets)
            return [(hop, frame) for hop in dict.fromkeys(hop for hosts in named for hop in hosts.values())]
        return [(hop, frame) for hop, link in self.links.items() if link.may_concern(message)]

    # -- places: widened at once -------------------------------------------------------------------------------
    def widen(self, hop: str, frame: Placed) -> None:
        self._hops.setdefault(frame.id, {})[frame.route[-1]] = hop
        filters = as_filters(frame.space, frame.topic, frame.place)
        self.links.setdefault(hop, LinkSummary()).widen(frame.position, frame.space.id, filters)
        self._count(frame.space.id)

    def narrow(self, hop: str, frame: PlaceRemoved) -> None:
        hosts = self._hops.get(frame.id, {})
        hosts.pop(frame.route[-1], None)
        if not hosts:
            self._hops.pop(frame.id, None)

    def forget(self, hop: str, frame: Leave) -> None:
        for id, hosts in [*self._hops.items()]:
            for host in frame.brokers:
                hosts.pop(host, None)
            if not hosts:
                del self._hops[id]
        if hop == frame.brokers[0]:
            link = self.links.pop(hop, LinkSummary())
            for space in {*link.spaces, *(one.space for one in link.recent)}:
                self._count(space)

    def host(self, frame: Placed | PlaceRemoved) -> None:
        space, filters = self._own.pop(frame.id, (0, ()))
        if filters:
            self._aggregates[space].remove(filters)
            self._count(space)
        if isinstance(frame, Placed):
            space, filters = frame.space.id, as_filters(frame.space, frame.topic, frame.place)
            self._own[frame.id] = space, filters
            self._aggregates.setdefault(space, Aggregate(self.threshold)).add(filters)
            self._count(space)

    # -- summaries: narrowed from below ------------------------------------------------------------------------
    def answer(self, sender: str, frame: Frame) -> Iterable[Out]:
        if not isinstance(frame, Summary):
            return super().answer(sender, frame)
        if sender in self.children:
            self.links.setdefault(sender, LinkSummary()).narrow(frame)
            for space, _ in frame.spaces:
                self._count(space)
        return ()

    def _count(self, space: int) -> None:
        self._changed[space] = self._changed.get(space, 0) + 1

    def marked(self, frame: PositionMark) -> Iterable[Out]:
        """Send the parent those summaries that have changed, or that many places have passed since."""
        if not self.parent:
            return
        news = []
        for space, passed in [*self._changed.items()]:
            summary = self.summary(space)
            if summary != self._reported.get(space, ()) or passed >= CONFIRM:
                news.append((space, summary))
                self._reported[space] = summary
                del self._changed[space]
        if news:
            yield self.parent, Summary(frame.position, tuple(news))

    def summary(self, space: int) -> tuple[dict[int, Extent], ...]:
        """What is asked for here and below, in a space."""
        whole = Aggregate(self.threshold)
        if own := self._aggregates.get(space):
            whole.add(own.summary())
        for link in self.links.values():
            for filters in link.filters(space):
                whole.add(filters)
        return whole.summary()

    def check(self) -> None:
        for aggregate in self._aggregates.values():
            aggregate.check()
        assert sum(map(len, self._aggregates.values())) == sum(len(f) for _, f in self._own.values())


class SummaryRoot(SummaryNode, TreeRoot):
    """The server's node: it has no parent."""
