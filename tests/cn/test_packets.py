"""Links over a store that loses, repeats and reorders: each item once, in order. And the control frames of brokers."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cn.model.geometry import BOTTOM, TOP, Extent, Interval
from cn.model.network import Space
from cn.transport.packets import Incoming, Outgoing, read_packet
from prosem.brokers import control
from prosem.engine import commands as c
from prosem.engine.validate import table_definition
from prosem.language.parse import parse
from prosem.types.base import Bound
from prosem.types.registry import recognise
from prosem.values.errors import BusyError, NotFoundError, ProsemError
from prosem.values.model import Statement, Table

encode = msgspec.msgpack.encode


@given(
    st.lists(st.text(max_size=30), max_size=30),
    st.randoms(use_true_random=False),
    st.integers(5, 60),
    st.integers(1, 5),
)
def test_each_item_once_and_in_order(
    items: list[str], rng: random.Random, packet_bytes: int, window: int
) -> None:
    """The store forgets a third of the packets, says so or not, and delivers the others in any order, some twice."""
    outgoing, incoming = Outgoing("a", packet_bytes, window), Incoming()
    waiting, got, stored = list(items), [], []
    for _ in range(10_000):
        if waiting and rng.random() < 0.5:
            outgoing.put(encode(waiting.pop(0)))
        due = outgoing.due()
        for number, data in due if rng.random() < 0.7 else [*due, *outgoing.unconfirmed()]:
            if rng.random() < 0.67:
                stored.append(data)
                if rng.random() < 0.8:
                    outgoing.confirm(number)
        assert len(outgoing.unconfirmed()) <= window
        rng.shuffle(stored)
        if stored:
            data = stored[-1] if rng.random() < 0.2 else stored.pop()
            for body in incoming.take(read_packet(data)):
                got += msgspec.msgpack.decode(body)
        assert got == items[: len(got)]
        if not outgoing.backlog_bytes and not waiting and not stored:
            break
    assert got == items
    assert outgoing.backlog_bytes == 0


def test_a_large_item_is_cut() -> None:
    outgoing, incoming, got = Outgoing("a", packet_bytes=100, window=1000), Incoming(), []
    outgoing.put(encode("x" * 5000))
    packets = outgoing.due()
    assert len(packets) > 50
    for _, data in packets:
        for body in incoming.take(read_packet(data)):
            got += msgspec.msgpack.decode(body)
    assert got == ["x" * 5000]


# -- control frames ------------------------------------------------------------------------------------------------
def tables() -> tuple[Table, Table]:
    columns = [
        {"name": "k", "type": "integer"},
        {"name": "s", "type": "text"},
        {"name": "y", "type": "integer"},
    ]
    parent = table_definition({"name": "t", "columns": columns, "primary_key": ["k"]}, 7)
    heir = {"name": "u", "extends": "t", "columns": [{"name": "z", "type": "integer"}]}
    return parent, table_definition(heir, 8, {"t": parent})


def test_a_form_is_made_again_from_its_statement() -> None:
    for table in tables():
        for sql, params in (
            ("SELECT SUM(y) FROM {} WHERE s >= :a", {"a": "m"}),
            ("SELECT * FROM {} WHERE y < 5 AND s LIKE 'a%' OR k IN (1, 2)", {}),
            ("SELECT y FROM {} WHERE k = :k", {"k": 1}),
        ):
            notify = {"change": 2} if sql.startswith("SELECT y") else None
            query = parse(sql.format(table.name))
            form = recognise(query, [table], notify)
            notice = control.stated(Statement(3, query.sql, notify), form.tables)
            travelled = control.read_notice(control.encode(notice))
            assert travelled == notice
            made = control.form_of(travelled)
            assert (made.type, made.label, made.tables) == (form.type, form.label, form.tables)
            assert made.bind(params) == form.bind(params)


def test_what_is_hosted_travels() -> None:
    (table, _) = tables()
    query = parse("SELECT SUM(y) FROM t WHERE s >= :a")
    form = recognise(query, [table], None)
    bound = form.bind({"a": "m"})
    assert TOP in bound.place  # an end that is missing
    space, statement = Space(5, 2, False), Statement(3, query.sql)
    state = form.unpack_state(b'[3,"4"]')  # type: ignore[attr-defined]
    frame = c.Hosted(1, "sub-1", None, form, space, bound, 9, None, 2, b"{}", True, 77, state, statement)
    notice = control.read_notice(control.encode(control.hosted(frame)))
    assert isinstance(notice, control.Hosted)
    assert control.bound_of(notice.place) == bound
    assert control.unpack_state(form, notice.state) == state
    assert (notice.token, notice.space, notice.seq, notice.after) == (77, space, 9, None)


def test_places_travel() -> None:
    points, filters = Space(1, 2, False), Space(2, 0, False)
    some = ({0: Extent((Interval("a", None, True),), True), 3: Extent((Interval(1, 2),))},)
    for bound, space in (
        (None, points),
        (Bound(b"x", None), points),
        (Bound(b"", (BOTTOM, "z")), points),
        (Bound(b"", some), filters),
        (Bound(b"", ()), filters),
        (Bound(b"x", None), filters),
    ):
        notice = control.Moved(1, control.place_of(bound, space), None)
        travelled = control.read_notice(control.encode(notice))
        assert isinstance(travelled, control.Moved)
        assert control.bound_of(travelled.place) == bound


def test_errors_keep_their_kind() -> None:
    for error in (BusyError("wait"), NotFoundError("none"), ProsemError("odd")):
        made = control.error_of(control.refused(1, error))
        assert (type(made), made.detail) == (type(error), error.detail)
    assert type(control.error_of(control.refused(1, KeyError("x")))) is ProsemError
