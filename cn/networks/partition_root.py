"""The server of brokers that keep parts of the spaces: who stands in which part, who keeps it, what is on its way."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Generic

from cn.model.frames import (
    Data,
    DeliveryAcknowledged,
    Frame,
    Join,
    Leave,
    Load,
    Parts,
    Placed,
    PlacementAdded,
    PlacementEnded,
    PlacementsSynced,
    PlaceRemoved,
    PositionMark,
)
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.node import Options, Out, TreeRoot
from cn.networks.partition_owner import HOST, Course, on_course
from cn.networks.place_table import PlaceTable
from cn.networks.placements import M, Placements

LEAST = 16  # standings that a part always may have
BUSY = 4.0  # a part with so many times the mean traffic of the others is replicated
REPLICAS = 3  # at most


class PartitionRoot(TreeRoot, Generic[M]):
    """The server divides the spaces among the brokers, and knows who stands in which part.

    A part is split when it has more than its share of the standings, and kept by several brokers when it has more than its
    share of the traffic. Parts change from one epoch to the next: what is not acknowledged by then is sent again, and
    edges drop what they had. Messages that name their targets, and filters, go straight to the brokers that host them.
    Options: `least` (standings that a part always may have), `check` (False: also inject what concerns nobody).
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.table = PlaceTable()
        self.standings: Placements[M] = Placements(self.divide)
        self.owners: dict[int, list[str]] = {}  # of each part
        self.traffic: dict[int, int] = {}
        self.epoch = 0
        self._told: dict[int, list[str]] = {}  # the owners of each part as brokers know them
        self._lost: list[str] = []
        self._dirty = False
        self._last_told = 0  # the position of what was last told about standings
        self._open: dict[
            int, tuple[Data, set[tuple[str, bytes]]]
        ] = {}  # position → frame, who owes an answer
        self._marks: deque[PositionMark] = deque()
        self._outs: list[Out] = []

    # -- what a network decides --------------------------------------------------------------------------------
    def divide(self, space: Space) -> M:
        """A space in one part."""
        raise NotImplementedError

    def entries(self, frame: Data) -> Iterator[tuple[str, Data]]:
        """To the keepers of the parts where a message begins to spread."""
        raise NotImplementedError

    def told_parts(self, position: int, kept: list[int], lost: tuple[str, ...]) -> Parts:
        """What a broker is to know of the parts that it keeps from this epoch on."""
        raise NotImplementedError

    def is_kept(self, part: int) -> bool:
        """Whether a broker is to keep a part, and not the server."""
        return True

    def covers(self, message: Message) -> bool:
        """Whether it is worth injecting a message ([ProSem thesis] 3.2.3)."""
        return self.table.covers(message)

    # -- messages ----------------------------------------------------------------------------------------------
    def inject(self, message: Message) -> Iterable[Out]:
        frame = Data(self._next(), message)
        outs = [*self._arrange(), (self.name, frame)]
        return [*outs, *self._send(frame, first=True)]

    def _send(self, frame: Data, *, first: bool) -> list[Out]:
        message = frame.message
        if self._is_spread(message):
            if first and self.options.get("check", True) and not self.covers(message):
                return []
            sent = [*self.entries(frame)]
        else:
            course = Course(self.epoch, 0, HOST, True, 0)
            hosts = self.table.owners(message) if first else ()
            sent = [(host, on_course(frame, course)) for host in hosts]
        self._open[frame.position] = frame, {(to, one.route) for to, one in sent}
        if not sent:
            del self._open[frame.position]
        return [*sent]

    def _is_spread(self, message: Message) -> bool:
        return message.targets is None and message.attributes is None and message.space in self.standings.maps

    def keeper(self, part: int, position: int) -> str:
        """Who of those who keep a part takes a message; empty if nobody does."""
        owners = self._told.get(part)
        return owners[position % len(owners)] if owners else ""

    def course(self, box: int, part: int, *, spreading: bool = True) -> Course:
        return Course(self.epoch, box, part, spreading, self._last_told)

    def mark(self, seq: int) -> Iterable[Out]:
        mark = PositionMark(self._next(), seq)
        self._marks.append(mark)
        outs = [*self._arrange(), *self._release()]
        if self._marks:
            outs += [(owner, PlacementsSynced(mark.position)) for owner in self._keepers()]
        return outs

    def _release(self) -> list[Out]:
        """The marks before the first message that has not been everywhere."""
        outs: list[Out] = []
        while self._marks and self._marks[0].position < next(iter(self._open), self.position + 1):
            mark = self._marks.popleft()
            self.standings.expire(mark.position)
            outs += super().receive("", mark)
        return outs

    # -- what brokers answer -----------------------------------------------------------------------------------
    def receive(self, sender: str, frame: Frame) -> Iterable[Out]:
        outs = super().receive(sender, frame)
        outs = [*outs, *self._outs]
        self._outs.clear()
        return outs

    def answer(self, sender: str, frame: Frame) -> Iterable[Out]:
        if isinstance(frame, DeliveryAcknowledged):
            known = self._open.get(frame.position)
            if known is None:
                return ()
            known[1].discard((sender, frame.route))
            if not known[1]:
                del self._open[frame.position]
            return self._release()
        if isinstance(frame, Load):
            for part, visits in frame.visits:
                self.traffic[part] = self.traffic.get(part, 0) + visits
            self._replicate()
            return ()
        return super().answer(sender, frame)

    # -- who stands where --------------------------------------------------------------------------------------
    def widen(self, hop: str, frame: Placed) -> None:
        self.table.put(hop, hop, frame.space, frame.id, frame.topic, frame.place)
        self._leave_part(hop, frame.id, frame.position)
        if frame.point is None:
            return
        stands = self.standings.enter(hop, frame)
        self._tell(stands.part, stands)
        is_new = stands.part not in self.owners
        self._dirty = self._dirty or is_new or len(self.standings.parts[stands.part]) > self._share()

    def narrow(self, hop: str, frame: PlaceRemoved) -> None:
        self.table.take(hop, frame.id)
        self._leave_part(hop, frame.id, frame.position)

    def _leave_part(self, host: str, id: int, position: int) -> None:
        known = self.standings.leave(host, id, position)
        if known is not None:
            part, number = known
            self._tell(part, PlacementEnded(position, number))

    def _tell(self, part: int, frame: PlacementAdded | PlacementEnded) -> None:
        owners = self._told.get(part, ())
        self._outs += [(owner, frame) for owner in owners]
        if owners:
            self._last_told = frame.position

    def joined(self, hop: str, frame: Join) -> None:
        self._dirty = True

    def forget(self, hop: str, frame: Leave) -> None:
        """Brokers are lost: nobody stands there, and their parts are kept by others."""
        lost = set(frame.brokers)
        self._lost += frame.brokers
        self.table.forget(frame.brokers)
        self.standings.forget(lost)
        for owners in (*self.owners.values(), *self._told.values()):
            owners[:] = [owner for owner in owners if owner not in lost]
        self.children.pop(hop, None)
        for position, (one, waits) in [*self._open.items()]:
            waits -= {wait for wait in waits if wait[0] in lost}
            if not self.children or not (waits or self._is_spread(one.message)):
                del self._open[position]
        self._dirty = True
        self._outs += [*self._arrange(), *self._release()]

    # -- who keeps which part ----------------------------------------------------------------------------------
    def _share(self) -> float:
        """The standings that a part may have before it is split."""
        least: int = self.options.get("least", LEAST)
        return max(least, 2 * len(self.standings) / max(1, len(self.children)))

    def _arrange(self) -> list[Out]:
        """Begin a new epoch, if parts have to change: split the large ones, and find an owner for each."""
        if not self._dirty or not self.children:
            return []
        self._dirty = False
        parts, is_split = self.standings.parts, False
        large = [*parts]
        for part in large:
            if len(parts[part]) > self._share() and (new := self.standings.split(part)) is not None:
                large += [part, new]
                is_split = True
        loads = dict.fromkeys(self.children, 0)
        for part, owners in self.owners.items():
            for owner in owners:
                loads[owner] += 1 + len(parts[part])
        for part in parts:
            owners = self.owners.setdefault(part, [])
            if not owners and self.is_kept(part):
                owners.append(self._keeper(part, loads))
                loads[owners[0]] += 1 + len(parts[part])
        return self._begin() if is_split or self._lost or self.owners != self._told else []

    def _keeper(self, part: int, loads: dict[str, int]) -> str:
        """Who is to keep a part: the broker that hosts most of it, unless that has its share; then who has least."""
        hosts = Counter(one.frame.host for one in self.standings.parts[part].values())
        most = max(hosts, key=lambda host: hosts[host], default="")
        if most in loads and loads[most] + hosts.total() <= self._share():
            return most
        return min(loads, key=lambda broker: loads[broker])

    def _replicate(self) -> None:
        """Give the busiest part another owner, if it has much more than its share ([ProSem thesis] 3.5.1)."""
        busiest = max(self.traffic, key=lambda part: self.traffic[part] / (1 + len(self.owners[part])))
        owners, most = self.owners[busiest], self.traffic[busiest]
        mean = (sum(self.traffic.values()) - most) / max(1, len(self.owners) - 1)
        idle = [broker for broker in self.children if broker not in owners]
        if idle and len(owners) < REPLICAS and most > BUSY * len(owners) * mean:
            kept = [owner for others in self.owners.values() for owner in others]
            owners.append(min(idle, key=kept.count))
            self.traffic.clear()
            self._dirty = True

    def _begin(self) -> list[Out]:
        """Tell all who keep a part, or kept one, what they keep now; first who stands in parts that are new to them."""
        kept: dict[str, list[int]] = {owner: [] for owner in self._keepers()}
        self.epoch += 1
        outs: list[Out] = []
        position = self._last_told = self.position
        for part, owners in self.owners.items():
            for owner in owners:
                kept.setdefault(owner, []).append(part)
                if owner not in self._told.get(part, ()):
                    for one in self.standings.parts[part].values():
                        outs.append((owner, one.frame))
                        if one.until:
                            outs.append((owner, PlacementEnded(one.until, one.frame.number)))
        lost, self._lost = tuple(self._lost), []
        outs += [(owner, self.told_parts(position, parts, lost)) for owner, parts in kept.items()]
        self._told = {part: [*owners] for part, owners in self.owners.items()}
        for frame, _ in [*self._open.values()]:
            if self._is_spread(frame.message):
                outs += self._send(frame, first=False)
        return outs

    def _keepers(self) -> list[str]:
        return [*dict.fromkeys(owner for owners in self._told.values() for owner in owners)]

    def check(self) -> None:
        self.table.check()
        self.standings.check()
