"""Multi-stage filtering: weakened filters and events cover the whole ones, the like are together, the silent are lost."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bench import stages as bench
from cn.model.frames import Data, Placed, Staged, decode, encode
from cn.model.geometry import Extent, Interval
from cn.model.message import Message
from cn.model.network import Place, Space
from cn.networks.stage_table import StageTable, kept
from cn.networks.stages import StageRoot, seal, unseal
from cn.simulation.metrics import Meter
from cn.simulation.network import SERVER, Simulated
from cn.simulation.registry import make_simulated
from tests.support.network_driver import concerned
from tests.support.network_examples import CONTENTS, PLACES, SPACES, TOPICS

ORDERS = st.sampled_from([None, (0, 1), (1, 0)])


@given(st.data(), st.sampled_from([SPACES[1], SPACES[2], SPACES[3], SPACES[4]]), st.integers(0, 3), ORDERS)
def test_a_weakened_filter_covers_the_whole_one(
    data: st.DataObject, space: Space, stage: int, order: tuple[int, ...] | None
) -> None:
    order = None if order is None else order[: space.dimensions or 2]
    if space.dimensions == 1:
        order = None
    table, hosted = StageTable(), {}
    for id in range(5):
        place: Place = data.draw(PLACES[space])
        topic = data.draw(st.sampled_from(TOPICS)) if space.dimensions else b""
        hosted[id] = space, topic, place
        table.put(f"link-{id}", f"host-{id}", space, id, topic, place, stage, order)
        table.check()
    message = Message(1, 0, space.id, "some", **data.draw(CONTENTS[space]))
    exact = {f"link-{id}" for id in concerned(hosted, message)}
    found = table.owners(message)
    assert exact <= found
    if stage == 0 and space.dimensions:
        assert exact == found, "nothing is weakened at stage 0"
    staged = seal(Data(7, message, b""), order)
    assert unseal(staged) == Data(7, message)
    opened = kept(len(order) if order else max(2, space.dimensions), stage)
    assert exact <= table.owners(unseal(staged, opened).message), "a weakened event is covered too"
    for id in range(0, 5, 2):
        table.take(f"host-{id}", id)
    table.forget(["host-1", "host-3"])
    table.check()
    assert len(table) == 0


def test_a_stage_opens_only_what_it_filters_on() -> None:
    sealed = seal(Data(1, Message(1, 0, 4, "some", attributes=((7, 8, 9), None), payload=b"rest")))
    spoilt = Staged(1, sealed.head, (*sealed.columns[:2], b"\xc1"), sealed.present, b"rest")
    assert unseal(spoilt, 2).message.attributes == ((7, 8, None), None)
    assert decode(encode(sealed)) == sealed


def equal(*values: int | None) -> tuple[dict[int, Extent], ...]:
    return ({at: Extent((Interval(value, value),)) for at, value in enumerate(values) if value is not None},)


def network(hosts: dict[int, str], **options: Any) -> Simulated:
    brokers = [f"b{number}" for number in range(2 + 4)]
    options = {"fan_out": 2, **options}
    return make_simulated(
        "stages",
        lambda message, ids: None,
        lambda seq: None,
        brokers=brokers,
        host_of=hosts.__getitem__,
        options=options,
    )


def test_like_subscriptions_are_hosted_together_and_wildcards_above() -> None:
    hosts: dict[int, str] = {}
    net = network(hosts)
    places = [
        equal(year, conference, author, author)
        for year in (1, 2, 3)
        for conference in (1, 2)
        for author in (1, 2, 3)
    ]
    for id, place in enumerate(places):
        hosts[id] = bench.seek(net, place)
        net.register(bench.SPACE, id, b"", place)
    for one in range(0, 18, 3):
        assert len({hosts[id] for id in range(one, one + 3)}) == 1, "the same year and conference: one broker"
        assert hosts[one] not in ("b0", "b1", SERVER)
    # The most general open attribute decides: it is used up to a stage, and the one above hosts.
    assert bench.seek(net, equal(None, 1, 1, 1)) == SERVER
    assert bench.seek(net, equal(9, None, 1, 1)) == SERVER
    assert bench.seek(net, equal(9, 9, None, 1)) in ("b0", "b1")
    assert bench.seek(net, equal(9, 9, 9, None)) not in ("b0", "b1", SERVER)


def find(net: Simulated, place: Place, at: str) -> str:
    """Where a place belongs whose subscriber is at a node."""
    root = net.root
    assert isinstance(root, StageRoot)
    number, outs = root.seek(bench.SPACE, b"", place, at)
    net.memory.post(SERVER, outs)
    net.memory.run()
    return root.places_found.pop(number)


def test_a_subscriber_stays_where_it_is_unless_filters_cover_it() -> None:
    hosts = {1: "b3", 2: "b0"}
    net = network(hosts)
    for at in ("b0", "b2", "b5", SERVER):
        assert find(net, equal(7, 7, 7, 7), at) == at, "nothing is known"
    net.register(bench.SPACE, 1, b"", equal(1, 1, 1, 1))
    net.register(bench.SPACE, 2, b"", equal(2, 2, 2, 2))
    for at in ("b0", "b2", "b5", SERVER):
        assert find(net, equal(1, 1, 1, 9), at) == "b3"
        assert find(net, equal(2, 2, 2, 9), at) == "b0", "a broker with others below it hosts too"
        assert find(net, equal(3, 3, 3, 3), at) == at
    assert find(net, equal(1, 9, 9, 9), "b2") == "b2", "below the broker that gets its messages"
    assert find(net, equal(1, 9, 9, 9), "b5") == "b0", "which hosts it itself for a subscriber elsewhere"
    assert find(net, equal(7, 7, None, 7), "b2") == "b0", "the stage above the one that filters on it"
    assert find(net, equal(7, None, 7, 7), "b2") == SERVER


def test_the_order_of_attributes_comes_with_the_places() -> None:
    hosts = {1: "b2", 2: "b2"}
    net = network(hosts, order=lambda space: (3, 2, 1, 0))
    net.register(bench.SPACE, 1, b"", equal(1, 1, 1, 1))
    net.watermark(1)
    meter = Meter(net.memory)
    for seq, vector in ((2, (1, 1, 1, 9)), (3, (9, 9, 9, 1))):
        net.inject(Message(seq, 0, 1, "some", attributes=(vector, None)))
        net.watermark(seq)
    assert 2 not in meter.events, "the server filters on the last attribute, which is most general"
    assert meter.events[3].overlay_hops == 1, "and the next stage on the one before it too"
    assert find(net, equal(9, 1, 1, 1), "b5") == "b2"
    assert find(net, equal(1, 1, 1, 9), "b5") == "b5"


FILTERS = st.dictionaries(st.integers(0, 2), st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=3)


def as_filter(sides: dict[int, tuple[int, int]]) -> tuple[dict[int, Extent], ...]:
    return ({at: Extent((Interval(low, low + width),)) for at, (low, width) in sides.items()},)


@given(st.lists(FILTERS, max_size=6), FILTERS, st.integers(1, 3))
def test_the_covering_filter_is_the_strongest_one(
    hosted: list[dict[int, tuple[int, int]]], sought: dict[int, tuple[int, int]], stage: int
) -> None:
    order = (2, 0, 1)
    table = StageTable()
    table.put("link", "host", Space(9, 3, True), 99, b"", (1, 2, 3), stage)  # points are in the same table
    for id, sides in enumerate(hosted):
        table.put(f"link-{id}", f"host-{id}", bench.SPACE, id, b"", as_filter(sides), stage, order)
    left = order[: kept(3, stage)]
    covering = {
        f"link-{id}": sum(at in sides for at in left)
        for id, sides in enumerate(hosted)
        if all(
            at in sought and low <= sought[at][0] and sum(sought[at]) <= low + width
            for at, (low, width) in sides.items()
            if at in left
        )
    }
    found = table.covering(bench.SPACE, b"", as_filter(sought))
    assert (found is None) == (not covering)
    if found is not None:
        assert covering[found] == max(covering.values())


def test_a_broker_whose_lease_is_over_leaves_the_network() -> None:
    hosts = {1: "b2", 2: "b3"}
    net = network(hosts, ttl=10.0)
    memory, root = net.memory, net.root
    assert isinstance(root, StageRoot)
    for id in hosts:
        net.register(bench.SPACE, id, b"", equal(id, id, id, id))
    net.watermark(1)
    meter = Meter(memory)

    def pass_time(until: float) -> None:
        while memory.now < until:
            memory.tick()
            memory.run(memory.now + 5.0)

    pass_time(100.0)
    assert root.lost == [], "who renews stays"
    memory.crash("b2")
    pass_time(memory.now + 25.0)
    assert root.lost == []
    pass_time(memory.now + 25.0)
    assert root.lost == ["b2"]
    assert root.parents.keys() == {"b0", "b1", "b3", "b4", "b5"}
    for seq, id in ((2, 1), (3, 2)):
        memory.post(SERVER, root.inject(Message(seq, 0, 1, "some", attributes=((id,) * 4, None))))
        memory.run()
    assert meter.events[3].overlay_hops == 2
    assert 2 not in meter.events, "nobody asks for it any more"


def test_leases_that_are_over_directly_below_the_server() -> None:
    net = network({}, ttl=10.0)
    memory, root = net.memory, net.root
    assert isinstance(root, StageRoot)
    for broker in ("b0", "b1"):
        memory.crash(broker)
    while memory.now < 60.0:
        memory.tick()
        memory.run(memory.now + 5.0)
    assert root.lost == ["b0", "b1"]
    assert not root.parents


def test_the_caller_may_remove_a_broker_whose_lease_is_over() -> None:
    expired: list[str] = []
    root = StageRoot("server", {"ttl": 10, "expired": expired.append})
    for broker in ("a", "b"):
        list(root.join(broker, "server"))
    for now in (0.0, 31.0, 32.0):
        list(root.tick(now))
    assert expired == ["a", "b"], "once, not at every tick"
    assert root.parents.keys() == {"a", "b"}
    kept, _ = root.lose("a", {})
    assert not kept
    assert root.parents.keys() == {"b"}


def test_the_measures_of_one_event() -> None:
    hosts = {1: "b2", 2: "b3", 3: "b5"}
    net = network(hosts)
    for id in hosts:
        net.register(bench.SPACE, id, b"", equal(1, 1, 1, 1))
    meter = Meter(net.memory, ip_hops=lambda sender, to: 3)
    sent: list[int] = []
    watch = net.memory.watch
    net.memory.watch = lambda a, b, frame: (
        watch(a, b, frame) if watch else None,
        None
        if isinstance(frame, Placed)
        else sent.append(len(encode(frame)))
        if isinstance(frame, Staged)
        else None,
    )[0]
    net.inject(Message(1, 0, 1, "some", attributes=((1, 1, 1, 1), None)))
    net.watermark(1)
    event = meter.events[1]
    assert net.parents == {"b0": SERVER, "b1": SERVER, "b2": "b0", "b3": "b0", "b4": "b1", "b5": "b1"}
    assert (event.overlay_hops, event.ip_hops, event.hop_latency) == (5, 15, 2)
    assert (event.max_node_stress, dict(event.stress)) == (2, {SERVER: 2, "b0": 2, "b1": 1})
    assert event.bytes == sum(sent)
    assert event.traffic_bytes == 3 * sum(sent)


def test_the_bench_in_miniature() -> None:
    for placement, even in bench.RUNS.values():
        found = bench.measure(60, 40, placement, even)
        assert [stage["nodes"] for stage in found["stages"]] == [60, 1 * 100, 10, 1]
        assert 0 < found["rlc_total"] < 3
        assert 0 < found["mr"] <= 1
        assert (0 if even else 1e-9) <= found["selectivity"] < 1
