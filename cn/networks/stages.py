"""Multi-stage filtering: weak filters near the source, stronger ones towards the subscribers ([Multi-stage])."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from cn.model.frames import (
    BrokerLost,
    Data,
    Found,
    Frame,
    Join,
    Lease,
    Leave,
    Placed,
    PlaceRemoved,
    Seek,
    Staged,
    placed,
)
from cn.model.geometry import Interval
from cn.model.message import Message
from cn.model.network import Place, Space
from cn.networks.node import Options, Out, Scheme, TreeNode, TreeRoot, balanced, check_place
from cn.networks.stage_table import StageTable, attributes_of, wildcard

_columns: msgspec.msgpack.Decoder[list[Interval]] = msgspec.msgpack.Decoder(list[Interval])
EXPIRES = 3  # a lease is over after so many times to live
RENEWED = 0.5  # and renewed after this part of one: the next tick may come late


class StageNode(TreeNode):
    """A broker whose stage is its distance from the host of a place, plus one: it keeps that many fewer attributes.

    A message travels sealed by attribute, and a broker opens those it filters on. Their order, most general first, comes
    with places and messages. Options: `height` (its stage, where that is not one more than the levels below it), `ttl`
    (leases: a broker that is silent for three of them is reported to the server as lost), `subscribers` (also filter for
    each subscriber apart, as [Multi-stage]'s first stage does).
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.table = StageTable()
        self.own = StageTable()
        self.received = self.matched = 0
        self.subscriber_events: dict[int, int] = {}  # of each subscriber here: events it was given
        self._hops: dict[int, dict[str, str]] = {}  # id → host → link
        self._below: dict[
            str, tuple[str, int]
        ] = {}  # broker → the child it is reached by, and how many links away
        self._hosted: set[int] = set()
        self._orders: dict[int, tuple[int, ...]] = {}  # of the attributes of spaces, where it was given
        self._heard: dict[str, float] = {}  # child → when it renewed its lease
        self._renewed: float | None = None
        self._dice = random.Random(name)

    # -- messages ----------------------------------------------------------------------------------------------
    def carry(self, frame: Data) -> Iterable[Out]:
        return self._pass_on(frame.message, seal(frame, self.order(frame.message.space)))

    def _pass_on(self, message: Message, frame: Staged) -> Iterable[Out]:
        self.received += 1
        if message.targets is not None:
            named = (self._hops.get(id, {}) for id in message.targets)
            hops = {hop for hosts in named for hop in hosts.values()}
        else:
            hops = self.table.owners(message)
            if self.options.get("subscribers"):
                given = self.own.owners(message)
                for owner in given:
                    self.subscriber_events[int(owner)] = self.subscriber_events.get(int(owner), 0) + 1
                self.matched += bool(given) and not hops
        self.matched += bool(hops)
        return [(hop, frame) for hop in self.children if hop in hops]

    def _staged(self, frame: Staged) -> Iterable[Out]:
        if frame.position <= self.since:
            return
        if self._hosted:
            yield self.name, unseal(frame)
        if self.children or self.options.get("subscribers"):
            most = max((count for space, count in self._depths() if space == frame.head.space), default=0)
            yield from self._pass_on(unseal(frame, most).message, frame)

    def _depths(self) -> Iterable[tuple[int, int]]:
        yield from self.table.depths
        if self.options.get("subscribers"):
            yield from self.own.depths

    # -- places ------------------------------------------------------------------------------------------------
    def widen(self, hop: str, frame: Placed) -> None:
        self._hops.setdefault(frame.id, {})[frame.route[-1]] = hop
        host, order = frame.route[-1], self._learn_order(frame)
        self.table.put(
            hop, host, frame.space, frame.id, frame.topic, frame.place, len(frame.route) + 1, order
        )

    def narrow(self, hop: str, frame: PlaceRemoved) -> None:
        self._gone(frame.id, frame.route[-1])

    def forget(self, hop: str, frame: Leave) -> None:
        for id in [*self._hops]:
            for host in frame.brokers:
                self._gone(id, host)
        self.table.forget(frame.brokers)
        self._heard.pop(hop, None)
        for broker in frame.brokers:
            self._below.pop(broker, None)

    def joined(self, hop: str, frame: Join) -> None:
        self._below[frame.broker] = hop, 1 + len(frame.route)

    def host(self, frame: Placed | PlaceRemoved) -> None:
        if isinstance(frame, PlaceRemoved):
            self._hosted.discard(frame.id)
            self.own.take(self.name, frame.id)
            return
        self._hosted.add(frame.id)
        owner = str(frame.id) if self.options.get("subscribers") else self.name
        order = self._learn_order(frame)
        self.own.put(owner, self.name, frame.space, frame.id, frame.topic, frame.place, 1, order)

    def _gone(self, id: int, host: str) -> None:
        hosts = self._hops.get(id, {})
        hosts.pop(host, None)
        if not hosts:
            self._hops.pop(id, None)
        self.table.take(host, id)

    def order(self, space: int) -> tuple[int, ...] | None:
        """The attributes of a space, most general first; None: as they are numbered."""
        return self._orders.get(space)

    def _learn_order(self, frame: Placed) -> tuple[int, ...] | None:
        if frame.order is not None:
            self._orders[frame.space.id] = frame.order
        return frame.order

    # -- what goes up: leases, and where a place is to be hosted -----------------------------------------------
    def answer(self, sender: str, frame: Frame) -> Iterable[Out]:
        if isinstance(frame, Staged | Seek):
            self.parent = sender
            return self._staged(frame) if isinstance(frame, Staged) else self._seek(frame)
        if isinstance(frame, Lease):
            self._heard[frame.broker] = -1.0  # until the next tick says what time it is
            return ()
        if isinstance(frame, BrokerLost | Found):
            return [(self.parent, frame)]
        return super().answer(sender, frame)

    def tick(self, now: float) -> Iterable[Out]:
        """Renew the own lease, and report brokers that have not renewed theirs."""
        ttl: float | None = self.options.get("ttl")
        if not ttl:
            return
        for child in [*self.children]:  # one whose lease is over is taken out meanwhile
            if self._heard.get(child, -1.0) < 0.0:
                self._heard[child] = now
            elif now - self._heard[child] > EXPIRES * ttl:
                self._heard[child] = now
                yield from self.expired(child)
        if self.parent and (self._renewed is None or now - self._renewed >= RENEWED * ttl):
            self._renewed = now
            yield self.parent, Lease(self.name)

    def expired(self, broker: str) -> Iterable[Out]:
        return [(self.parent, BrokerLost(broker))]

    def _seek(self, frame: Seek) -> Iterable[Out]:
        """Walk down to the strongest filter that covers a place ([Multi-stage] figure 5).

        Where none does, none does below either: the subscriber stays if it is there, else the walk ends here. A place that
        leaves an attribute open is hosted above every stage that filters on it, or by the server. Without `at` the walk
        goes on to any child, as in the paper, where the last stage alone hosts.
        """
        place = frame.place
        assert place is not None
        if self.own.covering(frame.space, frame.topic, place) is not None:
            return self.found(Found(frame.number, self.name))
        hop = self.table.covering(frame.space, frame.topic, place)
        if hop is None and self.children and frame.at != self.name:
            attributes = attributes_of(frame.space, place, frame.order)
            open_at = wildcard(frame.space, place, attributes)
            if open_at is None and frame.at in self._below:
                return self.found(Found(frame.number, frame.at))
            if open_at is None or self.height() > len(attributes) - open_at:
                hop = self._next_hop(frame.at)
        if hop is not None:
            return [(hop, frame)]
        return self.found(Found(frame.number, self.name))

    def _next_hop(self, at: str) -> str | None:
        if not at:
            return self._dice.choice([*self.children])
        return self._below[at][0] if at in self._below else None

    def height(self) -> int:
        """The stage of this broker: 1 at the rim, one more at every level above. The option `height` may say otherwise."""
        given: int | None = self.options.get("height")
        return given or 1 + max((away for _, away in self._below.values()), default=0)

    def found(self, frame: Found) -> Iterable[Out]:
        return [(self.parent, frame)]

    def check(self) -> None:
        self.table.check()
        self.own.check()


class StageRoot(StageNode, TreeRoot):
    """Each stage filters on fewer attributes than the one below it, so that tables near the server are small.

    It loses by what weak filters let through: a message may travel to the last stage but one before it is dropped.
    Option: `expired(broker)`, called when a lease is over; the caller then removes the broker. Without it the broker and all
    below it leave the network at once. `found(number, broker)` is called when a broker has answered a `seek`. `order(space)`
    gives the attributes of a space, most general first, or None for their own order.
    """

    def __init__(self, name: str, options: Options | None = None) -> None:
        super().__init__(name, options)
        self.lost: list[str] = []  # brokers whose lease is over
        self._report_expired: Callable[[str], None] | None = self.options.get("expired")
        self._report_found: Callable[[int, str], None] | None = self.options.get("found")
        self.places_found: dict[int, str] = {}
        self._sought = 0
        self._order_of: Callable[[int], tuple[int, ...] | None] = self.options.get(
            "order", lambda space: None
        )

    def order(self, space: int) -> tuple[int, ...] | None:
        return self._order_of(space)

    def place(self, host: str, space: Space, id: int, topic: bytes, place: Place | None) -> Iterable[Out]:
        check_place(space, place)
        frame = placed(self._next(), self.route(host), space, id, topic, place)
        return self._ordered(host, replace(frame, order=self.order(space.id)))

    def seek(self, space: Space, topic: bytes, place: Place, at: str = "") -> tuple[int, Iterable[Out]]:
        """Ask where a place is to be hosted whose subscriber is at a node.

        `places_found` has the answer under this number, at once or later.
        """
        self._sought += 1
        order = self.order(space.id)
        if space.dimensions:
            frame = Seek(self._sought, space, topic, point=place, at=at, order=order)
        else:
            filters = tuple(dict(one) for one in place)
            frame = Seek(self._sought, space, topic, filters=filters, at=at, order=order)
        return self._sought, self._seek(frame)

    def answer(self, sender: str, frame: Frame) -> Iterable[Out]:
        if isinstance(frame, Found):
            self.found(frame)
            if self._report_found is not None:
                self._report_found(frame.number, self.places_found.pop(frame.number))
            return ()
        if isinstance(frame, BrokerLost):
            return self.expired(frame.broker)
        return super().answer(sender, frame)

    def found(self, frame: Found) -> Iterable[Out]:
        self.places_found[frame.number] = frame.broker
        return ()

    def expired(self, broker: str) -> Iterable[Out]:
        if broker not in self.parents:
            return ()
        self.lost.append(broker)
        if self._report_expired is not None:
            self._report_expired(broker)
            return ()
        return self.leave(broker)


# -- events, sealed by attribute ---------------------------------------------------------------------------------
def seal(frame: Data, order: tuple[int, ...] | None = None) -> Staged:
    """A message with its attributes apart, most general first."""
    message = frame.message
    rows = [row for row in message.attributes or () if row is not None]
    width = len(message.region[0]) if message.region else len(rows[0]) if rows else 0
    sides = message.region or rows
    columns = tuple(msgspec.msgpack.encode([side[at] for side in sides]) for at in _all(order, width))
    present = None if message.attributes is None else tuple(row is not None for row in message.attributes)
    head = replace(message, region=(), attributes=None, payload=b"")
    return Staged(frame.position, head, columns, present, message.payload, order=order)


def unseal(frame: Staged, most: int | None = None) -> Data:
    """The message again, or what it says of its most general attributes: the others are open, and None in vectors."""
    width = len(frame.columns)
    places = _all(frame.order, width)[:most]
    opened = dict(zip(places, frame.columns, strict=False))
    if frame.present is None:
        sides = {at: _columns.decode(column) for at, column in opened.items()}
        count = len(next(iter(sides.values()), ())) or (1 if width else 0)
        open_side = [Interval()] * count
        region = tuple(zip(*(sides.get(at, open_side) for at in range(width)), strict=True))
        message = replace(frame.head, region=region, payload=frame.payload)
        return Data(frame.position, message, source=frame.source)
    values = {at: msgspec.msgpack.decode(column) for at, column in opened.items()}
    rows = iter(range(sum(frame.present)))
    attributes = tuple(
        tuple(values[at][row] if at in values else None for at in range(width))
        if there and (row := next(rows)) is not None
        else None
        for there in frame.present
    )
    message = replace(frame.head, attributes=attributes, payload=frame.payload)
    return Data(frame.position, message, source=frame.source)


def _all(order: Sequence[int] | None, width: int) -> list[int]:
    """Every attribute: first those of the order, then the rest."""
    first = [at for at in order or () if at < width]
    return [*first, *(at for at in range(width) if at not in first)]


STAGES = Scheme("stages", StageRoot, StageNode, balanced, exact=False)
