"""What passes over a link, and its bytes.

Everything that the server decides has a *position* in its one order: messages, moves of places, marks. A position is
never used twice within one run of the server. Frames of the order come first, those of single networks after them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from cn.model.geometry import BOTTOM, TOP, Box, Extent, Filters, Point
from cn.model.message import Message, Sent
from cn.model.network import Place, Space

Route = tuple[str, ...]  # the brokers still to pass, the last one hosts


class Data(Sent, frozen=True, tag="data"):
    """A message. `route` is what a network needs to carry it on, if its content alone does not say it."""

    position: int
    message: Message
    route: bytes = b""
    source: str = ""  # the last broker on the way that remembers contents


class Straight(Sent, frozen=True, tag="straight"):
    """A message from the server to a broker that hosts a match, past the brokers between them.

    It may come before or after what goes down the tree; the next mark says up to which position such messages were sent.
    """

    position: int
    message: Message


class Placed(Sent, frozen=True, tag="place"):
    """An id is placed from this position on, hosted by the last broker of the route; or it is nowhere.

    A broker takes itself off the route before it passes the frame on: with an empty route it has arrived.
    """

    position: int
    route: Route
    space: Space
    id: int
    topic: bytes = b""
    point: Point | None = None
    filters: tuple[dict[int, Extent], ...] | None = None
    order: tuple[int, ...] | None = None  # `stages`: the attributes of the space, most general first

    @property
    def place(self) -> Place | None:
        return self.filters if self.point is None else self.point


class PlaceRemoved(Sent, frozen=True, tag="left"):
    """An id is no longer hosted by the last broker of the route."""

    position: int
    route: Route
    id: int


class Direct(Sent, frozen=True, tag="direct"):
    """Something opaque for the edge of the last broker of the route, in order with the messages."""

    position: int
    route: Route
    body: bytes


class PositionMark(Sent, frozen=True, tag="mark"):
    """Everything up to this position, and so every message up to `seq`, has been sent on this link.

    `straight`: the brokers that were sent messages past this link since the last mark, each with the position of the last.
    `settled`: what every broker has applied everything up to, at least.
    """

    position: int
    seq: int
    straight: tuple[tuple[str, int], ...] = ()
    settled: int | None = None


class Join(Sent, frozen=True, tag="join"):
    """The last broker of the route (the server, if there is none) has a new neighbour below it."""

    position: int
    route: Route
    broker: str


class Leave(Sent, frozen=True, tag="leave"):
    """The last broker of the route has lost the first of these neighbours, and with it all of them."""

    position: int
    route: Route
    brokers: tuple[str, ...]


class Missed(Sent, frozen=True, tag="missed"):
    """What the last broker of the route may have missed when a broker above it was lost, for its own edge.

    `lost` is the parent that it had: what still comes from there was overtaken.
    """

    position: int
    route: Route
    lost: str
    frames: tuple[Data | Placed | PlaceRemoved | Direct, ...]


class Summary(Sent, frozen=True, tag="summary"):
    """What is asked for at and below the sender, in these spaces, as of a position it has come to."""

    position: int
    spaces: tuple[tuple[int, tuple[dict[int, Extent], ...]], ...]


class Staged(Sent, frozen=True, tag="staged"):
    """A message whose attributes are sealed one by one: a stage opens only those that it filters on.

    A column holds what all boxes of a region (or all vectors of attributes) say of one dimension, in the order from the
    most general attribute to the least. `present` says which vectors there are; without vectors it is None.
    """

    position: int
    head: Message  # without region, attributes, payload
    columns: tuple[bytes, ...]
    present: tuple[bool, ...] | None
    payload: bytes
    source: str = ""
    order: tuple[int, ...] | None = (
        None  # of the attributes of the space, where it is not as they are numbered
    )

    @property
    def message(self) -> Message:
        return self.head


class Lease(Sent, frozen=True, tag="lease"):
    """The sender is there, and still asks for everything it has asked for."""

    broker: str


class BrokerLost(Sent, frozen=True, tag="lost"):
    """A broker has not renewed its lease; on the way up to the server."""

    broker: str


class Seek(Sent, frozen=True, tag="seek"):
    """Where is a place to be hosted, so that like subscriptions are together? On the way down.

    `at`: the node where the subscriber is, which keeps it where nothing says otherwise.
    """

    number: int
    space: Space
    topic: bytes = b""
    point: Point | None = None
    filters: tuple[dict[int, Extent], ...] | None = None
    at: str = ""
    order: tuple[int, ...] | None = None

    @property
    def place(self) -> Place | None:
        return self.filters if self.point is None else self.point


class Found(Sent, frozen=True, tag="found"):
    """The broker that is to host what was sought; on the way up to the server."""

    number: int
    broker: str


class Advertise(Sent, frozen=True, tag="advertise"):
    """Events of this space come from where this frame comes from."""

    space: int


class Subscribe(Sent, frozen=True, tag="subscribe"):
    """The sender asks for what a filter holds, under a key of its own: the variable that it may update."""

    number: int
    space: int
    key: int
    filter: dict[int, Extent]


class Update(Sent, frozen=True, tag="update"):
    """Some attributes of a filter that the sender has asked for are others now; None: not constrained."""

    number: int
    space: int
    key: int
    changes: dict[int, Extent | None]


class Unsubscribe(Sent, frozen=True, tag="unsubscribe"):
    """The sender no longer asks for this."""

    number: int
    space: int
    key: int


class Ack(Sent, frozen=True, tag="ack"):
    """A request is in force up to the publishers; `complete` is False if a broker on the way did not answer in time."""

    number: int
    complete: bool = True
    client: str = ""  # whose request it was; empty between brokers


class ClientDelivery(Sent, frozen=True, tag="told"):
    """A message for these clients of a broker."""

    message: Message
    clients: tuple[str, ...]


class Bordering(NamedTuple):
    """A zone beside one's own: its number, its owner, and where it is."""

    number: int
    owners: tuple[str, ...]
    box: Box


class Zone(NamedTuple):
    """A zone of a space, and all zones that touch it."""

    number: int
    space: int
    box: Box
    bordering: tuple[Bordering, ...]

    def holds(self, point: Point) -> bool:
        return all(code in side for side, code in zip(self.box, point, strict=True))


class Zones(Sent, frozen=True, tag="zones"):
    """The zones that a broker keeps from this epoch on; brokers that are lost host nothing."""

    position: int
    epoch: int
    parts: tuple[Zone, ...]
    lost: tuple[str, ...] = ()


class Branch(NamedTuple):
    """A page below another: its number, its owner, and its keys, from `low` up to before `high`."""

    number: int
    owners: tuple[str, ...]
    low: Point | None
    high: Point | None


class Page(NamedTuple):
    """A page of a distributed B-tree, with those below it; a leaf has none."""

    number: int
    space: int
    low: Point | None
    high: Point | None
    branches: tuple[Branch, ...]

    def holds(self, point: Point) -> bool:
        return not (self.low is not None and point < self.low) and (self.high is None or point < self.high)


class Pages(Sent, frozen=True, tag="pages"):
    """The pages that a broker keeps from this epoch on; brokers that are lost host nothing."""

    position: int
    epoch: int
    parts: tuple[Page, ...]
    lost: tuple[str, ...] = ()


class PlacementAdded(Sent, frozen=True, tag="stands"):
    """An id hosted by a broker is placed at a point of a part from this position on; `number` names the placement."""

    position: int
    part: int
    number: int
    host: str
    space: Space
    topic: bytes
    point: Point


class PlacementEnded(Sent, frozen=True, tag="stood"):
    """A placement was removed at this position."""

    position: int
    number: int


class PlacementsSynced(Sent, frozen=True, tag="known"):
    """All placements up to this position have been sent."""

    position: int


class DeliveryAcknowledged(Sent, frozen=True, tag="covered"):
    """A message has been brought wherever the frame of this route was to bring it."""

    position: int
    route: bytes


class Load(Sent, frozen=True, tag="load"):
    """How many messages have passed each of these zones or pages since the last report."""

    visits: tuple[tuple[int, int], ...]


class ContentsHeld(Sent, frozen=True, tag="have"):
    """The sender has the contents of these digests now, and understands a digest in its place."""

    digests: tuple[bytes, ...]


class Fetch(Sent, frozen=True, tag="fetch"):
    """The sender, or one that has asked it, needs the contents of digests that it was sent without them.

    `is_final`: the sender needs them itself, and no broker on the way had them; only the server is asked so.
    """

    digests: tuple[bytes, ...]
    is_final: bool = False


class Content(Sent, frozen=True, tag="content"):
    """The content of a digest; b"" if no broker on the way had it."""

    digest: bytes
    content: bytes


FromPeer = Advertise | Subscribe | Update | Unsubscribe | Ack | ClientDelivery
Frame = (
    Data
    | Straight
    | Placed
    | PlaceRemoved
    | Direct
    | PositionMark
    | Join
    | Leave
    | Missed
    | Summary
    | Staged
    | Lease
    | BrokerLost
    | Seek
    | Found
    | Zones
    | Pages
    | PlacementAdded
    | PlacementEnded
    | PlacementsSynced
    | DeliveryAcknowledged
    | Load
    | ContentsHeld
    | Fetch
    | Content
    | FromPeer
)
Ordered = Data | Straight | Placed | PlaceRemoved | Direct | PositionMark  # what an edge is given
FromServer = (
    Data | Placed | PlaceRemoved | Direct | PositionMark | Join | Leave | Missed
)  # what comes down a tree, each with a position
Carrier = Data | Staged  # what carries a message
Parts = Zones | Pages  # what brokers keep of spaces

_EXTREMES = {0: BOTTOM, 1: TOP}  # by the code of their extension type


def write_extreme(code: Any) -> msgspec.msgpack.Ext:
    """The missing end of a range over texts, for MessagePack."""
    for number, extreme in _EXTREMES.items():
        if code is extreme:
            return msgspec.msgpack.Ext(number, b"")
    raise NotImplementedError(f"{code!r} cannot be sent over a link")


def read_extreme(number: int, data: memoryview) -> Any:
    if number not in _EXTREMES:
        raise ValueError(f"there is no extension type {number} in a frame")
    return _EXTREMES[number]


_encoder = msgspec.msgpack.Encoder(enc_hook=write_extreme)
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame, ext_hook=read_extreme)
_many: msgspec.msgpack.Decoder[list[Frame]] = msgspec.msgpack.Decoder(list[Frame], ext_hook=read_extreme)


def placed(position: int, route: Route, space: Space, id: int, topic: bytes, place: Place | None) -> Placed:
    """The frame for a place of either kind."""
    if place is None:
        return Placed(position, route, space, id, topic)
    if space.dimensions:
        return Placed(position, route, space, id, topic, point=place)
    filters: Filters = place
    return Placed(position, route, space, id, topic, filters=tuple([dict(one) for one in filters]))


def encode(frame: Frame) -> bytes:
    """The bytes of a frame on a link.

    >>> decode(encode(PositionMark(7, 3)))
    PositionMark(position=7, seq=3, straight=(), settled=None)
    """
    return _encoder.encode(frame)


def decode(data: bytes) -> Frame:
    return _decoder.decode(data)


def decode_many(data: bytes) -> list[Frame]:
    """The frames of one packet (`cn.transport.packets`)."""
    return _many.decode(data)
