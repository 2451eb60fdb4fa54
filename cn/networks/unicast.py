"""The server knows every place and sends each message to each broker that hosts one ([ProSem thesis] 2.3.1, S-UN)."""

from __future__ import annotations

from collections.abc import Iterable

from cn.model.frames import Data, Leave, Placed, PlaceRemoved
from cn.model.message import Message
from cn.networks.node import Options, Out, Scheme, TreeNode, TreeRoot, star
from cn.networks.place_table import PlaceTable


class UnicastRoot(TreeRoot):
    """The server sends each message to every broker that hosts a match, one by one.

    It loses by the stress on the server: a message costs it one search among all places, and as many frames as there are
    brokers concerned.
    """

    def __init__(self, name: str, options: Options | None = None) -> None:
        super().__init__(name, options)
        self.table = PlaceTable()

    def carry(self, frame: Data) -> Iterable[Out]:
        return [(host, frame) for host in self.table.owners(frame.message)]

    def hosts_of(self, message: Message) -> list[str]:
        """The brokers that host a place which a message concerns."""
        return self.table.owners(message)

    def widen(self, hop: str, frame: Placed) -> None:
        self.table.put(hop, hop, frame.space, frame.id, frame.topic, frame.place)

    def narrow(self, hop: str, frame: PlaceRemoved) -> None:
        self.table.take(hop, frame.id)

    def forget(self, hop: str, frame: Leave) -> None:
        self.table.forget(frame.brokers)

    def check(self) -> None:
        self.table.check()


class UnicastNode(TreeNode):
    """A broker that passes nothing on."""

    def carry(self, frame: Data) -> Iterable[Out]:
        return ()


UNICAST = Scheme("unicast", UnicastRoot, UnicastNode, star)
