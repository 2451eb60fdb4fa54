"""The contract of networks of brokers: messages in flight, links that fail, brokers that die."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cn.model.message import Message
from cn.networks.node import star
from cn.networks.registry import SCHEMES
from cn.simulation.transport import Faults
from tests.support.effort import seeds
from tests.support.network_driver import Driver


def in_turns(message: Message, links: Sequence[str], hosts: Sequence[str]) -> bool:
    """Every second message goes straight."""
    assert links
    assert hosts
    return message.part % 2 == 0


CASES = {
    **{name: (name, {"fan_out": 3}) for name in SCHEMES},
    "cbn-lub": ("cbn", {"fan_out": 3, "lub": True, "threshold": 2}),
    "cbn-disjunction": ("cbn", {"fan_out": 3, "lub": True, "threshold": 10**6}),
    "cbn-both-ways": ("cbn", {"fan_out": 2, "is_straight": in_turns}),
    "cbn-straight": ("cbn", {"fan_out": 2, "is_straight": lambda message, links, hosts: True}),
    "cbn-both-ways-star": ("cbn", {"fan_out": 2, "repository": 1, "is_straight": in_turns}),
    "can-routed": ("can", {"least": 2, "routed": True}),
    "cut-off-small": ("cut-off", {"least": 2}),
    "range-tree-deep": ("range-tree", {"least": 2, "fan_out": 2}),
    "multicast-star": ("multicast", {"fan_out": 2, "repository": 2, "directory": 3}),
    "cbn-star": ("cbn", {"fan_out": 2, "repository": 0}),
    "cbn-star-mixed": ("cbn", {"fan_out": 2, "repository": 1, "plain": ("b0", "b3", "b7")}),
    "stages-star": ("stages", {"fan_out": 2, "repository": 1}),
    "range-tree-star": ("range-tree", {"least": 2, "fan_out": 3, "repository": 1, "plain": ("b2",)}),
    "can-star": ("can", {"least": 2, "repository": 1, "plain": ("b2",)}),
}
TREES = [case for case, (name, _) in CASES.items() if SCHEMES[name].overlay is not star]
BAD = {"drop": 0.15, "duplicate": 0.15, "delay": 5.0}


def make(case: str, seed: int, **settings: Any) -> Driver:
    name, options = CASES[case]
    return Driver(name, seed, options=options, **settings)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_messages_in_flight(case: str, seed: int) -> None:
    driver = make(case, seed)
    driver.steps(250)
    driver.finish()
    assert any(not isinstance(one, int) for one in driver.delivered)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_links_that_drop_repeat_reorder_and_break(case: str, seed: int) -> None:
    driver = make(case, seed, faults=Faults(seed, **BAD))
    for _ in range(5):
        driver.steps(40)
        driver.cut()
    driver.finish()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("faults", [False, True])
def test_brokers_that_die_come_back_and_miss_only_what_lies_between(
    case: str, seed: int, faults: bool
) -> None:
    driver = make(case, seed, faults=Faults(seed, **BAD) if faults else None)
    for _ in range(4):
        driver.steps(50)
        driver.crash()
    driver.steps(50)
    driver.finish()


@pytest.mark.parametrize("case", TREES)
@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("faults", [False, True])
def test_those_below_a_broker_that_dies_miss_nothing(case: str, seed: int, faults: bool) -> None:
    driver = make(case, seed, faults=Faults(seed, **BAD) if faults else None)
    for _ in range(4):
        driver.steps(50)
        driver.lose()
    driver.steps(50)
    driver.finish()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_brokers_and_all_faults(case: str, seed: int) -> None:
    print("seed", seed)
    driver = make(case, seed, brokers=60, ids=800, faults=Faults(seed, **BAD))
    for _ in range(12 if CASES[case][0] in ("relaxed", "cut-off") else 40):  # these flood the network
        driver.steps(60)
        driver.cut()
        if driver.dice.random() < 0.3:
            driver.crash()
        if driver.dice.random() < 0.2:
            driver.lose()
    driver.finish()
