"""A mixed load goes on while parts are killed: no acknowledged change is lost, none is delivered twice."""

from __future__ import annotations

import os
import random

import pytest

from tests.soak.kills import PARTS, Kills
from tests.soak.load import Load, Pace
from tests.support.deployed import Deployed


@pytest.mark.parametrize("cycles", [len(PARTS), pytest.param(100, marks=pytest.mark.slow)])
async def test_every_part_is_killed_under_load(cycles: int, record_property: pytest.FixtureRequest) -> None:
    seed = int(os.environ.get("PROSEM_SEED") or random.randrange(10**6))
    print(f"PROSEM_SEED={seed}")
    with Deployed(2) as deployed:
        kills = Kills()
        async with Load(
            deployed, seed, Pace(publish_s=0.05, move_s=0.2, register_s=0.5, view_s=5)
        ).running() as load:
            await kills.strike_often(load, cycles)
    assert kills.count == cycles
    assert load.counts.checks == 1 + cycles // 10
    assert min(load.counts.events, load.changes, load.counts.patches, load.counts.registrations) > 0
    record_property("summary", f"kill -9 of parts under load, seed {seed}: {kills.summary}; {load.summary}")  # type: ignore[operator]
