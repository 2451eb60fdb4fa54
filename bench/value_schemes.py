"""What identifies a subscription in a network that carries value notifications ([ProSem thesis] 4.2 to 4.5).

Radius and label never change by an event (CN(r), CN(lid), CN(r, lid)); both ends of the interval (CN(lr)), or the centre
(CN(c)), move whenever it is told something, and the network has to be told so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bench.value_trace import Arrival, Step, Trace
from cn.model.geometry import EVERYTHING, Interval, Region
from cn.model.message import Message
from cn.model.network import Space
from cn.simulation.network import Simulated

Placed = Iterable[tuple[int, tuple[int, ...]]]
Quietly = Callable[[Callable[[], None]], None]  # do something that is not counted


def region_of(fired: Any) -> Region:
    """A range of radii, or one radius and arcs of its labels."""
    low, high, arcs = fired
    radii = Interval(low, high)
    return ((radii, EVERYTHING),) if arcs is None else tuple([(radii, Interval(*arc)) for arc in arcs])


class Labels:
    """CN(r), CN(lid), CN(r, lid): one message per range of radii, or radius with its arcs; events move no point."""

    space = Space(1, 2, True)
    has_server = True  # which knows the subscriptions, and sends nothing that affects none

    def points(self, trace: Trace) -> Placed:
        return ((at, (int(trace.radius[at]), int(trace.label[at]))) for at in trace.present)

    def regions(self, step: Step) -> list[Region]:
        return [region_of(fired) for fired in step.fired]

    def arrive(
        self, network: Simulated, trace: Trace, arrival: Arrival, number: int, quietly: Quietly
    ) -> None:
        """A message shifts a range of labels, if there is no room: each that it reaches moves by what it says."""
        radius = int(trace.radius[arrival.at])
        if arrival.relabelled:
            region = ((Interval(radius, radius), Interval(*arrival.span)),)
            payload = b"%d" % len(arrival.relabelled)
            network.inject(Message(number, 0, self.space.id, "shift", region=region, payload=payload))
            network.watermark(number)
            quietly(lambda: self._shift(network, radius, arrival, number))
        network.register(self.space, arrival.at, b"", (radius, arrival.label))

    def _shift(self, network: Simulated, radius: int, arrival: Arrival, number: int) -> None:
        for at, label in arrival.relabelled.items():
            network.move(self.space, at, b"", (radius, label))
        network.watermark(number)

    def recentre(self, network: Simulated, trace: Trace, step: Step) -> bool:
        """Whether a subscription moves after its notification."""
        return False

    def owner(self, id: int) -> int:
        """The subscription that an id is of."""
        return id

    def concerned(self, ids: Sequence[int]) -> list[int]:
        return sorted({self.owner(id) for id in ids})


class Ends(Labels):
    """CN(lr): both ends of everybody's interval; those that the value has passed are concerned, and both move."""

    space = Space(1, 1, True)
    has_server = False

    def points(self, trace: Trace) -> Placed:
        for at in trace.present:
            yield from self.places(at, int(trace.told[at]), int(trace.radius[at]))

    def places(self, at: int, told: int, radius: int) -> Placed:
        return (2 * at, (told - radius,)), (2 * at + 1, (told + radius,))

    def regions(self, step: Step) -> list[Region]:
        before, value = step.before, step.value
        passed = Interval(before, value, True) if value > before else Interval(value, before, False, True)
        return [] if before == value else [((passed,),)]

    def arrive(
        self, network: Simulated, trace: Trace, arrival: Arrival, number: int, quietly: Quietly
    ) -> None:
        for id, point in self.places(arrival.at, arrival.value, int(trace.radius[arrival.at])):
            network.register(self.space, id, b"", point)

    def recentre(self, network: Simulated, trace: Trace, step: Step) -> bool:
        for at in step.affected:
            for id, point in self.places(at, step.value, int(trace.radius[at])):
                network.move(self.space, id, b"", point)
        return bool(step.affected)

    def owner(self, id: int) -> int:
        return id // 2


class Centres(Ends):
    """CN(c), for one radius: the value that all were notified of last."""

    def __init__(self, radius: int) -> None:
        self.radius = radius

    def places(self, at: int, told: int, radius: int) -> Placed:
        return ((at, (told,)),)

    def regions(self, step: Step) -> list[Region]:
        before, value, radius = step.before, step.value, self.radius
        if before == value:
            return []
        if value > before:
            return [((Interval(before - radius, value - radius, True),),)]
        return [((Interval(value + radius, before + radius, False, True),),)]

    def owner(self, id: int) -> int:
        return id
