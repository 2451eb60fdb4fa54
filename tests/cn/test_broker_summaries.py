"""Summaries: a bound covers all it is made of, whatever comes and goes, and a link forgets what nobody asks for."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cn.model.geometry import Extent, Filter, Interval
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.cbn_summary import SummaryNode
from cn.networks.lub import VALUES, Aggregate, Lub, as_filters, may_concern
from cn.simulation.registry import make_simulated
from tests.support.network_driver import concerned

codes = st.integers(0, 6)


@st.composite
def extents(draw: st.DrawFn) -> Extent:
    low, high = sorted([draw(codes), draw(codes)])
    bare = draw(st.integers(0, 5))
    whole = Interval(None if bare == 0 else low, None if bare == 1 else high)
    return Extent((whole,) if draw(st.booleans()) else (Interval(low, low),), draw(st.booleans()))


filters: st.SearchStrategy[dict[int, Extent]] = st.dictionaries(st.integers(0, 2), extents(), max_size=3)
rows = st.tuples(*[st.none() | codes] * 3)


def holds(one: Filter, row: tuple[Any, ...]) -> bool:
    return all(row[at] in extent for at, extent in one.items())


@given(st.lists(st.tuples(st.booleans(), filters), max_size=30), st.lists(rows, min_size=5, max_size=20))
def test_a_bound_covers_what_it_is_made_of(
    changes: list[tuple[bool, dict[int, Extent]]], asked: list[tuple[Any, ...]]
) -> None:
    lub, few, many, model = Lub(), Aggregate(3), Aggregate(1000), list[dict[int, Extent]]()
    for adding, one in changes:
        if adding or not model:
            model.append(one)
            lub.add(one)
            few.add([one])
            many.add([one])
        else:
            gone = model.pop(len(one) % len(model))
            lub.remove(gone)
            few.remove([gone])
            many.remove([gone])
        few.check()
        many.check()
    fresh = Lub()
    for one in model:
        fresh.add(one)
    assert lub.bound() == fresh.bound(), "what has gone leaves no trace"
    assert len(lub) == len(model)
    for row in asked:
        matched = any(holds(one, row) for one in model)
        message = Message(1, 0, 1, "some", attributes=(row, None))
        assert may_concern(many.summary(), message) == matched, "a disjunction is exact"
        assert may_concern(few.summary(), message) >= matched
        if matched:
            assert holds(lub.bound(), row)


def test_a_bound_is_the_least_one() -> None:
    lub = Lub()
    lub.add({0: Extent((Interval(2, 4),)), 1: Extent((Interval(7, 7),))})
    lub.add({0: Extent((Interval(3, 9),)), 1: Extent((Interval(5, 5),), null=True)})
    assert lub.bound() == {
        0: Extent((Interval(2, 9),)),
        1: Extent((Interval(5, 5), Interval(7, 7)), null=True),
    }
    lub.change(0, Extent((Interval(3, 9),)), Extent((Interval(3, 3),)))
    assert lub.bound()[0] == Extent((Interval(2, 4),))
    for value in range(VALUES + 1):
        lub.add({0: Extent((Interval(3, 3),)), 1: Extent((Interval(100 + value, 100 + value),))})
    assert lub.bound()[1] == Extent((Interval(5, 100 + VALUES),), null=True)


@given(
    st.sampled_from([b"", b"tech"]), st.tuples(codes, codes), st.tuples(codes, codes, codes, codes), st.data()
)
def test_a_point_as_a_filter_is_found_by_the_regions_that_hold_it(
    topic: bytes, point: tuple[int, int], ends: tuple[int, int, int, int], data: st.DataObject
) -> None:
    space = Space(1, 2, True)
    a, b, c, d = ends
    message = Message(
        1, 0, 1, "some", topic=b"tech", region=((Interval(a, b), Interval(c, d, data.draw(st.booleans()))),)
    )
    found = bool(concerned({1: (space, topic, point)}, message))
    assert may_concern(as_filters(space, topic, point), message) == found


def test_a_link_forgets_what_nobody_below_asks_for() -> None:
    space = Space(1, 1, True)
    delivered: list[Any] = []
    network = make_simulated(
        "cbn",
        lambda message, ids: delivered.append([*map(int, ids)]),
        lambda seq: None,
        brokers=["a", "b", "c", "d"],
        host_of=lambda id: "d",
        options={"fan_out": 1, "lub": True, "threshold": 2},
    )
    assert network.parents == {"a": "server", "b": "a", "c": "b", "d": "c"}
    region = lambda low, high: ((Interval(low, high),),)
    seq = 0

    def send(low: int, high: int) -> int:
        """How many links a message to these values passes."""
        nonlocal seq
        before = sum(link["messages"] for link in network.links())
        seq += 1
        network.inject(Message(seq, 0, 1, "some", region=region(low, high)))
        network.watermark(seq)
        return sum(link["messages"] for link in network.links()) - before

    for id, place in enumerate([10, 20, 30, 40]):
        network.register(space, id, b"", (place,))
    assert send(20, 20) == 4
    assert send(50, 60) == 0
    network.move(space, 3, b"", (35,))
    assert send(36, 50) == 4, "the old place is given up only when the brokers below have said so"
    assert [send(36, 50) for _ in range(4)][-1] == 0
    for id in range(4):
        network.remove(id)
    for _ in range(4):
        send(0, 0)
    assert send(0, 100) == 0
    server = network.root
    assert isinstance(server, SummaryNode)
    assert server.summary(1) == ()
    assert delivered == [[1]]
