"""What parts have measured, one JSON file each: a report is made of parts that ran one after another."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from bench.common import machine
from bench.kept import FULL, QUICK
from bench.papers.parts import Measured, Part


class Result(NamedTuple):
    """One measurement of a part, which ended at `date`. `load` is the load average when it began and when it ended."""

    part: str
    size: str
    date: str
    command: str
    seeds: dict[str, int]
    params: dict[str, Any]
    load: list[float]
    machine: dict[str, Any]
    seconds: float
    cpu_seconds: float
    figures: dict[str, Any]

    @property
    def span(self) -> tuple[float, float]:
        """When it began and when it ended, in seconds."""
        ended = datetime.fromisoformat(self.date).replace(tzinfo=UTC).timestamp()
        return ended - self.seconds, ended

    @property
    def is_full(self) -> bool:
        return self.size == FULL


def elapsed(results: Iterable[Result]) -> float:
    """The seconds in which some of these were being measured: what ran side by side counts once."""
    seconds, until = 0.0, 0.0
    for begun, ended in sorted(one.span for one in results):
        seconds += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    return seconds


class Took(NamedTuple):
    """How long a part took, by the clock and of the processor."""

    seconds: float
    cpu_seconds: float


def result_of(
    name: str, part: Part, measured: Measured, quick: bool, command: str, load: list[float], took: Took
) -> Result:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return Result(
        name, QUICK if quick else FULL, now, command, dict(part.seeds), measured.params, load, machine(),
        round(took.seconds, 1), round(took.cpu_seconds, 1), measured.figures,
    )  # fmt: skip
