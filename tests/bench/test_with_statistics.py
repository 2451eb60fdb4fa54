"""The bench of statistics in miniature: servers are started with and without a run, and their figures compared."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from bench import with_statistics
from bench.statistics_workload import TEMPLATES, Market
from bench.with_statistics import Served, Size
from tests.support.statistics_runs import make_run

TINY = Size(rows=0.01, each=4, history=60, events=40, learn_s=0.2)


def test_the_same_seeds_make_the_same_events() -> None:
    def events(seed: int) -> list[object]:
        market = Market(0.01, seed)
        market._reviews = range(40)
        return [asdict(request) for request in market.events(50)]

    assert events(3) == events(3) != events(4)
    assert all(":lo0" in template.sql and ":hi0" in template.sql for template in TEMPLATES)


@pytest.mark.slow
def test_servers_in_turn_with_a_run_and_without(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(with_statistics, "PAIRS", 1)
    with_statistics.fill(url, TINY)
    found = with_statistics.measure(url, make_run(url), TINY)
    for name in ("without", "with", "learned"):
        assert found[name].keys() == {"cpu_us", "bytes", "messages"}
        assert all(value > 0 for value in found[name].values())
    for name in ("to_without", "to_learned"):
        assert found[name].keys() == {"cpu_us", "bytes"}
    assert found["to_without"]["bytes"] == pytest.approx(1.0, abs=0.2), "the run says nothing"
    assert len(found["arrangements"]) == sum("JOIN" in template.statement for template in TEMPLATES)
    with Served(url) as served:
        assert served.state.statistics is None, "no run is left in force"
