"""Work that is done side by side: in the order given, and never without an end."""

from __future__ import annotations

import os

import pytest

from bench.common import fail, on_all_cores, side_by_side


def test_what_is_found_comes_in_the_order_of_what_is_given() -> None:
    assert on_all_cores(lambda one: (one * one, os.getpid() != parent), [3, 1, 2]) == [
        (9, True),
        (1, True),
        (4, True),
    ]
    assert side_by_side({"a": lambda: 1, "b": lambda: 2}) == {"a": 1, "b": 2}


parent = os.getpid()


def refuse(one: int) -> int:
    if one:
        fail("strategies disagree")
    return one


def die(one: int) -> int:
    os._exit(3)


def test_a_bench_that_fails_beside_others_ends_all_of_them() -> None:
    with pytest.raises(SystemExit):
        on_all_cores(refuse, [0, 1, 0, 0])
    with pytest.raises(Exception, match="terminated abruptly"):
        on_all_cores(die, [0])
