"""Redirects without processes: which broker is named, when none is, and what happens when no answer comes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.broker.process import Broker
from api.server.settings import BrokerSettings
from cn.model.geometry import Extent, Interval
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.stages import STAGES
from cn.networks.unicast import UNICAST
from optimizer.cost import Weights
from optimizer.plan import Estimate
from prosem.brokers.assignment import MARGIN, WINDOW, Assignment
from prosem.brokers.member import Member, RemoteSink
from prosem.brokers.redirects import PROMISE_S, ROOM, SEEK_S, Redirects
from prosem.brokers.ways import Ways
from prosem.engine import commands as c
from prosem.engine.traffic import Traffic
from prosem.types.base import Bound, NetworkPlace, Part

SPACE = Space(7, 1, True)
BROKERS = ("a", "b", "c")
REGIONS = st.tuples(st.integers(0, 9), st.integers(0, 9), st.sets(st.sampled_from(BROKERS)))


def placed(sid: int, point: int) -> list[NetworkPlace]:
    return [NetworkPlace(SPACE, sid, b"", (point,))]


def region(low: int, high: int) -> Message:
    return Message(1, 0, SPACE.id, "minimum", region=((Interval(low, high),),))


@given(
    st.lists(REGIONS, max_size=12),
    st.integers(0, 9),
    st.sampled_from(BROKERS),
    st.tuples(*(st.floats(0, 2000),) * 3),
    st.sampled_from([0.0, 1.0, 100.0]),
)
def test_a_subscription_moves_to_the_cheapest_broker_that_spares_copies(
    window: list[tuple[int, int, set[str]]],
    point: int,
    here: str,
    latencies: tuple[float, ...],
    response: float,
) -> None:
    traffic = Traffic()
    traffic.copy_us, traffic.weights = 20.0, Weights(response_time=response)
    ways = Ways("server", traffic)
    own_us = dict(zip(BROKERS, latencies, strict=True))
    ways.learn(dict.fromkeys(BROKERS, "server"), own_us, {}, 0.0)
    assignment = Assignment(ways, traffic)
    for low, high, hosts in window:
        assignment.add(region(low, high), hosts)
    others = [broker for broker in BROKERS if broker != here]
    found = assignment.best(placed(1, point), here, others)

    matching = [hosts for low, high, hosts in window if low <= point <= high]
    copies = {broker: sum(broker not in hosts for hosts in matching) for broker in BROKERS}

    def cost(broker: str) -> float:
        share = copies[broker] / len(matching)
        return traffic.weights.cost(Estimate(20 * share, round(own_us[broker], 1), 60 * share, 60 * share, 1))

    better = [
        broker
        for broker in others
        if matching and copies[broker] < copies[here] and cost(broker) <= MARGIN * cost(here)
    ]
    if not better:
        assert found is None
    else:
        assert found is not None
        assert abs(cost(found) - min(map(cost, better))) < 1e-6


def test_of_brokers_that_spare_the_same_copies_the_nearer_one_is_named() -> None:
    """Latency decides if it counts: at weight 0 the first of them is as good."""
    for response, wanted in ((0.0, "b"), (1.0, "c")):
        traffic = Traffic()
        traffic.weights = Weights(response_time=response)
        ways = Ways("server", traffic)
        ways.learn(dict.fromkeys(BROKERS, "server"), {"a": 100.0, "b": 900.0, "c": 300.0}, {}, 0.0)
        assignment = Assignment(ways, traffic)
        for _ in range(4):
            assignment.add(region(0, 9), ["b", "c"])
        assert assignment.best(placed(1, 5), "a", ["b", "c"]) == wanted
        ways.learn(dict.fromkeys(BROKERS, "server"), {"a": 100.0, "b": 90_000.0, "c": 90_000.0}, {}, 0.0)
        assert assignment.best(placed(1, 5), "a", ["b", "c"]) == (None if response else "b"), "too far"


def test_messages_to_names_count_for_those_they_name() -> None:
    traffic = Traffic()
    assignment = Assignment(Ways("server", traffic), traffic)
    assignment.add(Message(1, 0, SPACE.id, "minimum", targets=(4, 5)), ["b"])
    assert assignment.best(placed(5, 1), "a", ["b", "c"]) == "b"
    assert assignment.best(placed(6, 1), "a", ["b", "c"]) is None
    assignment.forget(SPACE.id)
    assert assignment.best(placed(5, 1), "a", ["b", "c"]) is None


def test_the_places_of_those_named_stand_for_the_region_of_a_message() -> None:
    filters, traffic = Space(8, 0, False), Traffic()
    assignment = Assignment(Ways("server", traffic), traffic)

    def between(sid: int, low: int, high: int) -> NetworkPlace:
        return NetworkPlace(filters, sid, b"", ({0: Extent((Interval(low, high),))},))

    assignment.add(Message(1, 0, 8, "row", targets=(4,)), ["b"], [between(4, 10, 20)])
    for low, high, best in ((12, 15, "b"), (0, 30, "b"), (15, 30, None), (40, 50, None)):
        assert assignment.best([between(9, low, high)], "a", ["b", "c"]) == best
    assert assignment.best([NetworkPlace(filters, 9, b"", None)], "a", ["b", "c"]) is None


def test_the_parts_of_a_join_count_together() -> None:
    """By the messages of each: of a busy part those that the others have had meanwhile count, and none before."""
    traffic, other = Traffic(), Space(8, 1, True)
    assignment = Assignment(Ways("server", traffic), traffic)
    places = [*placed(1, 5), NetworkPlace(other, 1 << 40 | 1, b"", (7,))]
    for seq in range(3):
        assignment.add(Message(seq, 0, 7, "upsert", region=((Interval(5, 5),),)), ["b"])
    assert assignment.best(places, "a", ["b", "c"]) == "b"
    assignment.add(Message(3, 0, 8, "upsert", targets=(1 << 40 | 1,)), ["c"])
    assert assignment.best(places, "a", ["b", "c"]) == "b"
    for seq in range(4, 4 + WINDOW):
        assignment.add(Message(seq, 0, 8, "upsert", region=((Interval(7, 7),),)), ["c"])
    assert assignment.best(places, "a", ["b", "c"]) == "c"
    assert assignment.best(places[:1], "a", ["b", "c"]) == "b"


class Made:
    """Three brokers below a server, the redirects and what became of attaches."""

    def __init__(self, scheme: Any = UNICAST, *, is_used: bool = True) -> None:
        self.members = {
            name: Member(name, name, "", 1 << 20, "server", 3, f"http://{name}") for name in BROKERS
        }
        traffic = Traffic()
        self.served: list[str] = []
        self.sent: dict[str, str] = {}
        self.redirects = Redirects(
            self.members,
            Ways("server", traffic),
            traffic,
            lambda frame: self.served.append(frame.id),
            lambda frame, to: self.sent.__setitem__(frame.id, to.advertised),
            is_used=is_used,
        )
        self.root = scheme.root("server", {"found": self.redirects.found})
        self.posted: list[Any] = []
        for name in BROKERS:
            list(self.root.join(name, "server"))

    def attach(
        self,
        id: str,
        point: tuple[int, ...] | None,
        here: str,
        *,
        follows: bool = True,
        parts: tuple[Part, ...] = (),
    ) -> bool:
        sink = RemoteSink(self.members[here])
        asked = c.Attach(id, None, sink, 1, follows=True) if follows else None
        bound = None if point is None else Bound(b"", point)
        frame: Any = c.Hosted(
            int(id),
            id,
            sink,
            None,
            SPACE,
            bound,
            1,
            None,
            1,
            b"",
            True,
            1,
            None,
            None,
            "",
            asked,  # type: ignore[arg-type]
            parts=parts,
        )
        return self.redirects.take(
            frame, self.root, lambda outs: len(self.posted.extend(outs) or self.posted)
        )

    def place(self, host: str, id: int, point: int) -> None:
        list(self.root.place(host, SPACE, id, b"", (point,)))


def interested() -> Made:
    """Messages around 5 go to b, and to no other."""
    made = Made()
    made.place("b", 1, 5)
    assert not made.attach("2", (9,), "a"), "nothing is known before a client has asked"
    for _ in range(3):
        made.redirects.learn(region(4, 6), made.root, lambda sid: None)
    return made


def test_clients_that_do_not_follow_and_places_without_interest_stay() -> None:
    made = interested()
    assert not made.attach("3", (5,), "a", follows=False)
    assert not made.attach("4", None, "a"), "a suspended one is nowhere"
    assert not made.attach("5", (5,), "b"), "it is there"
    assert not made.attach("6", (9,), "a")
    assert made.attach("7", (5,), "a")
    assert made.sent == {"7": "http://b"}
    assert made.redirects.count == 1
    off = Made(is_used=False)
    assert not off.attach("3", (5,), "a")


def test_no_client_is_sent_to_a_broker_that_is_full_or_has_no_address() -> None:
    made = interested()
    b = made.members["b"]
    b.advertised = ""
    assert not made.attach("3", (5,), "a")
    b.advertised, b.backlog_bytes = "http://b", lambda: 2 << 20
    assert not made.attach("3", (5,), "a"), "it does not keep up"
    b.backlog_bytes = lambda: 0
    b.tokens = dict.fromkeys(range(100, 100 + 2 * ROOM - 1), 1)  # half of them is its share
    assert made.attach("3", (5,), "a")
    assert not made.attach("4", (5,), "a"), "the one that was sent there counts already"
    made.redirects.tick(0.0)
    assert not made.attach("4", (5,), "a")
    made.redirects.tick(float("inf"))
    assert PROMISE_S > 0
    assert not b.promised, "it has not come"
    assert made.attach("4", (5,), "a")


def test_a_walk_that_nobody_answers_ends_where_the_client_is() -> None:
    made = Made(STAGES)
    made.place("b", 1, 5)
    assert made.attach("2", (5,), "a")
    ((to, frame),) = made.posted
    assert (to, frame.at) == ("b", "a")
    made.redirects.tick(0.0)
    assert not made.served
    made.redirects.tick(float("inf"))
    assert SEEK_S > 0
    assert made.served == ["2"]
    made.redirects.found(frame.number, "b")  # late
    assert made.served == ["2"]
    assert not made.sent
    assert made.attach("3", (5,), "a")
    made.redirects.found(made.posted[-1][1].number, "b")
    assert made.sent == {"3": "http://b"}
    assert made.attach("4", (5,), "a")
    made.redirects.found(made.posted[-1][1].number, "gone")
    assert made.served == ["2", "4"]


def test_a_join_of_several_tables_goes_where_most_of_its_parts_belong() -> None:
    made = Made(STAGES)
    spaces = [Space(number, 1, True) for number in (11, 12, 13)]
    parts = tuple(Part(number, space, (0,)) for number, space in enumerate(spaces, 1))
    for host, some in (("b", parts[:2]), ("c", parts[2:])):
        for part in some:
            list(made.root.place(host, part.space, part.id(1), b"", (5,)))
    assert made.attach("2", (5,), "a", parts=parts)
    walks = [(to, frame.number) for to, frame in made.posted]
    assert sorted(to for to, _ in walks) == ["b", "b", "c"]
    for to, number in walks:
        assert not made.sent, "one is still under way"
        made.redirects.found(number, to)
    assert made.sent == {"2": "http://b"}
    made.posted.clear()
    assert made.attach("3", (5,), "a", parts=parts)
    for to, frame in made.posted[:2]:
        made.redirects.found(frame.number, to)
    made.redirects.tick(float("inf"))
    assert made.served == ["3"], "once, though several walks have ended"
    made.redirects.found(made.posted[2][1].number, "c")
    assert made.served == ["3"]


def test_what_a_broker_advertises() -> None:
    def advertised(**given: Any) -> str:
        return Broker(BrokerSettings(**given)).advertised

    assert advertised(port=9) == "http://127.0.0.1:9"
    assert advertised(host="::1", port=9) == "http://[::1]:9"
    assert advertised(tls_certificate="cert.pem", port=9) == "https://127.0.0.1:9"
    assert advertised(host="0.0.0.0") == advertised(host="::") == advertised(listen_fd=3) == ""
    assert advertised(advertise="none") == ""
    assert advertised(host="0.0.0.0", advertise="https://one.example.com/") == "https://one.example.com"
