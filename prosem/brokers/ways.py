"""Which way a message takes from the server to the brokers concerned: down the network's tree, or straight to each.

The tree spares the server copies, and pays with a hop for each level; straight, a message is there sooner and the server
sends one copy for each broker. Both are compared by the weights of the optimizer for every message; what either would have
cost is what the optimizer learns (`prosem.engine.traffic`), which so prices each plan by its better way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cn.model.message import Message
from cn.networks.node import Out
from optimizer.cost import STRAIGHT, TREE, Carriage, Carriages
from optimizer.plan import Estimate
from prosem.engine.traffic import Traffic

HEAD_BYTES, TARGET_BYTES = 60, 9  # of a message: beside payload and contents, and of each target


class Ways:
    """`server` is the server's node; `always`: one way for all messages (None: the cheaper one).

    Latencies are µs from a sender until its packet is at the receiver: as acknowledgements say until NATS has stored it, and
    from there by the receiver's own round trips. A link that nothing was sent on is taken to be as fast as the mean of the
    others. A message whose ways differ costs O(brokers · depth).

    >>> ways = Ways("server", Traffic())
    >>> ways.learn({"a": "server", "b": "a", "c": "a"}, {"a": 300.0}, {"b": 500.0, "c": 500.0}, 0.5)
    >>> message = Message(1, 0, 7, "row", payload=bytes(40))
    >>> ways.is_straight(message, ["a"], ["b", "c"])  # one copy of 100 bytes more, 500 µs sooner
    False
    >>> ways.is_straight(message, ["a"], ["b"])
    True
    >>> ways.counts
    {'tree': 1, 'straight': 1}
    """

    def __init__(self, server: str, traffic: Traffic, always: str | None = None) -> None:
        self._server, self._traffic, self._always = server, traffic, always
        self._parents: Mapping[str, str] = {}
        self._own_us: Mapping[str, float] = {}  # from the server straight to a broker
        self._link_us: Mapping[str, float] = {}  # from its parent to a broker
        self._tree_us: dict[str, float] = {}  # from the server down the tree to a broker
        self._below_us: dict[str, float] = {}  # the mean of those behind one of the server's links
        self._mean_us = 0.0
        self._behind = 0.0
        self._is_offered = False  # whether the network lets messages go straight
        self._last: tuple[str, Carriages] | None = None  # of the message in hand
        self.counts = {TREE: 0, STRAIGHT: 0}

    def learn(
        self,
        parents: Mapping[str, str],
        own_us: Mapping[str, float],
        link_us: Mapping[str, float],
        behind: float,
    ) -> None:
        """The network as it is: the parent of each broker; latencies of the server's own links and of those from a parent
        to a broker, where they are known; and how many copies brokers' links carry for each on the server's own."""
        known = [*own_us.values(), *link_us.values()]
        self._mean_us = sum(known) / len(known) if known else 0.0
        self._parents, self._own_us, self._link_us, self._behind = parents, own_us, link_us, behind
        self._tree_us = {broker: self._down_us(broker) for broker in parents}
        below: dict[str, list[float]] = {}
        for broker, took_us in self._tree_us.items():
            below.setdefault(self._way(broker)[-1], []).append(took_us)
        self._below_us = {link: sum(some) / len(some) for link, some in below.items()}

    def _way(self, broker: str) -> list[str]:
        """From a broker up to the last one below the server."""
        way = [broker]
        while self._parents.get(way[-1], self._server) != self._server:
            way.append(self._parents[way[-1]])
        return way

    def _down_us(self, broker: str) -> float:
        *brokers, first = self._way(broker)
        return self._straight_us(first) + sum(self._link_us.get(one, self._mean_us) for one in brokers)

    def link_us(self, broker: str) -> float | None:
        """The latency of the link from another broker to this one; None if it is not known."""
        return self._link_us.get(broker)

    def hops(self, broker: str) -> int:
        """The links from the server down the tree to a broker."""
        return len(self._way(broker))

    def latency_us(self, broker: str) -> dict[str, float]:
        """What is known of both ways to a broker."""
        tree_us = self._tree_us.get(broker, self._mean_us)
        return {TREE: round(tree_us, 1), STRAIGHT: round(self._straight_us(broker), 1)}

    def _straight_us(self, broker: str) -> float:
        return self._own_us.get(broker, self._mean_us)

    def is_straight(self, message: Message, links: Sequence[str], hosts: Sequence[str]) -> bool:
        """Whether a message for these hosts, which the server's `links` lead to, goes straight to them."""
        nodes = {node for host in hosts for node in self._way(host)}
        tree_us = sum(self._tree_us.get(host, self._mean_us) for host in hosts) / len(hosts)
        straight_us = sum(map(self._straight_us, hosts)) / len(hosts)
        tree = Carriage(len(links), len(nodes), tree_us)
        straight = Carriage(len(hosts), len(hosts), straight_us)
        size = size_of(message)
        if self._always is not None:
            is_straight = self._always == STRAIGHT
        else:
            is_straight = self._cost(straight, size) < self._cost(tree, size)
        way = STRAIGHT if is_straight else TREE
        self._is_offered = True
        self._last = way, self._open({TREE: tree, STRAIGHT: straight})
        self.counts[way] += 1
        return is_straight

    def _open(self, carriages: Carriages) -> Carriages:
        """Without the ways that no message may take."""
        return carriages if self._always is None else {self._always: carriages[self._always]}

    def _cost(self, one: Carriage, size: int) -> float:
        server_us = one.copies * self._traffic.copy_us
        estimate = Estimate(server_us, one.way_us, one.copies * size, one.all_copies * size, 0.0)
        return self._traffic.weights.cost(estimate)

    def carried(self, outs: Iterable[Out]) -> tuple[str, Carriages]:
        """By which way the root has just sent a message, and how each way that was open to it would have carried it."""
        last, self._last = self._last, None
        if last is not None:
            return last
        links = [to for to, _ in outs if to != self._server]
        copies = max(1, len(links))
        if self._is_offered:  # the brokers concerned are the server's own neighbours
            way_us = sum(map(self._straight_us, links)) / copies
            carriages = self._open(dict.fromkeys((TREE, STRAIGHT), Carriage(len(links), len(links), way_us)))
            return next(iter(carriages)), carriages
        way_us = sum(self._below_us.get(link, self._mean_us) for link in links) / copies
        return TREE, {TREE: Carriage(len(links), len(links) * (1 + self._behind), way_us)}


def size_of(message: Message) -> int:
    """About the bytes of a message on a link."""
    targets = 0 if message.targets is None else TARGET_BYTES * len(message.targets)
    return HEAD_BYTES + len(message.payload) + sum(map(len, message.contents)) + targets
