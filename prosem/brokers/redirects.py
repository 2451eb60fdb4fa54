"""Redirects at attach: a client that follows them is named the broker where its subscription is best hosted.

In a network that places subscriptions itself (`stages`) that is the broker where its walk down the covering filters ends, of
a join of several tables the one where most of its parts belong; in the others the one that `Assignment` finds. Nothing is
placed before it is known. If the broker is full or gone, or is not found in time, the subscription is served where its
client is.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cn.model.message import Message
from cn.networks.node import Out, Root
from prosem.brokers.assignment import Assignment
from prosem.brokers.member import Member, RemoteSink
from prosem.brokers.ways import Ways
from prosem.engine import commands as c
from prosem.engine.traffic import Traffic
from prosem.types.base import NetworkPlace, network_places

SEEK_S = 1.0  # that a walk down the network may take
PROMISE_S = 10.0  # within which a redirected client has come, or does not
ROOM = 100  # subscriptions that every broker has room for
SHARE = 1.5  # and beyond them, of the mean of all


@dataclass
class Sought:
    """Where a subscription belongs: `waiting` has the numbers of walks that go on, `found` where the others have ended."""

    frame: c.Hosted
    here: str
    since: float
    waiting: set[int] = field(default_factory=set)
    found: list[str] = field(default_factory=list)

    @property
    def best(self) -> str:
        """Where most walks have ended; of equals where the client is."""
        counts = Counter(self.found)
        return max(counts, key=lambda broker: (counts[broker], broker == self.here))


class Redirects:
    """`serve` starts a stream where its client is, `redirect` sends the client to a broker; none without `is_used`."""

    def __init__(
        self,
        members: Mapping[str, Member],
        ways: Ways,
        traffic: Traffic,
        serve: Callable[[c.Hosted], None],
        redirect: Callable[[c.Hosted, Member], None],
        *,
        is_used: bool = True,
    ) -> None:
        self._members, self._serve, self._redirect = members, serve, redirect
        self._is_used, self._is_asked = is_used, False
        self.assignment = Assignment(ways, traffic)
        self._sought: dict[int, Sought] = {}  # by the number of a walk
        self.count = 0

    # -- at an attach --------------------------------------------------------------------------------------------
    def take(self, frame: c.Hosted, root: Root, post: Callable[[Iterable[Out]], int]) -> bool:
        """Whether a stream does not start where its client is, or not yet."""
        bound = frame.bound
        if frame.asked is None or not self._is_used or bound is None or bound.place is None:
            return False
        self._is_asked = True
        here = frame.sink.member.node if isinstance(frame.sink, RemoteSink) else root.name
        places = [
            one for one in network_places(frame.space, frame.sid, bound, frame.parts) if one.place is not None
        ]
        if hasattr(root, "seek"):  # a network that places subscriptions itself
            return self._seek(frame, places if frame.parts else places[:1], here, root, post)
        if here == root.name:
            return False  # what the server hosts itself costs no copy
        most = self._most()
        others = [node for node in self._members if node != here and self._has_room(node, most)]
        return self._sent_to(self.assignment.best(places, here, others), frame, here)

    def _seek(
        self,
        frame: c.Hosted,
        places: Sequence[NetworkPlace],
        here: str,
        root: Any,
        post: Callable[[Iterable[Out]], int],
    ) -> bool:
        """Begin the walks. As a rule it is known at the root that no filter covers a place."""
        sought, asked = Sought(frame, here, time.monotonic()), list[Out]()
        for one in places:
            number, outs = root.seek(one.space, one.topic, one.place, here)
            found = root.places_found.pop(number, None)
            if found is None:
                sought.waiting.add(number)
                self._sought[number] = sought
                asked += outs
            else:
                sought.found.append(found)
        if not sought.waiting:
            return self._sent_to(sought.best, frame, here)
        post(asked)
        return True

    def found(self, number: int, broker: str) -> None:
        """The network has found where a subscription belongs, or a part of it."""
        sought = self._sought.pop(number, None)
        if sought is None:
            return
        sought.waiting.remove(number)
        sought.found.append(broker)
        if not sought.waiting and not self._sent_to(sought.best, sought.frame, sought.here):
            self._serve(sought.frame)

    def _sent_to(self, broker: str | None, frame: c.Hosted, here: str) -> bool:
        if broker is None or broker == here or not self._has_room(broker, self._most()):
            return False
        member = self._members[broker]
        member.promised[frame.sid] = time.monotonic()
        self.count += 1
        self._redirect(frame, member)
        return True

    def _most(self) -> float:
        """Subscriptions that a broker may host and still be named."""
        hosted = sum(len(one.tokens) for one in self._members.values())
        return ROOM + SHARE * hosted / max(1, len(self._members))

    def _has_room(self, node: str, most: float) -> bool:
        """Whether a broker can be named to clients, keeps up, and hosts not many more than the others."""
        member = self._members.get(node)
        if member is None or not member.advertised or member.is_congested:
            return False
        return len(member.tokens) + len(member.promised) < most

    # -- what it learns from -------------------------------------------------------------------------------------
    def learn(self, message: Message, root: Root, place_of: Callable[[int], NetworkPlace | None]) -> None:
        """A message is sent. Nothing is remembered until a client has said that it follows redirects."""
        hosts_of = getattr(root, "hosts_of", None)  # of a network whose server knows every place
        if self._is_asked and hosts_of is not None and self.assignment.is_due(message):
            named = filter(None, map(place_of, message.targets or ()))
            self.assignment.add(message, hosts_of(message), named)

    # -- time and failures ---------------------------------------------------------------------------------------
    def tick(self, now: float) -> None:
        """Serve what was not found in time, and forget clients that have not come."""
        late = {id(one): one for one in self._sought.values() if now - one.since > SEEK_S}
        for one in late.values():
            for number in one.waiting:
                del self._sought[number]
            self._serve(one.frame)
        for member in self._members.values():
            member.promised = {
                sid: since for sid, since in member.promised.items() if now - since <= PROMISE_S
            }

    def start_over(self) -> None:
        """All brokers are gone: they ask again for what their clients wait for, and the server's own clients are served."""
        sought, self._sought = self._sought, {}
        self.assignment.clear()
        for one in {id(one): one for one in sought.values()}.values():
            if not isinstance(one.frame.sink, RemoteSink):
                self._serve(one.frame)
