"""A server looks at young objects itself: what stays must not gather among them, whatever Python's own count says."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import uvicorn

from api.commands.serve import Runner
from prosem.runtime.garbage import SECOND_LOOK, look_at_young

COUNT = 20_000


class Stays:
    __slots__ = ("next",)


@pytest.fixture
def stays() -> Iterator[list[Stays]]:
    """Objects that stay, each made when another went: Python's count has not noticed them."""
    go: list[list[int]] = [[] for _ in range(COUNT)]
    gc.collect()
    made: list[Stays] = []
    for _ in range(COUNT):
        go.pop()
        made.append(Stays())
    assert young(0) == COUNT
    yield made
    gc.enable()


def young(generation: int) -> int:
    return sum(type(one) is Stays for one in gc.get_objects(generation=generation))


def test_what_stays_is_old_after_a_second_look(stays: list[Stays]) -> None:
    look_at_young(1)
    assert (young(0), young(1)) == (0, COUNT)
    look_at_young(SECOND_LOOK)
    assert (young(0), young(1)) == (0, 0)


def test_garbage_goes_at_either_look(stays: list[Stays]) -> None:
    for tick in (1, SECOND_LOOK):
        gone = Stays()
        gone.next = gone
        del gone
        look_at_young(tick)
        found = [one for generation in (0, 1, 2) for one in gc.get_objects(generation) if type(one) is Stays]
        assert len(found) == COUNT


def test_a_recovery_is_left_alone(stays: list[Stays]) -> None:
    gc.disable()
    look_at_young(SECOND_LOOK)
    assert young(0) == COUNT


async def test_a_server_looks_at_every_tick(stays: list[Stays]) -> None:
    runner = Runner(uvicorn.Config(lambda: None))
    for tick in range(1, SECOND_LOOK + 1):
        assert not await runner.on_tick(tick)
        assert young(0) == 0
    assert young(1) == 0
