"""Publishers anywhere: subscriptions and updates along advertisements, acknowledged, against a search through all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cn.model.frames import Ack, ClientDelivery, Data, Frame, Subscribe, Unsubscribe, Update
from cn.model.geometry import Extent, Interval
from cn.model.message import Message
from cn.simulation.cbn_peer import PeerNode
from cn.simulation.transport import Faults, Memory

OPTIONS: dict[str, dict[str, Any]] = {
    "updates, bounds": {"lub": True, "threshold": 2},
    "updates, disjunctions": {"lub": False},
    "subscriptions anew, bounds": {"lub": True, "threshold": 0, "updates": False},
    "subscriptions anew, disjunctions": {"lub": False, "updates": False},
    "bounds beyond a few": {"lub": True, "threshold": 5},
}


class Peers:
    """A random tree of brokers with clients that subscribe, move and publish at random."""

    def __init__(
        self, seed: int, options: dict[str, Any], faults: Faults | None = None, brokers: int = 7
    ) -> None:
        self.dice = random.Random(seed)
        self.memory = Memory(faults=faults, codec=True)
        self.delivered: list[tuple[int, str]] = []
        self.acks: list[Ack] = []
        self.names = [f"b{number}" for number in range(brokers)]
        self.filters: dict[str, dict[int, Extent]] = {}  # of each client
        self.sent = self.seq = 0
        self.requests: dict[str, int] = {}
        for name in self.names:
            self.memory.add(PeerNode(name, options), self.take)
        for at, name in enumerate(self.names[1:], 1):
            other = self.names[self.dice.randrange(at)]
            self.memory.post(name, self.node(name).link(other))
            self.memory.post(other, self.node(other).link(name))
        self.publishers = self.names[::3]
        for name in self.publishers:
            self.memory.post(name, self.node(name).advertise(1))
        self.memory.run()

    def node(self, name: str) -> PeerNode:
        node = self.memory.nodes[name]
        assert isinstance(node, PeerNode)
        return node

    def take(self, frame: Frame) -> None:
        if isinstance(frame, ClientDelivery):
            assert len(set(frame.clients)) == len(frame.clients)
            self.delivered += [(frame.message.seq, client) for client in frame.clients]
        elif isinstance(frame, Ack):
            self.acks.append(frame)

    def request(self, client: str, frame: Frame) -> None:
        broker = self.names[int(client[1:]) % len(self.names)]
        self.memory.post(broker, self.node(broker).receive(client, frame))

    def change(self) -> None:
        """A client comes, goes, or changes one attribute or all."""
        client = f"c{self.dice.randrange(20)}"
        self.sent += 1
        old = self.filters.get(client)
        if old is None:
            new = self.filters[client] = self.filter()
            self.request(client, Subscribe(self.sent, 1, 0, new))
        elif self.dice.random() < 0.2:
            del self.filters[client]
            self.request(client, Unsubscribe(self.sent, 1, 0))
        else:
            other = self.filter()
            kept = {0: other.get(0)} if self.dice.random() < 0.5 else {at: other.get(at) for at in (0, 1)}
            self.filters[client] = {at: one for at, one in {**old, **kept}.items() if one is not None}
            self.request(client, Update(self.sent, 1, 0, kept))

    def filter(self) -> dict[int, Extent]:
        made = {}
        for attribute in (0, 1):
            low = self.dice.randrange(20)
            if self.dice.random() < 0.8:
                made[attribute] = Extent((Interval(low, low + self.dice.randrange(4)),))
        return made

    def publish(self) -> list[tuple[int, str]]:
        self.seq += 1
        row = self.dice.randrange(22), self.dice.randrange(22)
        broker = self.dice.choice(self.publishers)
        frame = Data(self.seq, Message(self.seq, 0, 1, "some", attributes=(row,)))
        self.memory.post(broker, self.node(broker).publish(frame))
        return [
            (self.seq, client)
            for client, one in sorted(self.filters.items())
            if all(row[at] in extent for at, extent in one.items())
        ]


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("faults", [False, True])
def test_at_rest_exactly_those_that_ask_are_notified(case: str, seed: int, faults: bool) -> None:
    peers = Peers(seed, OPTIONS[case], Faults(seed, 0.1, 0.1, 4.0) if faults else None)
    for _ in range(15):
        for _ in range(8):
            peers.change()
            peers.publish()  # in flight: it may be delivered or not
        peers.memory.run()
        assert sorted(ack.number for ack in peers.acks) == list(range(1, peers.sent + 1))
        assert all(ack.complete for ack in peers.acks)
        peers.delivered.clear()
        expected = [each for _ in range(6) for each in peers.publish()]
        peers.memory.run()
        assert sorted(peers.delivered) == sorted(expected)
        for name in peers.names:
            peers.node(name).check()


def test_an_update_says_only_what_changed_and_goes_only_as_far_as_it_must() -> None:
    peers = Peers(1, {"lub": True, "threshold": 0}, brokers=4)
    seen: list[Frame] = []
    peers.memory.watch = lambda sender, to, frame: seen.append(frame)
    wide = {0: Extent((Interval(0, 9),)), 1: Extent((Interval(5, 5),))}
    peers.request("c1", Subscribe(1, 1, 0, wide))
    peers.request("c5", Subscribe(2, 1, 0, {0: Extent((Interval(3, 4),)), 1: Extent((Interval(5, 5),))}))
    peers.memory.run()
    assert any(isinstance(frame, Subscribe) for frame in seen)
    seen.clear()
    peers.request("c5", Update(3, 1, 0, {0: Extent((Interval(6, 7),))}))
    peers.memory.run()
    assert not seen, "what others ask for covers it"
    peers.request("c1", Update(4, 1, 0, {0: Extent((Interval(0, 12),))}))
    peers.memory.run()
    updates = [frame for frame in seen if isinstance(frame, Update)]
    assert updates
    assert all(frame.changes == {0: Extent((Interval(0, 12),))} for frame in updates)
    assert {type(frame) for frame in seen} == {Update, Ack}


def test_a_broker_that_does_not_answer_makes_the_acknowledgement_incomplete() -> None:
    peers = Peers(1, {"lub": True, "timeout": 5.0}, brokers=4)
    away = next(name for name in peers.publishers if name != "b1")
    del peers.memory.nodes[away]
    peers.memory.tick()
    start = peers.memory.now
    peers.request("c1", Subscribe(1, 1, 0, {0: Extent((Interval(0, 9),))}))
    peers.memory.run()
    assert peers.acks == []
    peers.memory.run(start + 4.0)
    peers.memory.tick()
    assert peers.acks == []
    peers.memory.run(start + 20.0)
    peers.memory.tick()
    peers.memory.run()
    assert peers.acks == [Ack(1, False, "c1")]


def test_a_busy_broker_works_off_one_frame_at_a_time() -> None:
    memory = Memory(service=lambda name, frame, seconds: 2.0)
    arrived: list[float] = []
    memory.add(PeerNode("b0"), lambda frame: arrived.append(memory.now))
    for number in range(3):
        memory.post("c1", [("b0", Subscribe(number, 1, number, {}))])
    memory.run()
    assert arrived == [3.0, 5.0, 7.0], "a link of 1, and 2 for each before"
    assert memory.busy == {"b0": 6.0}
