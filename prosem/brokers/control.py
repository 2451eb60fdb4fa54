"""The frames about streams between a server and its brokers.

Up go requests: attach a subscription, or leave one without listeners. Down come, in order with the messages,
the frames that the server's own edge gets: a subscription is hosted, has moved, is gone; and what a replay brings. A form is
a pure function of its statement and tables, so these travel once for each broker, before the first subscription of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from cn.model.frames import read_extreme, write_extreme
from cn.model.geometry import Extent
from cn.model.message import Sent
from cn.model.network import Space
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.store.catalog import table_from
from prosem.types.base import Bound, Form, PackedForm, Part
from prosem.values import errors
from prosem.values.columns import column_type
from prosem.values.errors import ProsemError
from prosem.values.model import Column, JsonObject, Statement, Table, View
from prosem.values.numerics import numeric_bounds, unconstrained_numeric
from prosem.views.subscription import recognise


# -- up ------------------------------------------------------------------------------------------------------------
class Attach(Sent, frozen=True, tag="attach"):
    """Start a stream after this seq (None: with a snapshot). The token is never used again by this broker.

    `tenant`, `key` and `own` are the scope of the key that the listener came with: the broker has asked the server whose
    it is. `timeline` is the one that `after` is of. `follows`: the client takes a redirect for an answer.
    """

    token: int
    id: str
    after: int | None
    tenant: str
    key: int
    own: bool
    timeline: str | None = None
    follows: bool = False


class Leave(Sent, frozen=True, tag="leave"):
    """A subscription has no listeners here; it had last been hosted by the answer to this token."""

    sid: int
    token: int


Request = Attach | Leave


def attach(token: int, command: c.Attach) -> Attach:
    return Attach(
        token,
        command.id,
        command.after,
        *command.scope,
        timeline=command.timeline,
        follows=command.follows,
    )


# -- down ----------------------------------------------------------------------------------------------------------
class Place(Sent, frozen=True):
    """A `Bound`: a point, filters, or neither."""

    topic: bytes
    point: tuple[Any, ...] | None = None
    filters: tuple[dict[int, Extent], ...] | None = None
    others: tuple[bytes, ...] = ()


class StatedTable(Sent, frozen=True):
    """A table or a view as a broker needs it; `bounds` are those of each column's type, if it is a plain numeric."""

    id: int
    tenant: str
    definition: JsonObject
    is_view: bool = False
    bounds: tuple[tuple[int, int] | None, ...] = ()


class Stated(Sent, frozen=True, tag="stated"):
    """A statement and the tables in its FROM, each after the one it extends."""

    statement: int
    sql: str
    notify: JsonObject | None
    tables: tuple[StatedTable, ...]
    per: str = "event"


class Hosted(Sent, frozen=True, tag="hosted"):
    """The answer to an Attach: see `prosem.engine.commands.Hosted`."""

    token: int
    sid: int
    id: str
    statement: int
    space: Space
    place: Place | None
    seq: int
    after: int | None
    created: int
    snapshot: bytes
    durable: bool
    state: bytes | None
    timeline: str = ""
    parts: tuple[Part, ...] = ()


class Moved(Sent, frozen=True, tag="moved"):
    sid: int
    place: Place | None
    state: bytes | None


class Rearranged(Sent, frozen=True, tag="rearranged"):
    """What edges hold of a space is of no use any more: its streams are attached again."""

    space: int


class Gone(Sent, frozen=True, tag="gone"):
    sid: int


class Refused(Sent, frozen=True, tag="refused"):
    """An Attach failed."""

    token: int
    code: str
    detail: str


class Redirected(Sent, frozen=True, tag="redirected"):
    """The answer to an Attach that follows redirects: the client is to attach at this address."""

    token: int
    url: str


class Replayed(Sent, frozen=True, tag="replayed"):
    """Changes of the past for the stream of this token. After the last ones it is up to date (`done`), or must be
    attached again after its last seq (`lags`)."""

    token: int
    changes: tuple[tuple[int, bytes], ...]
    done: bool = False
    lags: bool = False


Notice = Stated | Hosted | Moved | Rearranged | Gone | Refused | Redirected | Replayed

encode = msgspec.msgpack.Encoder(enc_hook=write_extreme).encode
read_notice = msgspec.msgpack.Decoder(Notice, ext_hook=read_extreme).decode
read_requests = msgspec.msgpack.Decoder(list[Request]).decode


def place_of(bound: Bound | None, space: Space) -> Place | None:
    if bound is None:
        return None
    if bound.place is None:
        return Place(bound.topic)
    if space.dimensions:
        return Place(bound.topic, point=tuple(bound.place), others=bound.others)
    return Place(bound.topic, filters=tuple([dict(one) for one in bound.place]))


def bound_of(place: Place | None) -> Bound | None:
    if place is None:
        return None
    return Bound(place.topic, place.point if place.filters is None else place.filters, place.others)


# -- forms ---------------------------------------------------------------------------------------------------------
def stated(statement: Statement, tables: Sequence[Table]) -> Stated:
    """What a broker needs to make the form of a statement."""
    known: dict[int, Table] = {}
    for table in tables:
        for named in table.inputs if isinstance(table, View) and table.is_unnamed else (table,):
            for one in (*reversed([*named.ancestors]), named):
                known[one.id] = one
    described = tuple(map(_stated_table, known.values()))
    return Stated(statement.id, statement.sql, statement.notify, described, statement.per)


def _stated_table(table: Table) -> StatedTable:
    bounds = tuple(numeric_bounds(column.type) for column in table.columns)
    is_view = isinstance(table, View)
    return StatedTable(table.id, table.tenant, table.definition(), is_view, bounds if is_view else ())


def _table(stated: StatedTable, known: Sequence[Table]) -> Table:
    if not stated.is_view:
        return table_from(stated.id, stated.tenant, stated.definition, known)
    columns = tuple(
        Column(
            one["name"],
            column_type(one["type"]) if bounds is None else unconstrained_numeric(*bounds),
            one["nullable"],
        )
        for one, bounds in zip(stated.definition["columns"], stated.bounds, strict=True)
    )
    key = tuple(stated.definition["primary_key"])
    return View(stated.id, stated.definition["name"], columns, key, stated.tenant)


def form_of(notice: Stated) -> Form:
    """The form as the server has it."""
    tables: list[Table] = []
    for stated in notice.tables:
        tables.append(_table(stated, tables))
    query = replace(parse(notice.sql), per=notice.per)
    return recognise(query, {table.name: table for table in tables}, notice.notify)


def pack_state(form: Form, state: Any) -> bytes | None:
    """The state at the edge; forms that keep none in a shape of their own keep bytes."""
    if isinstance(form, PackedForm):
        return None if state is None else form.pack_state(state)
    assert state is None or isinstance(state, bytes), f"{form.type} keeps a state that cannot be sent"
    return state


def unpack_state(form: Form, packed: bytes | None) -> Any:
    return form.unpack_state(packed) if isinstance(form, PackedForm) and packed is not None else packed


def hosted(frame: c.Hosted) -> Hosted:
    """The frame of the server as it travels."""
    return Hosted(
        frame.token,
        frame.sid,
        frame.id,
        frame.statement.id,
        frame.space,
        place_of(frame.bound, frame.space),
        frame.seq,
        frame.after,
        frame.created,
        frame.snapshot,
        frame.durable,
        pack_state(frame.form, frame.state),
        frame.timeline,
        frame.parts,
    )


# -- errors --------------------------------------------------------------------------------------------------------
def refused(token: int, error: BaseException) -> Refused:
    if isinstance(error, ProsemError):
        return Refused(token, error.code, error.detail)
    return Refused(token, ProsemError.code, f"internal error: {error!r}")


def error_of(notice: Refused) -> ProsemError:
    """The error as the server raised it."""
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ProsemError)
    ]
    kind = next((kind for kind in kinds if kind.code == notice.code), ProsemError)
    return kind(notice.detail)
