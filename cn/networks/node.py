"""The logic of one broker in one network: frames in, frames out, no I/O and no clock of its own.

The server's node is the root. It gives everything a position in one order, and whatever changes the tables of brokers
travels down the tree in that order with the messages: a broker's table is right for every message that it sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from cn.model.frames import (
    Data,
    Direct,
    Frame,
    FromServer,
    Join,
    Leave,
    Missed,
    Placed,
    PlaceRemoved,
    PositionMark,
    Route,
    Straight,
    placed,
)
from cn.model.message import Message
from cn.model.network import Place, Space
from cn.networks.recent import Kept, Recent

Out = tuple[str, Frame]  # to a neighbour; to the node's own name: for its own edge, in order
Options = Mapping[str, Any]
Parents = dict[str, str]  # of each broker


class Node(Protocol):
    """A broker: what it sends when it is sent something, and when time passes."""

    name: str

    def receive(self, sender: str, frame: Frame) -> Iterable[Out]: ...

    def tick(self, now: float) -> Iterable[Out]: ...


class Root(Node, Protocol):
    """The server's node: where everything gets its position. All methods say what is to be sent."""

    position: int

    def join(self, broker: str, parent: str) -> Iterable[Out]: ...

    def leave(self, broker: str) -> Iterable[Out]: ...

    def lose(self, broker: str, positions: Mapping[str, int]) -> tuple[list[str], Iterable[Out]]: ...

    def trim(self, position: int) -> None: ...

    def place(self, host: str, space: Space, id: int, topic: bytes, place: Place | None) -> Iterable[Out]: ...

    def left(self, host: str, id: int) -> Iterable[Out]: ...

    def direct(self, host: str, body: bytes) -> Iterable[Out]: ...

    def inject(self, message: Message) -> Iterable[Out]: ...

    def mark(self, seq: int) -> Iterable[Out]: ...


class Scheme(NamedTuple):
    """A network as the registry knows it: how to make its nodes, and which are neighbours.

    `exact`: a link with no match below it carries no Data frame.
    """

    name: str
    root: Callable[[str, Options], Root]
    node: Callable[[str, Options, int], Node]  # the position at which it joins
    overlay: Callable[[str, Sequence[str], Options], Parents]
    exact: bool = True


class TreeNode:
    """A broker of a tree: routes what belongs to one broker, and leaves messages to the network.

    What it hosts itself it does not index: its own edge gets every message that comes here and matches it. A message
    costs what `carry` costs, any other frame O(1) and what `widen` costs.
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        self.name, self.options = name, options or {}
        self.in_order = True  # frames come here in the order of their positions
        self.since = since  # the position at which it joined; what is older was meant for a former session
        self.children: dict[str, None] = {}  # in the order in which they joined
        self.parent = ""  # known from the first frame; the server has none
        self._former: set[str] = set()  # parents that were lost

    # -- what a network decides --------------------------------------------------------------------------------
    def carry(self, frame: Data) -> Iterable[Out]:
        """Pass a message on to neighbours; the own edge has it already."""
        raise NotImplementedError

    def widen(self, hop: str, frame: Placed) -> None:
        """An id below a link is placed from now on. Its old place is given up in the same step."""

    def narrow(self, hop: str, frame: PlaceRemoved) -> None:
        """An id below a link is gone."""

    def forget(self, hop: str, frame: Leave) -> None:
        """Brokers below a link are lost, with everything they host."""

    def joined(self, hop: str, frame: Join) -> None:
        """There is a new broker at or below a link."""

    def marked(self, frame: PositionMark) -> Iterable[Out]:
        """Everything up to a position has come."""
        return ()

    def host(self, frame: Placed | PlaceRemoved) -> None:
        """An id hosted by this broker is placed, or is gone."""

    def answer(self, sender: str, frame: Frame) -> Iterable[Out]:
        """A frame of this network's own."""
        raise TypeError(f"{self.name} was sent a {type(frame).__name__} by {sender}")

    # -- what all trees do -------------------------------------------------------------------------------------
    def receive(self, sender: str, frame: Frame) -> Iterable[Out]:
        if sender in self._former:
            return ()
        if isinstance(frame, Straight):
            return [(self.name, frame)] if frame.position > self.since else ()
        if not isinstance(frame, FromServer):
            return self.answer(sender, frame)
        self.parent = sender
        if frame.position <= self.since:
            return ()
        if isinstance(frame, Data):
            return [(self.name, frame), *self.carry(frame)]
        if isinstance(frame, PositionMark):
            return [
                *((name, frame) for name in self.children),
                (self.name, self._own_mark(frame)),
                *self.marked(frame),
            ]
        return self._route(frame)

    def _own_mark(self, mark: PositionMark) -> PositionMark:
        """A mark for the own edge, which waits for what was sent straight here, and for nothing else."""
        if not mark.straight:
            return mark
        return replace(mark, straight=tuple([one for one in mark.straight if one[0] == self.name]))

    def tick(self, now: float) -> Iterable[Out]:
        return ()

    def _route(self, frame: Placed | PlaceRemoved | Direct | Join | Leave | Missed) -> Iterable[Out]:
        if not frame.route:
            return self._arrived(frame)
        hop, *rest = frame.route
        if isinstance(frame, Placed):
            self.widen(hop, frame)
        elif isinstance(frame, PlaceRemoved):
            self.narrow(hop, frame)
        elif isinstance(frame, Leave):
            self.forget(hop, frame)
        elif isinstance(frame, Join):
            self.joined(hop, frame)
        return [(hop, replace(frame, route=tuple(rest)))]

    def _arrived(self, frame: Placed | PlaceRemoved | Direct | Join | Leave | Missed) -> Iterable[Out]:
        if isinstance(frame, Join):
            self.children[frame.broker] = None
            self.joined(frame.broker, frame)
            return ()
        if isinstance(frame, Leave):
            self.forget(frame.brokers[0], frame)
            self.children.pop(frame.brokers[0], None)
            return ()
        if isinstance(frame, Missed):
            if frame.lost:
                self._former.add(frame.lost)
            return [(self.name, one) for one in frame.frames]
        if isinstance(frame, Placed | PlaceRemoved):
            self.host(frame)
        return [(self.name, frame)]


class TreeRoot(TreeNode):
    """The server's node in a tree: gives positions, and knows the way to every broker."""

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.position = since
        self.settled = since  # every broker has come to this position
        self.parents: Parents = {}
        self.recent: Recent | None = None  # kept from when a broker is reached by another on

    def join(self, broker: str, parent: str) -> Iterable[Out]:
        """A broker joins below a parent, empty."""
        if broker in self.parents or broker == self.name:
            raise ValueError(f"{broker!r} is in the network already")
        route = self.route(parent)
        if route and self.recent is None:
            self.recent = Recent(self.position)
        self.parents[broker] = parent
        return self.receive("", Join(self._next(), route, broker))

    def leave(self, broker: str) -> Iterable[Out]:
        """A broker is lost, with all brokers below it and all they host; they may join again, empty."""
        route = self.route(self.parents[broker])
        lost = self.branch(broker)
        for one in lost:
            del self.parents[one]
        return self.receive("", Leave(self._next(), route, tuple(lost)))

    def lose(self, broker: str, positions: Mapping[str, int]) -> tuple[list[str], Iterable[Out]]:
        """A broker is lost, and those below it go on below its parent; returns them, each after its parent.

        They are sent what they may have missed after the position that each has come to at least. A branch does not go on
        if a position is not given, or lies further back than what is known. What those that do host must be placed again.
        """
        above, parents, branches = self.parents[broker], dict(self.parents), []
        for child in [child for child, parent in parents.items() if parent == broker]:
            branch = self.branch(child)
            if all(self.recent is not None and self.recent.reaches(positions.get(one, -1)) for one in branch):
                branches.append((branch, {one: self.branch(one) for one in branch}))
        outs = [*self.leave(broker)]
        for branch, below in branches:
            outs += self._resume(branch[0], above, broker, positions[branch[0]])
            for one in branch[1:]:  # its parent forgets it with all below it, and learns of them anew
                outs += self.receive("", Leave(self._next(), self.route(parents[one]), tuple(below[one])))
                outs += self._resume(one, parents[one], "", positions[one])
        return [one for branch, _ in branches for one in branch], outs

    def _resume(self, broker: str, parent: str, lost: str, position: int) -> Iterable[Out]:
        assert self.recent is not None
        missed = self.recent.missed(broker, position)
        yield from self.join(broker, parent)
        yield from self.receive("", Missed(self._next(), self.route(broker), lost, missed))

    def trim(self, position: int) -> None:
        """Every broker has come to this position."""
        self.settled = max(self.settled, position)
        if self.recent is not None:
            self.recent.trim(position)
            if all(parent == self.name for parent in self.parents.values()):
                self.recent = None

    def branch(self, broker: str) -> list[str]:
        """A broker and all that are reached by it, those nearer to it first."""
        found = [one for one in self.parents if broker in self.route(one)]
        return sorted(found, key=lambda one: len(self.route(one)))

    def place(self, host: str, space: Space, id: int, topic: bytes, place: Place | None) -> Iterable[Out]:
        """An id of this host is placed from now on; the same id may be hosted by others too."""
        check_place(space, place)
        return self._ordered(host, placed(self._next(), self.route(host), space, id, topic, place))

    def left(self, host: str, id: int) -> Iterable[Out]:
        """A host has this id no longer."""
        return self._ordered(host, PlaceRemoved(self._next(), self.route(host), id))

    def direct(self, host: str, body: bytes) -> Iterable[Out]:
        """Something for the edge of a host, in order with everything else."""
        return self._ordered(host, Direct(self._next(), self.route(host), body))

    def inject(self, message: Message) -> Iterable[Out]:
        return self._ordered("", Data(self._next(), message))

    def mark(self, seq: int) -> Iterable[Out]:
        return self.receive("", PositionMark(self._next(), seq, settled=self.settled))

    def _ordered(self, host: str, frame: Kept) -> Iterable[Out]:
        if self.recent is not None:
            self.recent.add(host, frame if isinstance(frame, Data) else replace(frame, route=()))
        return self.receive("", frame)

    def route(self, broker: str) -> Route:
        """The brokers from here (without the server) to this one; KeyError if it is not in the network."""
        way = []
        while broker != self.name:
            way.append(broker)
            broker = self.parents[broker]
        return tuple(reversed(way))

    def _next(self) -> int:
        self.position += 1
        return self.position


def check_place(space: Space, place: Place | None) -> None:
    """Refuse a place that its space cannot hold, before anything is sent."""
    if place is not None and space.dimensions and len(place) != space.dimensions:
        raise ValueError(f"a point of {len(place)} dimensions in a space of {space.dimensions}")


FAN_OUT = 10  # children of a broker, where nothing else is said


def balanced(root: str, brokers: Sequence[str], options: Options) -> Parents:
    """A tree that fills level by level, unless the options give `parents` (a cluster tree, say) or a `fan_out`.

    >>> balanced("server", "abcd", {"fan_out": 2})
    {'a': 'server', 'b': 'server', 'c': 'a', 'd': 'a'}
    """
    given: Mapping[str, str] | None = options.get("parents")
    if given is not None:
        return {broker: given[broker] for broker in brokers}
    width = options.get("fan_out", FAN_OUT)
    return {
        broker: root if at < width else brokers[(at - width) // width] for at, broker in enumerate(brokers)
    }


def star(root: str, brokers: Sequence[str], options: Options) -> Parents:
    """Every broker is a neighbour of the server."""
    return dict.fromkeys(brokers, root)
