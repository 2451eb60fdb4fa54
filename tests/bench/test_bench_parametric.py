"""Updates in a network of brokers, in miniature; and [Siena]'s poset against a loop."""

from __future__ import annotations

import random

import pytest
from typer.testing import CliRunner

from api.commands.cli import app
from bench.broker_workloads import highway, trading
from bench.parametric_network import MODES, Run, saturated
from bench.poset import Poset
from cn.model.geometry import Extent, Interval


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workload", [highway, trading])
def test_every_strategy_comes_to_rest_at_the_same_answer(mode: str, workload: object) -> None:
    made = highway(4, 8, 10) if workload is highway else trading(6, 8, 4)
    made.events_per_s = 200.0
    found = Run(made, MODES[mode]).measure(50, 0.2)
    assert found["delivered_per_s"] > 0
    assert found["request_frames"] > 0
    assert found["in_force_ms"] >= 20


def test_throughput_is_what_comes_to_clients_when_more_is_published() -> None:
    """Not less than at the rate of the other figures, and found at the rate that it names."""
    made = trading(6, 8, 4)
    made.events_per_s = 200.0
    found = saturated(Run(made, MODES["fastint upd"]), 50, 0.2, True)
    assert found["throughput_per_s"] > 1.1 * found["delivered_per_s"], (
        "brokers this small are idle at 200 events/s"
    )
    assert found["offered_per_s"] == 800


def test_updates_take_fewer_frames_than_subscriptions_anew() -> None:
    frames = {}
    for mode in ("fastint upd", "fastint sub"):
        made = highway(6, 10, 12)
        made.events_per_s = 50.0
        frames[mode] = Run(made, MODES[mode]).measure(50, 0.2)["request_frames"]
    assert 2 * frames["fastint upd"] <= frames["fastint sub"]


def test_the_poset_is_right() -> None:
    dice = random.Random(3)
    poset, model = Poset(), dict[int, dict[int, Extent]]()

    def filter() -> dict[int, Extent]:
        ends = {at: sorted(dice.randrange(10) for _ in "lh") for at in (0, 1) if dice.random() < 0.8}
        return {at: Extent((Interval(*pair),)) for at, pair in ends.items()}

    for step in range(600):
        if model and dice.random() < 0.3:
            poset.remove(gone := dice.choice([*model]))
            del model[gone]
        elif model and dice.random() < 0.4:
            changed = dice.choice([*model])
            model[changed] = filter()
            poset.update(changed, (model[changed],))
        else:
            model[step] = filter()
            poset.insert(step, (model[step],))
        poset.check()
        row = dice.randrange(10), dice.randrange(10)
        expected = [id for id, one in model.items() if all(row[at] in extent for at, extent in one.items())]
        assert sorted(poset.match(row)) == sorted(expected)


def test_a_bench_says_when_it_knows_no_such_network() -> None:
    for command in (["bench", "parametric", "--network", "smoke"], ["bench", "stages", "--network", "cbn"]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 2
        assert "network" in result.output
