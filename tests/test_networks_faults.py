"""The contract of networks of brokers: messages in flight, links that fail, brokers that die."""

from __future__ import annotations

import pytest

from cn.networks.registry import SCHEMES
from cn.transport.memory import Faults
from tests.network_driver import Driver

BAD = {"drop": 0.15, "duplicate": 0.15, "delay": 5.0}


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("seed", range(4))
def test_messages_in_flight(name: str, seed: int) -> None:
    driver = Driver(name, seed)
    driver.steps(250)
    driver.finish()
    assert any(not isinstance(one, int) for one in driver.told)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("seed", range(4))
def test_links_that_drop_repeat_reorder_and_break(name: str, seed: int) -> None:
    driver = Driver(name, seed, faults=Faults(seed, **BAD))
    for _ in range(5):
        driver.steps(40)
        driver.cut()
    driver.finish()


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("faults", [False, True])
def test_brokers_that_die_come_back_and_miss_only_what_lies_between(
    name: str, seed: int, faults: bool
) -> None:
    driver = Driver(name, seed, faults=Faults(seed, **BAD) if faults else None)
    for _ in range(4):
        driver.steps(50)
        driver.crash()
    driver.steps(50)
    driver.finish()


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_brokers_and_all_faults(name: str, seed: int) -> None:
    print("seed", seed)
    driver = Driver(name, seed, brokers=60, ids=800, faults=Faults(seed, **BAD))
    for _ in range(40):
        driver.steps(60)
        driver.cut()
        if driver.dice.random() < 0.3:
            driver.crash()
    driver.finish()
