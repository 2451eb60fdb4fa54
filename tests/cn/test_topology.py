"""The network under the brokers: hops against a plain search, trees that hold everybody."""

from __future__ import annotations

import numpy as np
import pytest

from cn.model.geometry import Interval
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.registry import SCHEMES
from cn.simulation.registry import make_simulated
from cn.simulation.topology import Topology, cluster_tree


def plain_hops(nodes: int, edges: np.ndarray, source: int) -> list[int]:
    near: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in edges.tolist():
        near[a].append(b)
        near[b].append(a)
    hops = [-1] * nodes
    hops[source], queue = 0, [source]
    for node in queue:
        for other in near[node]:
            if hops[other] < 0:
                hops[other] = hops[node] + 1
                queue.append(other)
    return hops


@pytest.mark.parametrize("seed", range(3))
def test_hops_are_those_of_a_plain_search(seed: int) -> None:
    net = Topology(nodes=400, brokers=70, seed=seed)
    assert len(set(net.brokers.tolist())) == 70
    for at, broker in enumerate(net.brokers.tolist()):
        found = plain_hops(400, net.edges, broker)
        assert net.hops[at].tolist() == [found[other] for other in net.brokers.tolist()]


def test_degrees_fall_off_as_in_the_internet() -> None:
    net = Topology(nodes=5000, brokers=10, seed=1)
    degree = np.sort(np.bincount(net.edges.ravel()))[::-1]
    assert degree[0] > 20 * degree.mean()
    assert np.median(degree) <= 3
    with pytest.raises(ValueError, match="too few"):
        Topology(nodes=10, brokers=10)


@pytest.mark.parametrize("brokers", [1, 9, 10, 11, 150])
def test_a_cluster_tree_holds_every_broker_once_and_keeps_its_fan_out(brokers: int) -> None:
    net = Topology(nodes=1000, brokers=brokers, seed=2)
    names = [f"b{at}" for at in range(brokers)]
    parents = cluster_tree("server", names, net.coordinates(), fan_out=10)
    assert parents.keys() == set(names)
    seen = {"server"}
    for broker, parent in parents.items():
        assert parent in seen, "a broker comes after its parent"
        seen.add(broker)
    children = [*parents.values()]
    assert max(children.count(parent) for parent in set(children)) <= 10


def test_a_cluster_tree_is_nearer_than_chance() -> None:
    net = Topology(nodes=3000, brokers=200, seed=3)
    names = [f"b{at}" for at in range(200)]
    dice = np.random.default_rng(0)

    def length(coordinates: np.ndarray) -> float:
        parents = cluster_tree("server", names, coordinates)
        pairs = [(int(b[1:]), int(p[1:])) for b, p in parents.items() if p != "server"]
        return float(np.mean([net.hops[pair] for pair in pairs]))

    assert length(net.coordinates()) < length(dice.random((200, 4)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_a_thousand_brokers_on_twenty_thousand_nodes(name: str) -> None:
    net = Topology(nodes=20_000, brokers=1000, seed=1)
    names = [f"b{at}" for at in range(1000)]
    parents = cluster_tree("server", names, net.coordinates())
    delivered: list[int] = []
    network = make_simulated(
        name,
        lambda message, ids: delivered.extend(map(int, ids)),
        lambda seq: None,
        brokers=names,
        options={"parents": parents},
    )
    for id in range(5000):
        network.register(Space(1, 2, True), id, b"", (id, id + 100))
    network.watermark(1)
    network.inject(Message(2, 0, 1, "some", region=((Interval(900, 1000), Interval(1000, 1050)),)))
    network.watermark(2)
    assert sorted(delivered) == list(range(900, 951))
