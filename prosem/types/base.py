"""What a subscription type must offer, and the values that pass between it and the engine.

A type is one package that offers its `SubscriptionType`s as `TYPES`; `registry.py` lists the packages. From a parsed query
a type makes a `Form` (the query resolved against the catalog). Forms with the same `label` are one group. `Form.bind` turns
parameters into a `Bound`: the subscription's place in the group's space. The server side of a space (indexes over rows and
points) is a `Space`; it takes batches of deltas, and gives for each the messages of the plan that was chosen. A `Replay`
says how a form takes part in replays.

A space is a protocol with two makers: one in Python over any ordered codes, and a compiled one over 64-bit codes.
`Form.open_space` picks the maker; everything above sees deltas in and outcomes out, and the same tests judge both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol, _ProtocolMeta, runtime_checkable

from cn.model.geometry import Point, Region
from cn.model.message import Message
from cn.model.network import Space as NetworkSpace
from optimizer.cost import FOLD_US, Weights
from prosem.index.shared_indexes import SharedIndexes
from prosem.language.dimensions import Dimension, compared
from prosem.language.syntax import Query
from prosem.values.codes import Boxes
from prosem.values.columns import ColumnType
from prosem.values.model import Delta, JsonObject, Key, PlaceMark, Row, Table, View
from prosem.values.statistics import NO_FIGURES, RunFigures
from prosem.values.undo import UndoLog

Rows = Mapping[Key, Row]  # the content of one table
MOVED = (
    "change"  # kind of the message that carries the change of a point's move; addressed, made by the engine
)


class Storage(Enum):
    """What the outbox keeps of a kind of messages. Each space declares it of its kinds (`Space.storage`)."""

    WHOLE = "whole"  # stored and sent
    EVENT = "event"  # stored without a body, and sent: a replay makes it again from the event
    STORED_ONLY = "stored only"  # for replays and recovery, and not sent
    SENT_ONLY = (
        "sent only"  # to more subscriptions than it concerns, in place of a message that is stored only
    )


class Bound(NamedTuple):
    """The place of one subscription: a topic (its equality values) and a point or filters; None is nowhere.

    With `IN` on an equality column it is at one place under several topics: `others` are those after the first.
    `constants` are those of a subscription that its place does not have (HAVING): networks do not see them, and an edge has
    them in its state.
    """

    topic: bytes
    place: Any | None
    others: tuple[bytes, ...] = ()
    constants: tuple[Any, ...] = ()

    @property
    def topics(self) -> tuple[bytes, ...]:
        """All topics; none of a subscription that is nowhere."""
        return () if self.place is None else (self.topic, *self.others)


ALIAS_SHIFT = 40  # bits of a sid; an id in a network may have the number of a topic above them
SID_MASK = (1 << ALIAS_SHIFT) - 1


def placements(sid: int, bound: Bound) -> Iterator[tuple[int, bytes, Any | None]]:
    """A subscription as networks and point indexes hold it: an id, a topic and a place for each of its topics.

    The first id is the sid; `id & SID_MASK` is the sid of any of them.

    >>> [(id & SID_MASK, topic) for id, topic, _ in placements(7, Bound(b"a", (1, 2), (b"b",)))]
    [(7, b'a'), (7, b'b')]
    """
    yield sid, bound.topic, bound.place
    for number, topic in enumerate(bound.others, 1):
        yield (number << ALIAS_SHIFT) | sid, topic, bound.place


class Part(NamedTuple):
    """A space in which the points of another one have places too: their coordinates in the dimensions `taken`.

    `number` distinguishes the ids of one subscription.
    """

    number: int
    space: NetworkSpace
    taken: tuple[int, ...]

    def id(self, sid: int) -> int:
        """The id of a subscription here."""
        return (self.number << ALIAS_SHIFT) | sid

    def place(self, point: Point) -> Point:
        """Where a point of the other space lies here; a space without conditions has one place."""
        return tuple([point[at] for at in self.taken]) or (0, 0)

    def bound(self, point: Point) -> Bound:
        return Bound(b"", self.place(point))


class NetworkPlace(NamedTuple):
    """What a network holds of a subscription: an id and its place. None: only messages that name it reach it."""

    space: NetworkSpace
    id: int
    topic: bytes
    place: Any | None


def network_places(
    space: NetworkSpace, sid: int, bound: Bound, parts: Sequence[Part] = ()
) -> Iterator[NetworkPlace]:
    """A subscription as networks hold it: at all its topics, or in all parts of its space. The first id is the sid."""
    if not parts:
        for id, topic, place in placements(sid, bound):
            yield NetworkPlace(space, id, topic, place)
        return
    yield NetworkPlace(space, sid, b"", None)
    if bound.place is not None:
        for part in parts:
            yield NetworkPlace(part.space, part.id(sid), b"", part.place(bound.place))


class SpaceContext(NamedTuple):
    """What a space needs of the server: the rows of its tables, where a subscription stands, and limits.

    `plan` is the server's setting: `auto`, `random:<seed>` or a plan's name. `figures` are those of the statistics in force,
    `group` the id of the group that opens the space. `shared` has the row indexes of all spaces of the server; None: a space
    has its own. `part` opens a space that this one consists of, among others, by its form; None: a space is whole. `weights`
    gives the optimizer's weights in force; `reached_us` is what a subscription that a message reaches costs the server,
    `brokers` how many brokers share the subscriptions.
    """

    rows: tuple[Rows, ...]
    locate: Callable[[int], Bound]
    max_boxes: int
    plan: str = "auto"
    figures: RunFigures = NO_FIGURES
    group: int = 0
    shared: SharedIndexes | None = None
    part: Callable[[Any], Any] | None = None
    weights: Callable[[], Weights] = Weights
    reached_us: float = FOLD_US
    brokers: int = 1


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


def draft_of(kind: str, topic: bytes, region: Region, payload: bytes) -> Draft:
    """The most usual one: to a region, without contents. In half the time of the class."""
    return tuple.__new__(Draft, (kind, topic, region, None, None, payload, (), ()))


class Outcome(NamedTuple):
    """What one delta led to: a description (None: it affects no subscription), the plan chosen for it, and its messages."""

    description: Any | None
    plan: str
    drafts: list[Draft]


Choose = Callable[[Any, Any], str]  # space, description → plan


class Space(Protocol):
    """The server's side of one space: it owns indexes, knows all active points, and holds no subscription.

    `storage`: how messages are stored, by kind; kinds that are not named are stored whole.
    """

    network: NetworkSpace

    @property
    def storage(self) -> Mapping[str, Storage]: ...
    @property
    def plans(self) -> tuple[str, ...]:
        """The ways to make messages, from the most to the least promising; all notify every subscriber of the same."""

    @property
    def visits(self) -> int:
        """Index nodes looked at so far."""

    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None: ...
    def move(self, sid: int, before: Bound, after: Bound) -> None: ...
    def remove(self, sid: int, bound: Bound) -> None: ...
    @property
    def reads(self) -> frozenset[int] | None:
        """The columns of its table that `step` looks at (None: all). An update of others affects no subscription."""

    def take(self, deltas: Sequence[Delta], choose: Choose, among: Sequence[Delta] = ()) -> Iterator[Outcome]:
        """All deltas of one request for this space, in order; an outcome for each, made when it is asked for.

        A space whose messages follow from descriptions alone may describe all deltas at once, before the first is asked for.

        `among`: all deltas of the request on its table, where it takes only those that change a column it reads.

        Otherwise the messages of a delta are made before the next delta is stepped: some types look at their indexes when
        they make messages. The tables hold the rows as of the end of the request already; see `shared/rewound.py`.
        """

    def step(self, delta: Delta) -> Any | None:
        """Take the row's new state into the indexes; describe which subscriptions that affects (None: none)."""

    def messages(self, description: Any, plan: str) -> list[Draft]: ...


_new = tuple.__new__  # a third quicker than calling the class of a named tuple


class SteppedSpace:
    """What most spaces have: deltas are stepped one after the other, and all kinds of messages are stored whole."""

    storage: ClassVar[Mapping[str, Storage]] = {}
    reads: frozenset[int] | None = None

    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        raise NotImplementedError

    def remove(self, sid: int, bound: Bound) -> None:
        raise NotImplementedError

    def move(self, sid: int, before: Bound, after: Bound) -> None:
        self.remove(sid, before)
        self.add([sid], [after])

    def take(self, deltas: Sequence[Delta], choose: Choose, among: Sequence[Delta] = ()) -> Iterator[Outcome]:
        described = self.step_all(deltas)
        return self.outcomes(map(self.step, deltas) if described is None else described, choose)

    def step_all(self, deltas: Sequence[Delta]) -> Sequence[Any | None] | None:
        """As `step`, for all deltas of a request in one call of a compiled structure; None: they are stepped one by one."""
        return None

    def outcomes(self, described: Iterable[Any | None], choose: Choose) -> Iterator[Outcome]:
        """One for each description; the next is asked for when the messages of the one before it are made."""
        messages = self.messages
        for description in described:
            if description is None:
                yield UNAFFECTED
                continue
            plan = choose(self, description)
            yield _new(Outcome, (description, plan, messages(description, plan)))

    def step(self, delta: Delta) -> Any | None:
        raise NotImplementedError

    def messages(self, description: Any, plan: str) -> list[Draft]:
        raise NotImplementedError


UNAFFECTED = Outcome(None, "none", [])


class ReplayStep(NamedTuple):
    """What happened to one subscription at one seq: messages, or a move that found the edge in a state.

    `mark`: of a type that has marks, where the move took it and what it had been notified of by then.
    """

    seq: int
    messages: Sequence[Message]
    bound: Bound
    state: bytes | None = None
    mark: PlaceMark | None = None


ReplayedChanges = list[tuple[int, bytes | None]]  # changes by seq; None where the answer stayed


class Replay(Protocol):
    """How a form takes part in replays; `shared/replay.py` has the ways there are.

    `reads_log`: its changes are found from rows and the event log, by a shadow of its space; else from the messages in the
    outbox. A form that is replayed from messages folds them in order (`gathers` is false), or needs all steps before it
    can say the first change: then `changes` is asked. `stores_states`: what the edge held is stored with every move.
    `looks_back`: what was notified before the first step is looked up in older messages.
    """

    @property
    def reads_log(self) -> bool: ...
    @property
    def gathers(self) -> bool: ...
    @property
    def stores_states(self) -> bool: ...
    @property
    def looks_back(self) -> bool: ...
    def changes(self, steps: Sequence[ReplayStep], state: Any, notified: bytes) -> ReplayedChanges:
        """The changes of some steps, from the edge's state after them or from what was notified before them."""

    def remake(self, kind: str, table: Table, old: Row | None, new: Row | None) -> Draft:
        """A message of a kind that is stored without a body, from the event's rows."""

    def selection(self, table: int, places: Sequence[Any]) -> Boxes:
        """Of a form that reads the log: the rows of its table number `table` that subscriptions at these places need."""


class Scene(NamedTuple):
    """What a picture of an event is drawn from: the rows, the event, and the public ids of subscriptions."""

    rows: Rows
    key: Key
    old: Row | None
    new: Row | None
    id_of: Callable[[int], str]


class Form(Protocol):
    """One statement, recognised and resolved: how to place its subscriptions, answer them and compute their changes."""

    @property
    def type(self) -> str: ...
    @property
    def query(self) -> Query: ...
    @property
    def label(self) -> str: ...
    @property
    def space_label(self) -> str: ...
    @property
    def tables(self) -> tuple[Table, ...]: ...
    @property
    def replay(self) -> Replay: ...
    def bind(self, params: Mapping[str, Any]) -> Bound: ...
    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        """The server's side of the space."""

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject: ...
    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        """The change that takes one answer to the other; None if there is no change to notify of."""

    def state(self, space: Space, bound: Bound) -> Any | None:
        """What the edge must know to fold messages for this subscription; None if messages say all."""

    def change(self, messages: Sequence[Message], bound: Bound, state: Any) -> tuple[bytes | None, Any]:
        """All messages of one seq for one subscription: the change it receives (JSON) or None, and the state after."""

    def opening(self, snapshot: bytes, state: Any) -> JsonObject:
        """The message `state` with which a raw stream begins; of a suspended subscription only the answer is known."""

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        """The messages of one seq as a raw stream gets them, with the change they amount to."""

    def place_in_words(self, bound: Bound) -> JsonObject:
        """Where a subscription is placed (somewhere), in the values of its columns.

        `equal` holds the values that select its messages, `point` the coordinates that their regions must hold; a filter
        has `any` instead: a list of conjunctions, each one text per column.
        """


@runtime_checkable
class PicturedForm(Protocol):
    """A form that can draw an event."""

    @property
    def has_picture(self) -> bool:
        """Whether it has few enough dimensions."""

    def picture(self, space: Any, scene: Scene) -> JsonObject:
        """Axes and panels. Nothing is applied."""


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
class PartedForm(Protocol, metaclass=ByMembers):
    """A form whose space may consist of parts that it shares with other forms."""

    def translated(self, messages: Sequence[Message], state: Any) -> list[Message]:
        """Messages of the parts as messages of the form itself; those that are for other forms alone are left out."""


@runtime_checkable
class FoldedForm(Protocol, metaclass=ByMembers):
    """A form whose answers a client can only fold by what the query says: keys, an order, types."""

    @property
    def folding(self) -> JsonObject:
        """`key`: names of the columns that identify rows or groups; `order`: of ordered rows, the columns in their
        precedence (`column`, `descending`, `nulls_first`, `type`); `type` of distinct values, or of the one value;
        `columns`: name and type of those of an answer, or of the keys of items; `row`: the same of the row of a MIN or MAX.
        """


@runtime_checkable
class AttributedForm(Protocol, metaclass=ByMembers):
    """A form whose subscriptions are placed in their space by the columns of one table."""

    @property
    def attributes(self) -> tuple[int, ...]:
        """The column of each dimension of the space, or of each attribute that its filters may have, by position."""


def folding(form: Form) -> JsonObject:
    """What a client needs to fold the answers of a form, besides the answers themselves; often nothing."""
    return form.folding if isinstance(form, FoldedForm) else {}


def described_columns(columns: Iterable[tuple[str, ColumnType]]) -> list[JsonObject]:
    """Columns of an answer as `FoldedForm.folding` has them."""
    return [{"name": name, "type": kind.name} for name, kind in columns]


@runtime_checkable
class SelectiveForm(Protocol, metaclass=ByMembers):
    """A form that reads only some columns of the rows in memory; deltas have all. Forms of one label read the same."""

    @property
    def columns_read(self) -> frozenset[int] | None:
        """The columns of its table that its space and its answers read from rows; None: all.

        An answer may show others: it reads whole rows by `answer_rows`.
        """


def columns_read(form: Form) -> frozenset[int] | None:
    """The columns of its tables that a form reads from the rows in memory; None: all."""
    return form.columns_read if isinstance(form, SelectiveForm) else None


@runtime_checkable
class MarkedSpace(Protocol, metaclass=ByMembers):
    """A space that knows what its subscriptions were notified of, and gives them a part of their place itself; they may be
    moved to make room for others.

    `looks_back`: what was notified since a mark stands in the messages alone, so that marks must not become too old.
    """

    looks_back: ClassVar[bool]

    def locate(self, sid: int) -> Bound: ...
    def mark(self, sid: int) -> PlaceMark: ...
    def retune(self, sid: int, bound: Bound) -> None:
        """Other radii for a subscription whose conditions stay: what it was notified of stays too.

        They hold from the next event on that concerns one of its rows, whether that changes the value or not.
        """

    def relabelled(self) -> list[int]:
        """The subscriptions moved since the last call."""

    def restore(self, sids: Sequence[int], bounds: Sequence[Bound], marks: Sequence[PlaceMark]) -> None:
        """Put subscriptions at their stored places, with what they were notified of; the space was empty."""


@runtime_checkable
class ItemStateSpace(Protocol, metaclass=ByMembers):
    """A space with something to keep of each item: what changed is written with the batch that changed it."""

    def changed_items(self) -> dict[bytes, bytes | None]:
        """What is to be kept of the items that changed since this was last asked (None: nothing any more)."""

    def restore_items(self, stored: Iterable[bytes]) -> None:
        """What was kept comes back, after the subscriptions."""


@runtime_checkable
class RememberingSpace(Protocol, metaclass=ByMembers):
    """A space that knows more than rows and points say, as what was notified: opposite deltas would not restore it.

    It records in the undo log how each of its changes is taken back: `add`, `move`, `remove`, `take` and its own. When that
    is done, the tables hold the rows as of then. All other spaces are given opposite deltas, and points back.
    """

    undo: UndoLog


@runtime_checkable
class AdaptiveSpace(Protocol, metaclass=ByMembers):
    """A space that may arrange itself anew between two events, by what it counted or by a run that comes into force."""

    def rearrange(self) -> Callable[[], None] | None:
        """Do so where it pays, and edges must be given their states again: what takes it back. None: all stays."""

    def rearrange_by(self, figures: RunFigures) -> Callable[[], None] | None:
        """The same, by a run of the statistics job: at once, or after as many calls of `go_on` as it takes."""

    @property
    def is_preparing(self) -> bool:
        """Whether rows are still to be indexed for that."""

    def go_on(self) -> Callable[[], None] | None:
        """Index some more rows; what takes the new arrangement back, if that was made now."""


@runtime_checkable
class PartedSpace(Protocol, metaclass=ByMembers):
    """A space that consists of others, which take its events: its own messages name their targets."""

    @property
    def parts(self) -> tuple[Part, ...]: ...


def parts_of(space: Space) -> tuple[Part, ...]:
    return space.parts if isinstance(space, PartedSpace) else ()


@runtime_checkable
class SharingSpace(Protocol, metaclass=ByMembers):
    """A space that uses row indexes together with others."""

    def release(self) -> None:
        """It was closed."""

    def hold_again(self) -> None:
        """That is taken back: the rows are as they were then."""


@runtime_checkable
class ArrangedSpace(Protocol, metaclass=ByMembers):
    """A space that was arranged by statistics when it was opened."""

    def arrangement(self) -> JsonObject:
        """How, and which statistic each part of it was chosen by; EXPLAIN shows it."""

    def arrangement_without(self, figures: RunFigures) -> JsonObject | None:
        """How it would be arranged without the run of these figures; None if it cannot be another."""


def is_composed(form: Form) -> bool:
    """Whether several deltas may come to its space at one seq, and the fold must send their net effect once.

    So it is over views, since an event may change many rows of a view, and with `per: transaction`: such a space takes the
    net deltas of a request at the seq of its last event. Each key has at most one delta at a seq.
    """
    return form.query.per == "transaction" or any(isinstance(table, View) for table in form.tables)


class SubscriptionType(Protocol):
    """`takes_notify`: whether subscriptions may say how far a value must move. `pictured`: what of it has a picture."""

    name: str
    takes_notify: bool = False
    pictured: str = ""

    def recognise(self, query: Query, tables: Sequence[Table], notify: JsonObject | None) -> Form | None: ...
    def dimensions(self, form: Any) -> tuple[Dimension, ...]:
        """In which constants the subscriptions of a form of this type differ, for statistics: those of WHERE.

        A type that has others overrides it. A constant that is in the label, as LIMIT, is the same for a whole group and
        is none.
        """
        return compared(form.query, form.tables)

    def describe(self) -> JsonObject:
        """The entry of GET /v1/types."""
