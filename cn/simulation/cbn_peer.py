"""A broker of a content-based network with publishers anywhere: what subscriptions do on their way up.

See [Beretta], [Parametric]. Advertisements flood an acyclic graph of brokers; subscriptions, updates and unsubscriptions go
back along them. Each broker asks its neighbours towards the publishers for a summary of all that is asked of it, under keys
of its own (the broker variables): a broker knows only the variables of its neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple, Protocol

from cn.match.kernels import box_index
from cn.model.frames import Ack, Advertise, ClientDelivery, Data, Frame, Subscribe, Unsubscribe, Update
from cn.model.geometry import Extent, Filter, Filters
from cn.networks.lub import Lub
from cn.networks.node import Options, Out

THRESHOLD = 8
CLIENTS = ""  # the source of everything that clients here ask for


class Matcher(Protocol):
    """What finds the filters that hold an attribute vector; FASTINT, unless the options say otherwise."""

    def insert(self, id: int, filters: Filters) -> None: ...
    def update(self, id: int, filters: Filters) -> None: ...
    def remove(self, id: int) -> None: ...
    def match(self, attributes: Any) -> list[int]: ...


class _Asked(NamedTuple):
    number: int  # in the index
    filter: dict[int, Extent]


@dataclass(slots=True, eq=False)
class _Request:
    """A request that waits for others further up."""

    sender: str
    number: int
    since: float
    missing: int  # acknowledgements still to come
    complete: bool = True


_Key = tuple[tuple[int, Extent], ...]  # a filter that can be looked up


class _Space:
    """What is asked for in one space, by which neighbour, and what this broker asks of others."""

    def __init__(self, matcher: Callable[[], Matcher]) -> None:
        self.publishers: dict[str, None] = {}  # neighbours towards publishers, in the order of advertisements
        self.asked: dict[tuple[str, int], _Asked] = {}  # (sender, key)
        self.index = matcher()
        self.senders: list[str] = []  # of each number in the index
        self.free: list[int] = []
        self.bounds: dict[str, Lub] = {}  # of what each neighbour, and all clients together, ask for
        self.requested: dict[
            str, Counter[_Key]
        ] = {}  # for each neighbour towards publishers: what all others ask for
        self.sent: dict[
            str, dict[_Key, tuple[int, dict[int, Extent]]]
        ] = {}  # what it was asked for, and the keys
        self.touched: list[_Key] = []  # by the last request
        self.last: dict[str, int] = {}  # the last request to each neighbour, while it is not acknowledged


class PeerNode:
    """Routes events to clients and neighbours that ask for them, and asks its neighbours for what it needs.

    Options: `lub` (summaries are least upper bounds beyond `threshold` filters; otherwise disjunctions of all distinct
    filters), `updates` (a changed filter is an Update to those above; otherwise a new subscription and the end of the
    old one), `timeout` (how long to wait for acknowledgements from above), `matcher`. An update costs one change in the
    index and O(K log N) for the summary, and is passed on only if the summary has changed.
    """

    def __init__(self, name: str, options: Options | None = None) -> None:
        self.name, self.options = name, options or {}
        self.now = 0.0
        self._neighbours: dict[str, None] = {}
        self._spaces: dict[int, _Space] = {}
        self._lub = bool(self.options.get("lub", True))
        self._updates = bool(self.options.get("updates", True))
        self._timeout: float = self.options.get("timeout", 1.0)
        self._threshold: int = self.options.get("threshold", THRESHOLD)
        self._keys = self._numbers = 0
        self._waiting: dict[_Request, None] = {}  # the oldest first
        self._open: dict[
            tuple[str, int], tuple[_Space, list[_Request]]
        ] = {}  # requests to neighbours, and what waits for them

    # -- membership and publishers -------------------------------------------------------------------------------
    def link(self, neighbour: str) -> Iterable[Out]:
        """A neighbour from now on: it learns where events come from."""
        self._neighbours[neighbour] = None
        return [(neighbour, Advertise(space)) for space, known in self._spaces.items() if known.publishers]

    def advertise(self, space: int) -> Iterable[Out]:
        """A client here publishes events of a space."""
        return self._advertised(self.name, space)

    def publish(self, frame: Data) -> Iterable[Out]:
        return self._match(self.name, frame)

    # -- frames ----------------------------------------------------------------------------------------------------
    def receive(self, sender: str, frame: Frame) -> Iterable[Out]:
        if isinstance(frame, Data):
            return self._match(sender, frame)
        if isinstance(frame, Advertise):
            return self._advertised(sender, frame.space)
        if isinstance(frame, Subscribe | Update | Unsubscribe):
            return self._request(sender, frame)
        if isinstance(frame, Ack):
            return self._acknowledged(sender, frame)
        raise TypeError(f"{self.name} was sent a {type(frame).__name__} by {sender}")

    def tick(self, now: float) -> Iterable[Out]:
        """Requests that have waited too long are acknowledged as incomplete."""
        self.now = now
        late = [*takewhile(lambda one: now - one.since >= self._timeout, self._waiting)]
        for one in late:
            del self._waiting[one]
        return [self._ack(one.sender, one.number, complete=False) for one in late]

    def _match(self, sender: str, frame: Data) -> Iterator[Out]:
        space = self._spaces.get(frame.message.space)
        if space is None:
            return
        rows = [row for row in frame.message.attributes or () if row is not None]
        found = {space.senders[number]: None for row in rows for number in space.index.match(row)}
        clients = []
        for to in found:
            if to in self._neighbours:
                if to != sender:
                    yield to, frame
            else:
                clients.append(to)
        if clients:
            yield self.name, ClientDelivery(frame.message, tuple(clients))

    def _advertised(self, sender: str, number: int) -> Iterator[Out]:
        space = self._space(number)
        if sender in space.publishers:
            return
        space.publishers[sender] = None
        for neighbour in self._neighbours:
            if neighbour != sender:
                yield neighbour, Advertise(number)
        if sender in self._neighbours:
            yield from self._ask(number, space, sender)

    # -- what is asked of this broker --------------------------------------------------------------------------------
    def _request(self, sender: str, frame: Subscribe | Update | Unsubscribe) -> Iterator[Out]:
        space = self._space(frame.space)
        old = space.asked.get((sender, frame.key))
        new: dict[int, Extent] | None
        if isinstance(frame, Subscribe):
            new = dict(frame.filter)
        elif isinstance(frame, Update) and old is not None:
            changed = {**old.filter, **frame.changes}
            new = {attribute: extent for attribute, extent in changed.items() if extent is not None}
        else:
            new = None
        self._enter(space, sender, frame.key, old, new)
        for neighbour in space.publishers:
            if neighbour != sender and neighbour in self._neighbours:
                yield from self._ask(frame.space, space, neighbour)
        waits = [request for request in space.last.items() if request[0] != sender]
        if not waits:
            yield self._ack(sender, frame.number, complete=True)
            return
        one = _Request(sender, frame.number, self.now, len(waits))
        self._waiting[one] = None
        for request in waits:
            self._open[request][1].append(one)

    def _enter(
        self, space: _Space, sender: str, key: int, old: _Asked | None, new: dict[int, Extent] | None
    ) -> None:
        bound = space.bounds.setdefault(sender if sender in self._neighbours else CLIENTS, Lub())
        space.touched = []
        for filter, by in ((old and old.filter, -1), (new, 1)):
            if filter is not None:
                space.touched.append(one := _key(filter))
                for neighbour, requested in space.requested.items():
                    if neighbour != sender:
                        requested[one] += by
                        if not requested[one]:
                            del requested[one]
        if old is None and new is not None:
            bound.add(new)
            number = space.free.pop() if space.free else len(space.senders)
            if number == len(space.senders):
                space.senders.append(sender)
            space.senders[number] = sender
            space.index.insert(number, (new,))
            space.asked[sender, key] = _Asked(number, new)
        elif old is not None and new is not None:
            for attribute in old.filter.keys() | new.keys():
                if (was := old.filter.get(attribute)) != (now := new.get(attribute)):
                    bound.change(attribute, was, now)
            space.index.update(old.number, (new,))
            space.asked[sender, key] = _Asked(old.number, new)
        elif old is not None:
            bound.remove(old.filter)
            space.index.remove(old.number)
            space.free.append(old.number)
            del space.asked[sender, key]

    # -- what this broker asks for -----------------------------------------------------------------------------------
    def _ask(self, number: int, space: _Space, neighbour: str) -> Iterator[Out]:
        """Ask a neighbour for exactly what all others ask for here: only what has changed is sent."""
        sent = space.sent.get(neighbour)
        if sent is None:
            sent = space.sent[neighbour] = {}
            space.requested[neighbour] = Counter(
                _key(asked.filter) for (sender, _), asked in space.asked.items() if sender != neighbour
            )
        requested = space.requested[neighbour]
        if self._lub and len(requested) > self._threshold:
            requested = Counter({_key(self._bound(space, neighbour)): 1})
            touched: Iterable[_Key] = {*requested, *sent}
        elif self._lub:
            touched = {*requested, *sent}
        else:
            touched = space.touched
        spare = [sent.pop(filter) for filter in touched if filter in sent and filter not in requested]
        for filter in touched:
            if filter not in requested or filter in sent:
                continue
            if spare and self._updates:
                key, old = spare.pop()
                changes = _changes(old, dict(filter))
                yield neighbour, Update(self._open_request(neighbour, space), number, key, changes)
            else:
                self._keys += 1
                key = self._keys
                yield neighbour, Subscribe(self._open_request(neighbour, space), number, key, dict(filter))
            sent[filter] = key, dict(filter)
        for key, _ in spare:
            yield neighbour, Unsubscribe(self._open_request(neighbour, space), number, key)

    def _bound(self, space: _Space, neighbour: str) -> dict[int, Extent]:
        """What covers all that others than this neighbour ask for."""
        whole = Lub()
        for source, one in space.bounds.items():
            if source != neighbour and len(one):
                whole.add(one.bound())
        return whole.bound()

    def _open_request(self, neighbour: str, space: _Space) -> int:
        self._numbers += 1
        self._open[neighbour, self._numbers] = space, []
        space.last[neighbour] = self._numbers
        return self._numbers

    # -- acknowledgements ----------------------------------------------------------------------------------------------
    def _acknowledged(self, sender: str, frame: Ack) -> Iterator[Out]:
        """A request is in force above. Its successors to this neighbour are not, and what waits for those waits on.

        Requests to one neighbour are acknowledged no earlier than those before them, so the last one says it for all.
        """
        space, waiting = self._open.pop((sender, frame.number), (None, []))
        if space is not None and space.last.get(sender) == frame.number:
            del space.last[sender]
        for one in waiting:
            one.missing -= 1
            one.complete = one.complete and frame.complete
            if not one.missing and one in self._waiting:
                del self._waiting[one]
                yield self._ack(one.sender, one.number, complete=one.complete)

    def _ack(self, sender: str, number: int, *, complete: bool) -> Out:
        if sender in self._neighbours:
            return sender, Ack(number, complete)
        return self.name, Ack(number, complete, sender)

    def _space(self, number: int) -> _Space:
        space = self._spaces.get(number)
        if space is None:
            matcher: Callable[[], Matcher] = self.options.get("matcher", box_index)
            space = self._spaces[number] = _Space(matcher)
        return space

    def check(self) -> None:
        """Assert that the index holds what is asked for, and that neighbours were asked for all of it."""
        for space in self._spaces.values():
            numbers = {asked.number for asked in space.asked.values()}
            assert numbers == set(range(len(space.senders))) - set(space.free)
            for neighbour, requested in space.requested.items():
                assert requested == Counter(
                    _key(one.filter) for (sender, _), one in space.asked.items() if sender != neighbour
                )
                sent = space.sent[neighbour]
                if not self._lub or len(requested) <= self._threshold:
                    assert sent.keys() == requested.keys()
                else:
                    assert [*sent] == [_key(self._bound(space, neighbour))]


def _key(filter: Filter) -> _Key:
    return tuple(sorted(filter.items()))


def _changes(old: Mapping[int, Extent], new: Filter) -> dict[int, Extent | None]:
    """What an update has to say: attributes with another extent, and those no longer constrained."""
    changed: dict[int, Extent | None] = {at: extent for at, extent in new.items() if old.get(at) != extent}
    return changed | dict.fromkeys(old.keys() - new.keys())
