"""What parts have measured, one JSON file each: a report is made of parts that ran one after another."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from bench.common import machine
from bench.kept import FULL, QUICK
from bench.papers.parts import Measured, Part


class Result(NamedTuple):
    """One measurement of a part. `load` is the load average of the machine when it began and when it ended."""

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
    def is_full(self) -> bool:
        return self.size == FULL


class Took(NamedTuple):
    """How long a part took, by the clock and of the processor."""

    seconds: float
    cpu_seconds: float


def result_of(
    name: str, part: Part, measured: Measured, quick: bool, command: str, load: list[float], took: Took
) -> Result:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return Result(
        name, QUICK if quick else FULL, now, command, dict(part.seeds), measured.params, load, machine(),
        round(took.seconds, 1), round(took.cpu_seconds, 1), measured.figures,
    )  # fmt: skip
