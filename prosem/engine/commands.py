"""Everything that goes through the engine's one queue, and the frames it leaves for the network side.

A command has its place in the order; its answer waits for the commit of that place. Frames are what the loop thread must do
after the commit, in the same order: so snapshot and stream meet without a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cn.model.message import Message
from cn.model.network import Space as NetworkSpace
from optimizer.choose import Prepared
from prosem.engine.views import ViewBuild
from prosem.language.syntax import Query
from prosem.types.base import Bound, Form, Part
from prosem.values.access import NO_PREDICATES, WHOLE, Predicates, Scope
from prosem.values.model import JsonObject, Statement, Table, View
from prosem.values.statistics import NO_FIGURES, RunFigures


@dataclass(frozen=True, slots=True)
class CreateTable:
    body: Any
    scope: Scope = WHOLE


@dataclass(frozen=True, slots=True)
class DropTable:
    name: str
    scope: Scope = WHOLE


@dataclass(frozen=True, slots=True)
class PrepareView:
    """Define a view; the answer is a `PreparedView`."""

    name: str
    sql: str
    scope: Scope = WHOLE


@dataclass(frozen=True, slots=True)
class InstallView:
    """A view that was built aside takes its place in the order."""

    build: ViewBuild


@dataclass(frozen=True, slots=True)
class DropView:
    name: str
    scope: Scope = WHOLE


@dataclass(frozen=True, slots=True)
class Idempotency:
    """The key of a request (hashed), and for a body of many batches what was committed before this one."""

    key: str
    lines_before: int = 0
    first_seq: int | None = None
    done: bool = True
    errors: tuple[JsonObject, ...] = ()
    """why the body was taken no further than here; a repeated answer says so too"""
    batches: tuple[int, ...] | None = None
    """where the batches before this one end; None: the body is one request"""


@dataclass(frozen=True, slots=True)
class Publish:
    table: str
    events: Sequence[Any]
    idempotency: Idempotency | None = None
    at: str = "/events"
    scope: Scope = WHOLE
    size_bytes: int = 0  # of the request's body; 0: not known


@dataclass(frozen=True, slots=True)
class Transact:
    """Events of any tables as one request; each names its table."""

    events: Sequence[Any]
    idempotency: Idempotency | None = None
    scope: Scope = WHOLE
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Many subscriptions of one statement; each row is (chosen id or None, params)."""

    query: Query
    notify: JsonObject | None
    rows: Sequence[tuple[str | None, JsonObject]]
    durable: bool = True
    batch: bool = False
    scope: Scope = WHOLE
    predicates: Predicates = field(default_factory=lambda: NO_PREDICATES)
    most: int | None = None  # subscriptions that the key may have


@dataclass(frozen=True, slots=True)
class Patch:
    id: str
    params: JsonObject | None = None
    active: bool | None = None
    scope: Scope = WHOLE


@dataclass(frozen=True, slots=True)
class Delete:
    id: str
    scope: Scope = WHOLE


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete an ephemeral subscription without streams; it may be gone already."""

    sid: int


@dataclass(frozen=True, slots=True)
class Expire:
    """Delete ephemeral subscriptions that no stream was attached to in time; True if there may be more of them."""


@dataclass(frozen=True, slots=True)
class Result:
    id: str
    scope: Scope = WHOLE
    ahead: bool = False  # before what waits: its caller knows of nothing that is not committed


@dataclass(frozen=True, slots=True)
class Attach:
    """Start a stream for `sink` after this seq (None: with a snapshot); the sink knows it by its token."""

    id: str
    after: int | None
    sink: Any
    token: int = 0
    scope: Scope = WHOLE
    timeline: str | None = None  # that `after` is of; None: the current one
    follows: bool = False  # the client attaches to another broker if it is named one


@dataclass(frozen=True, slots=True)
class Inspect:
    """A look at the state between two commands. It changes nothing, and must be quick: events wait for it."""

    look: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Explain:
    """What an event would cost under each plan; with `analyze` also what it does cost, in a dry run."""

    table: str
    event: Any
    analyze: bool = False
    scope: Scope = WHOLE


@dataclass(frozen=True, slots=True)
class Weigh:
    """Other weights of the optimizer, by metric; those not given stay."""

    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Adopt:
    """Estimators built from a run of the statistics job, and how it is shown (None: no run is in force).

    `figures` are the other figures of the run.
    """

    run: JsonObject | None
    prepared: Prepared
    figures: RunFigures = NO_FIGURES


Command = (
    CreateTable
    | DropTable
    | PrepareView
    | InstallView
    | DropView
    | Publish
    | Transact
    | Subscribe
    | Patch
    | Delete
    | Forget
    | Expire
    | Result
    | Attach
    | Inspect
    | Explain
    | Weigh
    | Adopt
)


# -- frames --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Hosted:
    """A stream starts: the place of the subscription as of `seq`; `snapshot` is its answer, encoded."""

    sid: int
    id: str
    sink: Any
    form: Form
    space: NetworkSpace
    bound: Bound | None  # None while it is suspended
    seq: int
    after: int | None
    created: int
    snapshot: bytes
    durable: bool
    token: int
    state: Any
    statement: Statement
    timeline: str = ""
    asked: Attach | None = None  # what it answers, if the client follows redirects
    parts: tuple[Part, ...] = ()  # of its space


@dataclass(frozen=True, slots=True)
class Moved:
    """A subscription changed its place (None: it is suspended), and with it the state at the edge."""

    sid: int
    bound: Bound | None
    state: Any


@dataclass(frozen=True, slots=True)
class Gone:
    sid: int


@dataclass(frozen=True, slots=True)
class Rearranged:
    """What edges hold of the subscriptions of a space is another from here on: their streams are attached again."""

    space: int


@dataclass(frozen=True, slots=True)
class Closed:
    """A space that no subscription uses any more; its number is not given again."""

    space: int


Frame = Message | Hosted | Moved | Gone | Rearranged | Closed


@dataclass(slots=True)
class Created:
    """The answer of CreateTable."""

    table: Table
    is_new: bool


@dataclass(slots=True)
class PreparedView:
    """The answer of PrepareView: a view that exists, or one that is to be built (`build`)."""

    view: View
    build: ViewBuild | None
