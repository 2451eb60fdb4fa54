"""The server of brokers that keep parts of the spaces: placements by part, the owners of parts, messages under way."""

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

LEAST = 16  # placements that a part always may have
BUSY = 4.0  # a part with so many times the mean traffic of the others is replicated
REPLICAS = 3  # at most


class PartitionRoot(TreeRoot, Generic[M]):
    """The server divides the spaces among the brokers, and knows the placements in each part.

    A part is split when it has more than its share of the placements, and kept by several brokers when it has more than its
    share of the traffic. Parts change from one epoch to the next: what is not acknowledged by then is sent again, and
    edges drop what they had. Messages that name their targets, and filters, go straight to the brokers that host them.
    Options: `least` (placements that a part always may have), `check` (False: also inject messages without a match).
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.table = PlaceTable()
        self.placements: Placements[M] = Placements(self.divide)
        self.owners: dict[int, list[str]] = {}  # of each part
        self.traffic: dict[int, int] = {}
        self.epoch = 0
        self._announced: dict[int, list[str]] = {}  # the owners of each part as brokers know them
        self._lost: list[str] = []
        self._dirty = False
        self._last_announced = 0  # the position of the last announced placement
        self._open: dict[
            int, tuple[Data, set[tuple[str, bytes]]]
        ] = {}  # position → frame, receivers that have not answered
        self._marks: deque[PositionMark] = deque()
        self._outs: list[Out] = []

    # -- what a network decides --------------------------------------------------------------------------------
    def divide(self, space: Space) -> M:
        """A space in one part."""
        raise NotImplementedError

    def entries(self, frame: Data) -> Iterator[tuple[str, Data]]:
        """To the owners of the parts where a message begins to spread."""
        raise NotImplementedError

    def parts_frame(self, position: int, kept: list[int], lost: tuple[str, ...]) -> Parts:
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
        return (
            message.targets is None and message.attributes is None and message.space in self.placements.maps
        )

    def owner_for(self, part: int, position: int) -> str:
        """The owner of a part that takes a message; empty if it has none."""
        owners = self._announced.get(part)
        return owners[position % len(owners)] if owners else ""

    def course(self, box: int, part: int, *, spreading: bool = True) -> Course:
        return Course(self.epoch, box, part, spreading, self._last_announced)

    def mark(self, seq: int) -> Iterable[Out]:
        mark = PositionMark(self._next(), seq, settled=self.settled)
        self._marks.append(mark)
        outs = [*self._arrange(), *self._release()]
        if self._marks:
            outs += [(owner, PlacementsSynced(mark.position)) for owner in self._partition_owners()]
        return outs

    def _release(self) -> list[Out]:
        """The marks before the first message that has not been everywhere."""
        outs: list[Out] = []
        while self._marks and self._marks[0].position < next(iter(self._open), self.position + 1):
            mark = self._marks.popleft()
            self.placements.expire(mark.position)
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

    # -- placements --------------------------------------------------------------------------------------------
    def widen(self, hop: str, frame: Placed) -> None:
        self.table.put(hop, hop, frame.space, frame.id, frame.topic, frame.place)
        self._leave_part(hop, frame.id, frame.position)
        if frame.point is None:
            return
        added = self.placements.enter(hop, frame)
        self._announce(added.part, added)
        is_new = added.part not in self.owners
        self._dirty = self._dirty or is_new or len(self.placements.parts[added.part]) > self._share()

    def narrow(self, hop: str, frame: PlaceRemoved) -> None:
        self.table.take(hop, frame.id)
        self._leave_part(hop, frame.id, frame.position)

    def _leave_part(self, host: str, id: int, position: int) -> None:
        known = self.placements.leave(host, id, position)
        if known is not None:
            part, number = known
            self._announce(part, PlacementEnded(position, number))

    def _announce(self, part: int, frame: PlacementAdded | PlacementEnded) -> None:
        owners = self._announced.get(part, ())
        self._outs += [(owner, frame) for owner in owners]
        if owners:
            self._last_announced = frame.position

    def joined(self, hop: str, frame: Join) -> None:
        self._dirty = True

    def forget(self, hop: str, frame: Leave) -> None:
        """Brokers are lost: their placements are removed, and their parts get other owners."""
        lost = set(frame.brokers)
        self._lost += frame.brokers
        self.table.forget(frame.brokers)
        self.placements.forget(lost)
        for owners in (*self.owners.values(), *self._announced.values()):
            owners[:] = [owner for owner in owners if owner not in lost]
        self.children.pop(hop, None)
        for position, (one, waits) in [*self._open.items()]:
            waits -= {wait for wait in waits if wait[0] in lost}
            if not self.children or not (waits or self._is_spread(one.message)):
                del self._open[position]
        self._dirty = True
        self._outs += [*self._arrange(), *self._release()]

    # -- owners of parts ---------------------------------------------------------------------------------------
    def _share(self) -> float:
        """The placements that a part may have before it is split."""
        least: int = self.options.get("least", LEAST)
        return max(least, 2 * len(self.placements) / max(1, len(self.children)))

    def _arrange(self) -> list[Out]:
        """Begin a new epoch, if parts have to change: split the large ones, and find an owner for each."""
        if not self._dirty or not self.children:
            return []
        self._dirty = False
        parts, is_split = self.placements.parts, False
        large = [*parts]
        for part in large:
            if len(parts[part]) > self._share() and (new := self.placements.split(part)) is not None:
                large += [part, new]
                is_split = True
        loads = dict.fromkeys(self.children, 0)
        for part, owners in self.owners.items():
            for owner in owners:
                loads[owner] += 1 + len(parts[part])
        for part in parts:
            owners = self.owners.setdefault(part, [])
            if not owners and self.is_kept(part):
                owners.append(self._choose_owner(part, loads))
                loads[owners[0]] += 1 + len(parts[part])
        return self._begin() if is_split or self._lost or self.owners != self._announced else []

    def _choose_owner(self, part: int, loads: dict[str, int]) -> str:
        """The owner of a part: the broker that hosts most of it, unless that has its share; then the one with least."""
        hosts = Counter(one.frame.host for one in self.placements.parts[part].values())
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
            kept = Counter(owner for others in self.owners.values() for owner in others)
            owners.append(min(idle, key=kept.__getitem__))
            self.traffic.clear()
            self._dirty = True

    def _begin(self) -> list[Out]:
        """Send all owners, present and former, their parts; first the placements in parts that are new to them."""
        kept: dict[str, list[int]] = {owner: [] for owner in self._partition_owners()}
        self.epoch += 1
        outs: list[Out] = []
        position = self._last_announced = self.position
        for part, owners in self.owners.items():
            for owner in owners:
                kept.setdefault(owner, []).append(part)
                if owner not in self._announced.get(part, ()):
                    for one in self.placements.parts[part].values():
                        outs.append((owner, one.frame))
                        if one.until:
                            outs.append((owner, PlacementEnded(one.until, one.frame.number)))
        lost, self._lost = tuple(self._lost), []
        outs += [(owner, self.parts_frame(position, parts, lost)) for owner, parts in kept.items()]
        self._announced = {part: [*owners] for part, owners in self.owners.items()}
        for frame, _ in [*self._open.values()]:
            if self._is_spread(frame.message):
                outs += self._send(frame, first=False)
        return outs

    def _partition_owners(self) -> list[str]:
        return [*dict.fromkeys(owner for owners in self._announced.values() for owner in owners)]

    def check(self) -> None:
        self.table.check()
        self.placements.check()
