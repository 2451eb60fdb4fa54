"""Which plan carries an event out in one space."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol


class Chooser(Protocol):
    def choose(self, space: int, plans: Sequence[str]) -> str: ...


class FirstPlan:
    """The type's own favourite: it lists its plans from the most to the least promising."""

    def choose(self, space: int, plans: Sequence[str]) -> str:
        return plans[0]


class NamedPlan:
    """Always the plan of this name where a space offers it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def choose(self, space: int, plans: Sequence[str]) -> str:
        return self._name if self._name in plans else plans[0]


class RandomPlan:
    """A seeded random plan per event: every plan must tell every subscriber the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, space: int, plans: Sequence[str]) -> str:
        return self._random.choice(plans)


def chooser(name: str) -> Chooser:
    """`auto`, `random:<seed>` or the name of a plan.

    >>> chooser("enumerate").choose(1, ("reformulate", "enumerate"))
    'enumerate'
    """
    if name == "auto":
        return FirstPlan()
    if name.startswith("random"):
        return RandomPlan(int(name.partition(":")[2] or 0))
    return NamedPlan(name)
