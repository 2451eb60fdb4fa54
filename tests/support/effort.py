"""How much a test does: all of it in `make stress`, a sixth of it in `make test`."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import settings

SHORT, STRESS = 7, 40  # where a test does not say
DAY_S = 86_400


def examples(number: int) -> int:
    """Of Hypothesis, where a test says how many; no less than other tests try."""
    return number if _is_stress() else min(number, max(SHORT, number // 6))


def rounds(number: int) -> int:
    """Of a test that walks by itself; asked for while it runs."""
    return number if _is_stress() else -(-number // 6)


def seeds(few: int, number: int) -> list[Any]:
    """Parameters of a test: all of them in `make stress`, the first few in `make test`."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(few, number))]


def today() -> int:
    """A number for what differs from day to day, and is the same again on this one."""
    return int(time.time()) // DAY_S


def _is_stress() -> bool:
    return settings.default.max_examples >= STRESS
