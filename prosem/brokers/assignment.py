"""Which broker a subscription is best hosted by: interest and latency together ([ProSem thesis] 7, subscriber assignment).

The thesis asks for data locality (a message should reach few brokers) and network locality at once. Its window of recent
events is here one of recent messages, with the brokers that host a subscription they concern. Of the messages that would
concern a subscription, a broker needs a copy of those that it would not receive otherwise; these copies and the time
that messages take to the broker are its cost, by the weights of the optimizer.

A message to names says nothing of its region: the places of some of those named stand for it, and it is taken to concern a
subscription that covers one of them, or is covered by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from cn.model.geometry import Filters
from cn.model.message import Message
from cn.networks.lub import as_filters, covers_all, may_concern
from optimizer.plan import Estimate
from prosem.brokers.ways import Ways, size_of
from prosem.engine.traffic import Traffic
from prosem.types.base import NetworkPlace

WINDOW = 64  # messages of a space that are remembered
NAMED = 8  # places that stand for the region of a message to names
SAMPLED = 8  # of so many messages one is, in the long run
MARGIN = 0.9  # a move must cost at most this share of staying


class Sample(NamedTuple):
    """A message, the brokers that host a subscription it concerns, and the places of some that it names."""

    message: Message
    hosts: frozenset[str]
    named: tuple[Filters, ...]


class Assignment:
    """A choice costs O(window · brokers). It loses where interests are alike everywhere: then it looks in vain.

    >>> from prosem.brokers.ways import Ways
    >>> from cn.model.geometry import Interval
    >>> from cn.model.network import Space
    >>> traffic = Traffic()
    >>> assignment = Assignment(Ways("server", traffic), traffic)
    >>> place = NetworkPlace(Space(7, 1, True), 1, b"", (42,))
    >>> assignment.add(Message(1, 0, 7, "minimum", region=((Interval(40, 50),),)), ["b"])
    >>> assignment.best([place], "a", ["b", "c"]), assignment.best([place], "b", ["a", "c"])
    ('b', None)
    >>> place = place._replace(place=(9,))
    >>> assignment.best([place], "a", ["b", "c"]) is None  # no message would have concerned it
    True
    """

    def __init__(self, ways: Ways, traffic: Traffic) -> None:
        self._ways, self._traffic = ways, traffic
        self._windows: dict[int, deque[Sample]] = {}
        self._seen: dict[int, int] = {}  # messages of each space

    def is_due(self, message: Message) -> bool:
        """Whether a message is to be remembered: the first of a space, and one of every few after them."""
        seen = self._seen[message.space] = self._seen.get(message.space, 0) + 1
        return seen <= WINDOW or seen % SAMPLED == 0

    def add(self, message: Message, hosts: Iterable[str], named: Iterable[NetworkPlace] = ()) -> None:
        """Remember a message; `named` are places of subscriptions that it names."""
        places = [as_filters(one.space, one.topic, one.place) for one in islice(named, NAMED)]
        window = self._windows.setdefault(message.space, deque(maxlen=WINDOW))
        window.append(Sample(message, frozenset(hosts), tuple(filter(None, places))))

    def forget(self, space: int) -> None:
        """A space was closed."""
        self._windows.pop(space, None)
        self._seen.pop(space, None)

    def clear(self) -> None:
        self._windows.clear()
        self._seen.clear()

    def best(self, places: Iterable[NetworkPlace], here: str, others: Sequence[str]) -> str | None:
        """The broker among `others` that a subscription with these places is to move to; None if it stays here.

        Latencies of links are known, that of the client to a broker is not: the client has chosen where it is, so it moves
        only to where it spares copies.
        """
        able = set(others)
        interests = [Interest(one) for one in places]
        samples = [(one, interest) for interest in interests for one in self._window(interest.space)]
        if not any(
            here not in one.hosts and not able.isdisjoint(one.hosts) and interest.includes(one)
            for one, interest in samples
        ):
            return None  # as a rule: what it is interested in comes here anyway, or nowhere
        since = max((self._since(space) for space in {one.space for one in interests}), default=0)
        seen = {
            id(one): one for one, interest in samples if one.message.seq >= since and interest.includes(one)
        }
        matched = list(seen.values())
        if not matched:
            return None
        size = sum(size_of(one.message) for one in matched) / len(matched)
        missed = {
            broker: sum(broker not in one.hosts for one in matched) / len(matched)
            for broker in (here, *others)
        }
        costs = {broker: self._cost(broker, share, size) for broker, share in missed.items()}
        cheaper = [broker for broker in others if missed[broker] < missed[here]]
        best = min(cheaper, key=costs.__getitem__, default=None)
        return best if best is not None and costs[best] <= MARGIN * costs[here] else None

    def _window(self, space: int) -> Sequence[Sample]:
        return self._windows.get(space, ())

    def _since(self, space: int) -> int:
        """From which seq on all messages of a space are known that are sampled: so spaces count by their messages."""
        window = self._window(space)
        return window[0].message.seq if len(window) == WINDOW else 0

    def _cost(self, broker: str, missed: float, size: float) -> float:
        """Of one message: the copy that is sent for this subscription alone, and the time on the way."""
        server_us, hops = missed * self._traffic.copy_us, self._ways.hops(broker)
        latency_us = self._ways.latency_us(broker)["tree"]
        return self._traffic.weights.cost(
            Estimate(server_us, latency_us, missed * size, missed * size * hops, 1.0)
        )


class Interest:
    """One place of a subscription, of those it has in one space or in several."""

    def __init__(self, place: NetworkPlace) -> None:
        self.space, self._id = place.space.id, place.id
        self._filters = as_filters(place.space, place.topic, place.place)

    def includes(self, sample: Sample) -> bool:
        """Whether a message of the space would concern the subscription."""
        message, own = sample.message, self._filters
        if message.targets is None:
            return bool(own) and may_concern(own, message)
        return self._id in message.targets or (
            bool(own) and any(covers_all(own, one) or covers_all(one, own) for one in sample.named)
        )
