"""An Internet-like network under the brokers: distances in hops, and trees of brokers that are near."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Hops = NDArray[np.int16]
Coordinates = NDArray[np.float64]


class Topology:
    """A graph with the power-law degrees of [INET]'s, and the hops between the nodes chosen as brokers.

    See [ProSem thesis] 3.5.2. Nodes join one by one and link to two others, chosen in proportion to their degrees
    ([Barabási-Albert]); a broker is a node of the rim, of the lowest degree. The hops between all brokers come from one
    breadth-first search for all of them at once, with a bit for each: O(diameter · edges · brokers / 64).

    >>> net = Topology(nodes=500, brokers=20, seed=1)
    >>> net.hops.shape, int(net.hops.diagonal().max()), bool((net.hops == net.hops.T).all())
    ((20, 20), 0, True)
    """

    def __init__(self, nodes: int = 20_000, brokers: int = 1000, seed: int = 0, links: int = 2) -> None:
        if not 1 <= brokers <= nodes - links - 1:
            raise ValueError(f"{nodes} nodes are too few for {brokers} brokers")
        dice = np.random.default_rng(seed)
        self.edges = _attach(nodes, links, dice)
        degree = np.bincount(self.edges.ravel(), minlength=nodes)
        rim = np.flatnonzero(degree <= links)
        if len(rim) < brokers:
            rim = np.argsort(degree, kind="stable")[:brokers]
        self.brokers: NDArray[np.int64] = np.sort(dice.choice(rim, brokers, replace=False))
        self.hops: Hops = _hops(nodes, self.edges, self.brokers)

    def coordinates(self, landmarks: int = 16) -> Coordinates:
        """Where each broker lies: its hops to a few landmarks, as in Global Network Positioning.

        The landmarks are brokers far from each other: each next one is the farthest from all before.
        """
        chosen = [0]
        while len(chosen) < min(landmarks, len(self.brokers)):
            chosen.append(int(self.hops[:, chosen].min(axis=1).argmax()))
        return self.hops[:, chosen].astype(np.float64)


def _attach(nodes: int, links: int, dice: np.random.Generator) -> NDArray[np.int64]:
    """Preferential attachment: the ends of all edges so far, each as likely as any other, are the next targets."""
    core = links + 1
    ends = [node for a in range(core) for b in range(a) for node in (a, b)]
    random = dice.random((nodes, links))
    for node in range(core, nodes):
        targets: set[int] = set()
        for share in random[node]:
            at = int(share * len(ends))
            while ends[at] in targets:
                at = (at + 1) % len(ends)
            targets.add(ends[at])
        for target in targets:
            ends += (node, target)
    return np.array(ends, np.int64).reshape(-1, 2)


def _hops(nodes: int, edges: NDArray[np.int64], sources: NDArray[np.int64]) -> Hops:
    """Hops between all pairs of sources: level by level, one bit a source at every node."""
    words = (len(sources) + 63) // 64
    reached = np.zeros((nodes, words), np.uint64)
    numbers = np.arange(len(sources))
    np.bitwise_or.at(
        reached, (sources, numbers // 64), np.left_shift(np.uint64(1), (numbers % 64).astype(np.uint64))
    )
    both = np.concatenate([edges, edges[:, ::-1]])
    both = both[np.argsort(both[:, 1], kind="stable")]
    targets, starts = np.unique(both[:, 1], return_index=True)
    hops = np.full((len(sources), len(sources)), -1, np.int16)
    level = 0
    while True:
        bits = np.unpackbits(reached[sources].view(np.uint8), axis=1, bitorder="little")[:, : len(sources)]
        hops[(hops < 0) & bits.astype(bool)] = level
        if (hops >= 0).all():
            return hops
        reached[targets] |= np.bitwise_or.reduceat(reached[both[:, 0]], starts, axis=0)
        level += 1


def cluster_tree(
    root: str, brokers: Sequence[str], coordinates: Coordinates, fan_out: int = 10, seed: int = 0
) -> dict[str, str]:
    """The parent of each broker in a tree of clusters ([ProSem thesis] 3.5.1, after [NICE]): near brokers share a leader.

    A set of n brokers is split into at most `fan_out` clusters by k-means; each cluster's leader is a child of the set's
    leader, and the rest of it is split further, down to sets of at most `fan_out`.
    """
    dice = np.random.default_rng(seed)
    parents: dict[str, str] = {}
    open_sets: list[tuple[str, NDArray[np.int64]]] = [(root, np.arange(len(brokers)))]
    while open_sets:
        leader, members = open_sets.pop()
        if len(members) <= fan_out:
            parents.update({brokers[at]: leader for at in members})
            continue
        for cluster in _k_means(coordinates, members, fan_out, dice):
            centre = coordinates[cluster].mean(axis=0)
            nearest = ((coordinates[cluster] - centre) ** 2).sum(axis=1).argmin()
            head = cluster[nearest]
            parents[brokers[head]] = leader
            open_sets.append((brokers[head], np.delete(cluster, nearest)))
    return {broker: parents[broker] for broker in _top_down(root, parents)}


def _k_means(
    coordinates: Coordinates,
    members: NDArray[np.int64],
    count: int,
    dice: np.random.Generator,
    rounds: int = 8,
) -> list[NDArray[np.int64]]:
    points = coordinates[members]
    centres = points[dice.choice(len(points), count, replace=False)]
    for _ in range(rounds):
        near = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        used = [points[near == at].mean(axis=0) for at in range(len(centres)) if (near == at).any()]
        centres = np.array(used)
    near = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
    clusters = [members[near == at] for at in range(len(centres)) if (near == at).any()]
    return clusters if len(clusters) > 1 else [np.array(part) for part in np.array_split(members, count)]


def _top_down(root: str, parents: dict[str, str]) -> list[str]:
    """Every broker after its parent."""
    children: dict[str, list[str]] = {}
    for broker, parent in parents.items():
        children.setdefault(parent, []).append(broker)
    order = [root]
    for broker in order:
        order += children.get(broker, [])
    return order[1:]
