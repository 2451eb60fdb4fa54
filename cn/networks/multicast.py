"""Hierarchical application-level multicast: a cluster tree, and destinations as bitmaps.

See [ProSem thesis] 2.3.1, 3.5.1, S-MN.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from cn.model.frames import Data, Join, Leave, Placed, PlaceRemoved
from cn.model.message import Message
from cn.networks.node import Options, Out, Scheme, TreeNode, TreeRoot, balanced
from cn.networks.place_table import PlaceTable


class MulticastNode(TreeNode):
    """Passes a message on to those children below which a destination lies.

    A frame carries one bit for the broker it is sent to and one for each broker below it, in the order in which they
    joined: every broker has seen the joins below it in that order, so it reads the bits without knowing more of
    the tree. A message costs O(brokers below) bits on the link and O(destinations) to pass on.
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.below: dict[str, str] = {}  # broker → the child it is reached by; in the order of joins

    def carry(self, frame: Data) -> Iterable[Out]:
        bits = int.from_bytes(frame.route, "little") >> 1
        return self.multicast(frame, {broker for at, broker in enumerate(self.below) if bits >> at & 1})

    def multicast(self, frame: Data, destinations: set[str]) -> Iterable[Out]:
        """One frame for each child with a destination at or below it."""
        maps: dict[str, int] = {self.below[broker]: 0 for broker in self.below if broker in destinations}
        sizes = dict.fromkeys(maps, 1)
        for broker, child in self.below.items():
            if child in maps:
                bit = 0 if broker == child else sizes[child]
                sizes[child] += broker != child
                if broker in destinations:
                    maps[child] |= 1 << bit
        for child, bits in maps.items():
            yield child, replace(frame, route=bits.to_bytes((sizes[child] + 7) // 8, "little"))

    def joined(self, hop: str, frame: Join) -> None:
        self.below[frame.broker] = hop

    def forget(self, hop: str, frame: Leave) -> None:
        for broker in frame.brokers:
            self.below.pop(broker, None)


class MulticastRoot(MulticastNode, TreeRoot):
    """The server finds the brokers concerned and sends their bitmap down a cluster tree of fan-out at most 10.

    It loses by its bitmaps: the bytes of a message grow with the number of brokers, and the server still has to find
    all matches.
    """

    def __init__(self, name: str, options: Options | None = None) -> None:
        super().__init__(name, options)
        self.table = PlaceTable()

    def carry(self, frame: Data) -> Iterable[Out]:
        return self.multicast(frame, set(self.table.owners(frame.message)))

    def hosts_of(self, message: Message) -> list[str]:
        """The brokers that host a place which a message concerns."""
        return self.table.owners(message)

    def widen(self, hop: str, frame: Placed) -> None:
        host = frame.route[-1]
        self.table.put(host, host, frame.space, frame.id, frame.topic, frame.place)

    def narrow(self, hop: str, frame: PlaceRemoved) -> None:
        self.table.take(frame.route[-1], frame.id)

    def forget(self, hop: str, frame: Leave) -> None:
        super().forget(hop, frame)
        self.table.forget(frame.brokers)

    def check(self) -> None:
        self.table.check()
        assert self.below.keys() == self.parents.keys()


MULTICAST = Scheme("multicast", MulticastRoot, MulticastNode, balanced)
