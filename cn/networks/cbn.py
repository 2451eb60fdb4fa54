"""A content-based network: every broker knows what is asked for beyond each of its links.

See [Beretta], [ProSem thesis] 2.3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cn.model.frames import Data, Leave, Placed, PlaceRemoved, PositionMark, Straight
from cn.model.message import Message
from cn.networks.cbn_summary import SummaryNode, SummaryRoot
from cn.networks.node import Node, Options, Out, Root, Scheme, TreeNode, TreeRoot, balanced
from cn.networks.place_table import PlaceTable


class CbnNode(TreeNode):
    """Passes a message on over those links beyond which it matches a place.

    Places come down from the server in order with the messages, and every broker on their way widens its table for that
    link at once. The table is exact: one index (FASTINT for filters, slabs for points) over all places below.
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.table = PlaceTable()

    def carry(self, frame: Data) -> Iterable[Out]:
        return [(hop, frame) for hop in self.table.owners(frame.message)]

    def widen(self, hop: str, frame: Placed) -> None:
        self.table.put(hop, frame.route[-1], frame.space, frame.id, frame.topic, frame.place)

    def narrow(self, hop: str, frame: PlaceRemoved) -> None:
        self.table.take(frame.route[-1], frame.id)

    def forget(self, hop: str, frame: Leave) -> None:
        self.table.forget(frame.brokers)

    def check(self) -> None:
        self.table.check()


IsStraight = Callable[[Message, Sequence[str], Sequence[str]], bool]


class CbnRoot(CbnNode, TreeRoot):
    """Every broker passes a message on over those links beyond which it matches a place.

    The server knows every place, so it may also send a message straight to the brokers concerned. The option `is_straight`
    decides that for each: it is given the message, the server's links and the brokers that lead to a match; without it all
    go down the tree.

    With the option `lub`, brokers know summaries of what lies beyond a link instead of each place. It loses where
    most messages concern most brokers: then every broker matches only to find out that it passes everything on.
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self._is_straight: IsStraight | None = self.options.get("is_straight")
        self._sent_straight: dict[str, int] = {}  # since the last mark: to each broker, the last position

    def carry(self, frame: Data) -> Iterable[Out]:
        if self._is_straight is None:
            return super().carry(frame)
        links, hosts = self.table.owners_and_hosts(frame.message)
        if set(links) == set(hosts) or not self._is_straight(frame.message, links, hosts):
            return [(link, frame) for link in links]
        self._sent_straight |= dict.fromkeys(hosts, frame.position)
        return [(host, Straight(frame.position, frame.message)) for host in hosts]

    def hosts_of(self, message: Message) -> list[str]:
        """The brokers that host a place which a message concerns."""
        return self.table.owners_and_hosts(message)[1]

    def mark(self, seq: int) -> Iterable[Out]:
        straight, self._sent_straight = tuple(self._sent_straight.items()), {}
        return self.receive("", PositionMark(self._next(), seq, straight, self.settled))


def cbn_root(name: str, options: Options) -> Root:
    return SummaryRoot(name, options) if options.get("lub") else CbnRoot(name, options)


def cbn_node(name: str, options: Options, since: int) -> Node:
    return SummaryNode(name, options, since) if options.get("lub") else CbnNode(name, options, since)


cbn_root.__doc__ = CbnRoot.__doc__
CBN = Scheme("cbn", cbn_root, cbn_node, balanced)
