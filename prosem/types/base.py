"""What a subscription type must offer, and the values that pass between it and the engine.

A type is one file that offers a `SubscriptionType`; `registry.py` lists them. From a parsed query it makes a `Form`
(the query resolved against the catalog). Forms with the same `label` are one group. `Form.bind` turns parameters into
a `Bound`: the subscription's place in the group's space. The server side of a space (indexes over rows and points) is a
`Space`; it describes whom an event affects, and turns the description into messages, one way per plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, _ProtocolMeta, runtime_checkable

from cn.model.message import Message
from cn.model.network import Space as NetworkSpace
from prosem.language.syntax import Query
from prosem.values.model import Delta, JsonObject, Key, PlaceMark, Row, Table

Rows = Mapping[Key, Row]  # the content of one table
LOGGED_ONLY = "decision"  # kind of a message that is stored for replays and recovery, and not sent
SENT_ONLY = "relaxed"  # kind of one that is sent in its place: to more than it concerns, and the edge decides
RETOLD = frozenset(
    {"row", "upsert", "drop", "lose", "joined"}
)  # kinds without a body: the event log tells them again


class Bound(NamedTuple):
    """The place of one subscription: a topic (its equality values) and a point or filters; None is nowhere."""

    topic: bytes
    place: Any | None


class SpaceContext(NamedTuple):
    """What a space needs of the server: the rows of its tables, where a subscription stands, and limits.

    `plan` is the server's setting: `auto`, `random:<seed>` or a plan's name. `shares` are the tables' shares of the events,
    by the statistics; empty if they are unknown.
    """

    rows: tuple[Rows, ...]
    locate: Callable[[int], Bound]
    max_boxes: int
    plan: str = "auto"
    shares: tuple[float, ...] = ()


class Draft(NamedTuple):
    """A message before it has its number: see `cn.model.message.Message`."""

    kind: str
    topic: bytes = b""
    region: tuple[Any, ...] = ()
    targets: tuple[int, ...] | None = None
    attributes: tuple[Any, ...] | None = None
    payload: bytes = b""
    contents: tuple[bytes, ...] = ()
    digests: tuple[bytes, ...] = ()


class Space(Protocol):
    """The server's side of one space: it owns indexes, knows all active points, and holds no subscription."""

    network: NetworkSpace

    @property
    def plans(self) -> tuple[str, ...]:
        """The ways to make messages, from the most to the least promising; all tell every subscriber the same."""

    @property
    def visits(self) -> int:
        """Index nodes looked at so far."""

    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None: ...
    def move(self, sid: int, before: Bound, after: Bound) -> None: ...
    def remove(self, sid: int, bound: Bound) -> None: ...
    def step(self, delta: Delta) -> Any | None:
        """Take the row's new state into the indexes; describe whom that affects (None: nobody)."""

    def messages(self, description: Any, plan: str) -> list[Draft]: ...


class Form(Protocol):
    """One statement, recognised and resolved: how to place its subscriptions, answer them and tell their changes."""

    @property
    def type(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def space_label(self) -> str: ...
    @property
    def tables(self) -> tuple[Table, ...]: ...
    def bind(self, params: Mapping[str, Any]) -> Bound: ...
    def open_space(self, space_id: int, surroundings: SpaceContext) -> Space:
        """The server's side of the space."""

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject: ...
    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        """The change that takes one answer to the other; None if nothing is to be told."""

    def state(self, space: Space, bound: Bound) -> Any | None:
        """What the edge must know to fold messages for this subscription; None if messages say all."""

    def change(self, messages: Sequence[Message], bound: Bound, state: Any) -> tuple[bytes | None, Any]:
        """All messages of one seq for one subscription: the change it is told (JSON) or None, and the state after."""

    def opening(self, snapshot: bytes, state: Any) -> JsonObject:
        """The message `state` with which a raw stream begins; of a suspended subscription only the answer is known."""

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        """The messages of one seq as a raw stream gets them, with the change they amount to."""


class ByMembers(_ProtocolMeta):
    """Makes `isinstance` of a protocol quick: typing gathers its members each time, for some 10 µs."""

    _members: ClassVar[dict[type, tuple[str, ...]]] = {}

    def __instancecheck__(cls, instance: object) -> bool:
        members = ByMembers._members.get(cls)
        if members is None:
            protocols = [one for one in cls.__mro__ if isinstance(one, ByMembers)]
            names = {
                name for one in protocols for name in (*vars(one), *vars(one).get("__annotations__", ()))
            }
            members = ByMembers._members[cls] = tuple(sorted(name for name in names if name[0] != "_"))
        return all(hasattr(instance, name) for name in members)


@runtime_checkable
class PackedForm(Protocol, metaclass=ByMembers):
    """A form whose edge holds a state that is not bytes: it can be packed, for an edge in another process."""

    def pack_state(self, state: Any) -> bytes: ...
    def unpack_state(self, packed: bytes) -> Any: ...


@runtime_checkable
class StatefulForm(PackedForm, Protocol):
    """A form whose edge holds a state: it can go back in time and be stored, for returning subscribers."""

    def change(self, messages: Sequence[Message], bound: Bound, state: Any) -> tuple[bytes | None, Any]: ...
    def undo(self, messages: Sequence[Message], state: Any) -> Any:
        """The state before the messages."""


@runtime_checkable
class MarkedForm(Protocol, metaclass=ByMembers):
    """A form whose subscriptions have marks: the edge's state is what was told last, and only marks tell it again."""

    def change(self, messages: Sequence[Message], bound: Bound, state: Any) -> tuple[bytes | None, Any]: ...
    def marked_state(self, told: bytes) -> Any:
        """The state at the edge of a subscription that was told this."""


@runtime_checkable
class LoggedForm(Protocol, metaclass=ByMembers):
    """A form whose changes are found again from rows and the event log, since its messages cannot be undone."""

    @property
    def shape(self) -> Any: ...
    def told(self, added: Sequence[tuple[Row, ...]], removed: Sequence[tuple[Row, ...]]) -> bytes | None:
        """The change that tells of joined rows that came and that went."""


@runtime_checkable
class MarkedSpace(Protocol, metaclass=ByMembers):
    """A space that gives its points a part of their place itself; they may be moved to make room for others.

    `looks_back`: what was told since a mark stands in the messages alone, so that marks must not become too old.
    """

    looks_back: ClassVar[bool]

    def locate(self, sid: int) -> Bound: ...
    def mark(self, sid: int) -> PlaceMark: ...
    def relabelled(self) -> list[int]:
        """Who was moved since this was last asked."""

    def restore(self, sids: Sequence[int], bounds: Sequence[Bound], marks: Sequence[PlaceMark]) -> None:
        """Put subscriptions where they stood, with what they had been told; the space was empty."""


@runtime_checkable
class ItemStateSpace(Protocol, metaclass=ByMembers):
    """A space with something to keep of each item: what changed is written with the batch that changed it."""

    def changed_items(self) -> dict[bytes, bytes | None]:
        """What is to be kept of the items that changed since this was last asked (None: nothing any more)."""

    def restore_items(self, stored: Iterable[bytes]) -> None:
        """What was kept comes back, after the subscriptions."""


@runtime_checkable
class AdaptiveSpace(Protocol, metaclass=ByMembers):
    """A space that may arrange itself anew between two events, when what it counted has changed."""

    def rearrange(self) -> bool:
        """Do so where it pays; whether edges must be given their states again."""


class SubscriptionType(Protocol):
    name: str

    def recognise(self, query: Query, tables: Sequence[Table], notify: JsonObject | None) -> Form | None: ...
    def describe(self) -> JsonObject:
        """The entry of GET /v1/types."""
