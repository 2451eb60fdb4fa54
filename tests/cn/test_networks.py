"""One contract for every network: exactly the places that match at that moment, each once, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cn.model.geometry import Interval
from cn.model.message import Message
from cn.model.network import Network
from cn.simulation.registry import NETWORKS, make_network
from tests.support.effort import examples
from tests.support.network_driver import Hosted, concerned
from tests.support.network_examples import (
    CONTENTS,
    PLACES,
    SPACES,
    TOPICS,
)

ACTIONS = ["register", "move", "nowhere", "remove", "again", "mark", *["content"] * 5, "names"]
ids = st.integers(1, 8)
Delivered = list[tuple[Message, list[int]] | int]


class Record:
    """What a network has delivered to its edge, in order: deliveries with sorted ids, and released seqs."""

    def __init__(self) -> None:
        self.delivered: Delivered = []

    def deliver(self, message: Message, ids: Sequence[int] | NDArray[np.int64]) -> None:
        self.delivered.append((message, sorted(int(id) for id in ids)))

    def release(self, seq: int) -> None:
        self.delivered.append(seq)


NAMES = st.fixed_dictionaries({"targets": st.lists(ids, max_size=4).map(tuple)})


Step = tuple[Any, ...]


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[Step], Delivered]:
    """Calls of a network in a row, and what it is to deliver."""
    steps, hosted, expected = list[Step](), Hosted(), Delivered()
    seq, part = 1, 0
    spaces = st.sampled_from(draw(st.lists(st.sampled_from([*SPACES.values()]), min_size=1, max_size=2)))
    for action in ["register"] * 6 + draw(st.lists(st.sampled_from(ACTIONS), min_size=20, max_size=40)):
        id, space = draw(ids), draw(spaces)
        topic = draw(st.sampled_from(TOPICS)) if space.dimensions else b""
        place = space, topic, None if action == "nowhere" else draw(PLACES[space])
        if action == "register":
            steps.append(("register", place[0], id, *place[1:]))
            hosted[id] = place
        elif action in ("move", "nowhere"):
            steps.append(("move", place[0], id, *place[1:]))
            if id in hosted:
                hosted[id] = place
        elif action == "again" and id in hosted:
            steps.append(("register", hosted[id][0], id, *hosted[id][1:]))
        elif action == "remove":
            steps.append(("remove", id))
            hosted.pop(id, None)
        elif action in ("content", "names"):
            whom = draw(NAMES if action == "names" else CONTENTS[space])
            message = Message(seq, part, space.id, "some", **whom)
            steps.append(("inject", message))
            part += 1
            if found := concerned(hosted, message):
                expected.append((message, found))
        elif action == "mark":
            steps.append(("watermark", seq))
            expected.append(seq)
            seq, part = seq + 1, 0
    return [*steps, ("watermark", seq)], [*expected, seq]


@settings(max_examples=examples(40), deadline=None)
@given(scripts())
def test_exactly_the_matching_places_each_once_in_order(script: tuple[list[Step], Delivered]) -> None:
    steps, expected = script
    for name in NETWORKS:
        record = Record()
        network = make_network(name, record.deliver, record.release)
        for call, *arguments in steps:
            getattr(network, call)(*arguments)
            if call == "watermark":
                getattr(network, "check", lambda: None)()
        assert record.delivered == expected, name


@pytest.fixture(params=sorted(NETWORKS))
def network(request: pytest.FixtureRequest, record: Record) -> Network:
    return make_network(request.param, record.deliver, record.release)


@pytest.fixture
def record() -> Record:
    return Record()


def test_a_space_may_empty_and_fill_again(network: Network, record: Record) -> None:
    message = Message(1, 0, 2, "some", region=((Interval(), Interval()),))
    network.inject(message)
    for _ in range(2):
        network.register(SPACES[2], 1, b"", (3, 4))
        network.inject(message)
        network.remove(1)
        network.inject(message)
    network.watermark(1)
    assert record.delivered == [(message, [1]), (message, [1]), 1]


def test_an_id_nowhere_is_reached_by_name_only(network: Network, record: Record) -> None:
    everywhere = Message(1, 0, 2, "some", region=((Interval(), Interval()),))
    by_name = Message(1, 1, 2, "some", targets=(1, 2))
    network.register(SPACES[2], 1, b"", None)
    network.inject(everywhere)
    network.inject(by_name)
    network.move(SPACES[2], 1, b"", (3, 4))
    network.inject(everywhere)
    network.move(SPACES[2], 1, b"", None)
    network.inject(everywhere)
    network.remove(1)
    network.inject(by_name)
    network.watermark(1)
    assert record.delivered == [(by_name, [1]), (everywhere, [1]), 1]


def test_a_thousand_points_hear_of_one_message_together(network: Network, record: Record) -> None:
    for id in range(1000):
        network.register(SPACES[2], id, b"tech", (id, id + 10))
    message = Message(1, 0, 2, "some", b"tech", ((Interval(None, 700), Interval(690, None)),))
    network.inject(message)
    network.watermark(1)
    assert record.delivered == [(message, list(range(680, 701))), 1]


def test_a_bad_place_is_refused_and_the_old_one_kept(network: Network, record: Record) -> None:
    network.register(SPACES[2], 1, b"", (3, 4))
    for space in (SPACES[1], SPACES[2]):
        with pytest.raises(ValueError, match="dimensions"):
            network.register(space, 1, b"", (1, 2, 3))
    message = Message(1, 0, 2, "some", region=((Interval(3, 3), Interval(4, 4)),))
    network.inject(message)
    network.watermark(1)
    assert record.delivered == [(message, [1]), 1]


def test_links_count_what_they_carry(network: Network) -> None:
    network.register(SPACES[1], 1, b"", (3,))
    before = network.links()
    network.inject(Message(1, 0, 1, "some", targets=(1,), payload=b"12345"))
    network.watermark(1)
    after = network.links()
    assert all({"from", "to", "messages", "bytes"} <= link.keys() for link in after)
    assert sum(link["messages"] for link in after) > sum(link["messages"] for link in before)
    assert sum(link["bytes"] for link in after) >= sum(link["bytes"] for link in before) + 5


def test_every_network_has_the_name_it_is_registered_under() -> None:
    for name in NETWORKS:
        assert make_network(name, lambda message, ids: None, lambda seq: None).name == name
    with pytest.raises(ValueError, match="the networks are local"):
        make_network("smoke signals", lambda message, ids: None, lambda seq: None)
