"""The server of a CAN: who stands in which zone, who keeps it, and what is still on its way."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cn.frames import (
    Bordering,
    Covered,
    Data,
    Frame,
    Join,
    Known,
    Leave,
    Left,
    Load,
    Mark,
    Placed,
    Stands,
    Stood,
    Zone,
    Zones,
)
from cn.message import Message
from cn.networks.can import HOST, CanNode, Course, full_box, towards_zone
from cn.networks.node import Options, Out, Scheme, TreeRoot, star
from cn.networks.place_table import PlaceTable
from cn.networks.zones import ZoneMap

ZONE = 16  # standings that a zone always may have
BUSY = 4.0  # a zone with so many times the mean traffic of the others is replicated
REPLICAS = 3  # at most


class _Standing(NamedTuple):
    frame: Stands  # as it is told; its number is the position at which it began
    until: int | None = None


class CanRoot(TreeRoot):
    """Brokers keep zones of the spaces, and a message spreads over the zones that its region meets.

    A zone is split when it has more than its share of the standings, and kept by several brokers when it has more than its
    share of the traffic. Zones change from one epoch to the next: what is not acknowledged by then is sent again, and
    edges drop what they had. Messages that name their targets, and filters, go straight to the brokers that host them.
    Options: `zone` (standings that a zone always may have), `routed` (a message enters at a fixed zone and finds its way,
    as in the thesis, instead of being sent where it begins to spread), `check` (False: also inject what concerns nobody).
    It loses on small regions: neighbours that hold nobody concerned pass a message on, and each frame is acknowledged.
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.table = PlaceTable()
        self.maps: dict[int, ZoneMap] = {}  # by space
        self.owners: dict[int, list[str]] = {}  # of each zone
        self.spaces: dict[int, int] = {}  # of each zone
        self.standings: dict[
            int, dict[int, _Standing]
        ] = {}  # zone → number; also those that have ended lately
        self.traffic: dict[int, int] = {}
        self.epoch = 0
        self._at: dict[tuple[str, int], tuple[int, int]] = {}  # (host, id) → zone, number
        self._told: dict[int, list[str]] = {}  # the owners of each zone as brokers know them
        self._lost: list[str] = []
        self._dirty = False
        self._last_told = 0  # the position of what was last told about standings
        self._open: dict[
            int, tuple[Data, set[tuple[str, bytes]]]
        ] = {}  # position → frame, who has not answered
        self._marks: deque[Mark] = deque()
        self._outs: list[Out] = []

    # -- messages ----------------------------------------------------------------------------------------------
    def inject(self, message: Message) -> Iterable[Out]:
        frame = Data(self._next(), message)
        outs = [*self._arrange(), (self.name, frame)]
        return [*outs, *self._send(frame, first=True)]

    def _send(self, frame: Data, *, first: bool) -> list[Out]:
        message = frame.message
        if self._is_spread(message):
            if not self.table.covers(message) and self.options.get("check", True) and first:
                return []
            sent = [*self._entries(frame)]
        else:
            course = Course(self.epoch, 0, HOST, True, 0)
            hosts = self.table.owners(message) if first else ()
            sent = [(host, towards_zone(frame, course)) for host in hosts]
        self._open[frame.position] = frame, {(to, one.route) for to, one in sent}
        if not sent:
            del self._open[frame.position]
        return [*sent]

    def _is_spread(self, message: Message) -> bool:
        return message.targets is None and message.attributes is None and message.space in self.maps

    def _entries(self, frame: Data) -> Iterator[tuple[str, Data]]:
        """To the zone where each box of the region begins to spread."""
        zones, is_routed = self.maps[frame.message.space], self.options.get("routed", False)
        for at in range(len(frame.message.region)):
            zone = next(iter(zones.boxes)) if is_routed else zones.entry(full_box(frame.message, at))
            owners = self._told.get(zone)
            if owners:
                course = Course(self.epoch, at, zone, not is_routed, self._last_told)
                yield owners[frame.position % len(owners)], towards_zone(frame, course)

    def mark(self, seq: int) -> Iterable[Out]:
        mark = Mark(self._next(), seq)
        self._marks.append(mark)
        outs = [*self._arrange(), *self._release()]
        if self._marks:
            outs += [(owner, Known(mark.position)) for owner in self._keepers()]
        return outs

    def _release(self) -> list[Out]:
        """The marks before the first message that has not been everywhere."""
        outs: list[Out] = []
        while self._marks and self._marks[0].position < next(iter(self._open), self.position + 1):
            mark = self._marks.popleft()
            for standings in self.standings.values():
                for number in [n for n, one in standings.items() if one.until and one.until <= mark.position]:
                    del standings[number]
            outs += super().receive("", mark)
        return outs

    # -- what brokers answer -----------------------------------------------------------------------------------
    def receive(self, sender: str, frame: Frame) -> Iterable[Out]:
        outs = super().receive(sender, frame)
        outs = [*outs, *self._outs]
        self._outs.clear()
        return outs

    def answer(self, sender: str, frame: Frame) -> Iterable[Out]:
        if isinstance(frame, Covered):
            known = self._open.get(frame.position)
            if known is None:
                return ()
            known[1].discard((sender, frame.route))
            if not known[1]:
                del self._open[frame.position]
            return self._release()
        if isinstance(frame, Load):
            for zone, visits in frame.visits:
                self.traffic[zone] = self.traffic.get(zone, 0) + visits
            self._replicate()
            return ()
        return super().answer(sender, frame)

    # -- who stands where --------------------------------------------------------------------------------------
    def widen(self, hop: str, frame: Placed) -> None:
        self.table.put(hop, hop, frame.space, frame.id, frame.topic, frame.place)
        self._leave_zone(hop, frame.id, frame.position)
        if frame.point is None:
            return
        zones = self.maps.get(frame.space.id)
        if zones is None:
            zones = self.maps[frame.space.id] = ZoneMap(
                frame.space.dimensions + 1, self._add_zone(frame.space.id)
            )
        zone = zones.locate((frame.topic, *frame.point))
        stands = Stands(frame.position, zone, frame.position, hop, frame.space, frame.topic, frame.point)
        self.standings[zone][frame.position] = _Standing(stands)
        self._at[hop, frame.id] = zone, frame.position
        self._tell(zone, stands)
        self._dirty = self._dirty or len(self.standings[zone]) > self._share()

    def narrow(self, hop: str, frame: Left) -> None:
        self.table.take(hop, frame.id)
        self._leave_zone(hop, frame.id, frame.position)

    def _leave_zone(self, host: str, id: int, position: int) -> None:
        zone, number = self._at.pop((host, id), (0, 0))
        if number:
            self.standings[zone][number] = self.standings[zone][number]._replace(until=position)
            self._tell(zone, Stood(position, number))

    def _tell(self, zone: int, frame: Stands | Stood) -> None:
        owners = self._told.get(zone, ())
        self._outs += [(owner, frame) for owner in owners]
        if owners:
            self._last_told = frame.position

    def joined(self, hop: str, frame: Join) -> None:
        self._dirty = True

    def forget(self, hop: str, frame: Leave) -> None:
        """Brokers are lost: nobody stands there, and their zones are kept by others."""
        lost = set(frame.brokers)
        self._lost += frame.brokers
        self.table.forget(frame.brokers)
        for host, id in [key for key in self._at if key[0] in lost]:
            del self._at[host, id]
        for standings in self.standings.values():
            for number in [number for number, one in standings.items() if one.frame.host in lost]:
                del standings[number]
        for owners in (*self.owners.values(), *self._told.values()):
            owners[:] = [owner for owner in owners if owner not in lost]
        self.children.pop(hop, None)
        for position, (one, waits) in [*self._open.items()]:
            waits -= {wait for wait in waits if wait[0] in lost}
            if not self.children or not (waits or self._is_spread(one.message)):
                del self._open[position]
        self._dirty = True
        self._outs += [*self._arrange(), *self._release()]

    # -- who keeps which zone ----------------------------------------------------------------------------------
    def _share(self) -> float:
        """The standings that a zone may have before it is split."""
        least: int = self.options.get("zone", ZONE)
        return max(least, 2 * len(self._at) / max(1, len(self.children)))

    def _add_zone(self, space: int) -> int:
        zone = len(self.owners) + 1
        self.owners[zone], self.spaces[zone], self.standings[zone] = [], space, {}
        self._dirty = True
        return zone

    def _arrange(self) -> list[Out]:
        """Begin a new epoch, if zones have to change: split the large ones, and find an owner for each."""
        if not self._dirty or not self.children:
            return []
        self._dirty = False
        for space, zones in self.maps.items():
            large = [*zones.boxes]
            for zone in large:
                if len(self.standings[zone]) > self._share():
                    new = self._split(space, zones, zone)
                    large += [zone, new] if new else []
        loads = dict.fromkeys(self.children, 0)
        for zone, owners in self.owners.items():
            for owner in owners:
                loads[owner] += 1 + len(self.standings[zone])
        for zone, owners in self.owners.items():
            if not owners:
                owners.append(self._keeper(zone, loads))
                loads[owners[0]] += 1 + len(self.standings[zone])
        return self._begin()

    def _keeper(self, zone: int, loads: dict[str, int]) -> str:
        """Who is to keep a zone: the broker that hosts most of it, unless that has its share; then who has least."""
        hosts = Counter(one.frame.host for one in self.standings[zone].values())
        most = max(hosts, key=lambda host: hosts[host], default="")
        if most in loads and loads[most] + hosts.total() <= self._share():
            return most
        return min(loads, key=lambda broker: loads[broker])

    def _split(self, space: int, zones: ZoneMap, zone: int) -> int | None:
        standings = self.standings[zone]
        points = [(one.frame.topic, *one.frame.point) for one in standings.values()]
        new = zones.split(zone, points, len(self.owners) + 1)
        if new is None:
            return None
        self._add_zone(space)
        self._dirty = False
        for number, one in [*standings.items()]:
            if zones.locate((one.frame.topic, *one.frame.point)) == new:
                del standings[number]
                self.standings[new][number] = one._replace(frame=_in_zone(one.frame, new))
        for key, (_, number) in self._at.items():
            if number in self.standings[new]:
                self._at[key] = new, number
        return new

    def _replicate(self) -> None:
        """Give the busiest zone another owner, if it has much more than its share (thesis 3.5.1)."""
        busiest = max(self.traffic, key=lambda zone: self.traffic[zone] / (1 + len(self.owners[zone])))
        owners, most = self.owners[busiest], self.traffic[busiest]
        mean = (sum(self.traffic.values()) - most) / max(1, len(self.owners) - 1)
        idle = [broker for broker in self.children if broker not in owners]
        if idle and len(owners) < REPLICAS and most > BUSY * len(owners) * mean:
            kept = [owner for others in self.owners.values() for owner in others]
            owners.append(min(idle, key=kept.count))
            self.traffic.clear()
            self._dirty = True

    def _begin(self) -> list[Out]:
        """Tell all who keep a zone, or kept one, what they keep now; first who stands in zones that are new to them."""
        before = self._keepers()
        self.epoch += 1
        outs: list[Out] = []
        position = self._last_told = self.position
        kept: dict[str, list[Zone]] = {owner: [] for owner in before}
        for zone, owners in self.owners.items():
            zones = self.maps[self.spaces[zone]]
            borders = [
                Bordering(one, tuple(self.owners[one]), zones.boxes[one]) for one in zones.bordering(zone)
            ]
            told = Zone(zone, self.spaces[zone], zones.boxes[zone], tuple(borders))
            for owner in owners:
                kept.setdefault(owner, []).append(told)
                if owner not in self._told.get(zone, ()):
                    for one in self.standings[zone].values():
                        outs.append((owner, one.frame))
                        if one.until:
                            outs.append((owner, Stood(one.until, one.frame.number)))
        lost, self._lost = tuple(self._lost), []
        outs += [(owner, Zones(position, self.epoch, tuple(zones), lost)) for owner, zones in kept.items()]
        self._told = {zone: [*owners] for zone, owners in self.owners.items()}
        for frame, _ in [*self._open.values()]:
            if self._is_spread(frame.message):
                outs += self._send(frame, first=False)
        return outs

    def _keepers(self) -> list[str]:
        return [*dict.fromkeys(owner for owners in self._told.values() for owner in owners)]

    def check(self) -> None:
        self.table.check()
        for zones in self.maps.values():
            zones.check()
        for (host, _), (zone, number) in self._at.items():
            standing = self.standings[zone][number]
            assert (standing.frame.host, standing.until) == (host, None)
            assert self.maps[self.spaces[zone]].locate((standing.frame.topic, *standing.frame.point)) == zone


def _in_zone(frame: Stands, zone: int) -> Stands:
    return Stands(frame.position, zone, frame.number, frame.host, frame.space, frame.topic, frame.point)


CAN = Scheme("can", CanRoot, CanNode, star, exact=False)
