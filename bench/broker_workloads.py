"""The two workloads of [Parametric] 8.4 and 8.5: highways and trading."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from cn.model.geometry import Extent, Interval

METRES = 160_000  # all highways together
NEAR = 12  # sensors on each side of a car that it wants to hear of
PRICES = 2_000
Range = tuple[float, float]  # one end may be infinite


@dataclass
class Client:
    """A subscription at a broker: a range of the first attribute, and at least `least` of the second."""

    broker: str
    space: int
    range: Range
    least: int
    step: float  # how far an update moves it
    swing: bool = False  # to and fro instead of on and on

    def filter(self, range: Range) -> dict[int, Extent]:
        low, high = (None if abs(end) == float("inf") else int(end) for end in range)
        return {0: Extent((Interval(low, high),)), 1: Extent((Interval(self.least, None),))}


@dataclass
class Workload:
    """Brokers in a tree, publishers and subscriptions with their brokers."""

    name: str
    links: list[tuple[str, str]] = field(default_factory=list)
    publishers: list[tuple[str, int, int]] = field(
        default_factory=list
    )  # broker, space, a sensor's place or -1
    clients: list[Client] = field(default_factory=list)
    sources_of_updates: list[list[int]] = field(
        default_factory=list
    )  # clients whose updates have one rate together
    events_per_s: float = 100.0

    @property
    def brokers(self) -> list[str]:
        return [*dict.fromkeys(name for link in self.links for name in link)]

    def event(self, dice: random.Random) -> tuple[str, int, tuple[int, int]]:
        """A broker at which something is published, its space, and what it says."""
        broker, space, place = dice.choice(self.publishers)
        return broker, space, (place if place >= 0 else dice.randrange(PRICES), dice.randrange(100))

    def moved(self, client: Client, dice: random.Random) -> Range:
        """Where a client's range is after the next update."""
        if client.swing or dice.random() < 0.02:
            client.step = -client.step
        limit = PRICES if self.name == "trading" else METRES
        low, high = (end + client.step for end in client.range)
        if (low != -float("inf") and low < 0) or (high != float("inf") and high > limit):
            client.step = -client.step
            return client.range
        client.range = low, high
        return client.range


def highway(edges: int = 150, cars: int = 100, sensors: int = 200, seed: int = 1) -> Workload:
    """Sensors along ten highways, and cars that move: each highway is a type of events, each broker has a stretch of it."""
    dice = random.Random(seed)
    roads = max(1, edges // 15)
    found = Workload("highway", events_per_s=2000.0)
    for road in range(roads):
        found.links.append((f"core-{road}", f"core-{road // 2}" if road else "core-x"))
        found.links.append((f"core-{road}", f"cross-{road}"))
    per_road, length, spacing = edges // roads, METRES // roads, METRES // sensors
    for number in range(per_road * roads):
        road, at = divmod(number, per_road)
        hub = f"core-{road}" if at % 2 else f"cross-{road}"
        found.links.append((hub, f"edge-{number}"))
        start = at * length // per_road
        for _ in range(cars):
            middle = start + dice.randrange(length // per_road)
            reach = min(NEAR * spacing, length // 4)
            step = dice.choice((-1, 1)) * spacing  # an update leaves one sensor and takes another
            found.clients.append(
                Client(f"edge-{number}", road, (middle - reach, middle + reach), dice.randrange(60), step)
            )
        found.sources_of_updates.append([*range(number * cars, (number + 1) * cars)])
    for number in range(sensors):
        place = number * METRES // sensors
        road, at = divmod(place, length)
        edge = min(per_road * roads - 1, road * per_road + at * per_road // length)
        found.publishers.append((f"edge-{edge}", min(road, roads - 1), at))
    return found


def trading(
    subscribers: int = 150, types: int = 200, asked: int = 20, seed: int = 2, moving: float = 0.1
) -> Workload:
    """Exchanges at the top of a hierarchy of 20 brokers, traders at its leaves; a share of the thresholds keeps moving.

    Of those a third rises, a third falls and a third swings (8.12). Operators: 35 % at most, 33 % at least, 32 % equal.
    """
    dice = random.Random(seed)
    found = Workload("trading", events_per_s=2000.0)
    inner = ["top", "house-0", "house-1", "house-2", *(f"firm-{at}" for at in range(6))]
    found.links += [("top", f"house-{at}") for at in range(3)] + [
        (f"house-{at % 3}", f"firm-{at}") for at in range(6)
    ]
    leaves = [f"leaf-{at}" for at in range(20 - len(inner))]
    found.links += [(f"firm-{at % 6}", leaf) for at, leaf in enumerate(leaves)]
    found.publishers = [("top", space, -1) for space in range(types)]
    for number in range(subscribers):
        first = len(found.clients)
        for space in dice.sample(range(types), min(asked, types)):
            roll, middle = dice.random(), dice.randrange(PRICES // 4, 3 * PRICES // 4)
            range_: Range = (
                (-float("inf"), middle)
                if roll < 0.35
                else (middle, float("inf"))
                if roll < 0.68
                else (middle - 10, middle + 10)
            )
            found.clients.append(Client(leaves[number % len(leaves)], space, range_, 0, 0.0))
        movers = [*range(first, first + max(1, round(asked * moving)))]
        for at, client in enumerate(movers):
            kind = (number + at) % 3
            found.clients[client].step = (
                (1 if kind == 0 else -1) * dice.randrange(20, 80) * (5 if kind == 2 else 1)
            )
            found.clients[client].swing = kind == 2
        found.sources_of_updates.append(movers)
    return found
