"""The benchmark of views in miniature: the engine and the databases agree, and each figure is there."""

from __future__ import annotations

import importlib.util
import random

import pytest

from bench import views, views_building
from bench.views_recomputed import SYSTEMS


@pytest.mark.parametrize("case", views.CASES, ids=lambda case: case.name)
def test_kept_and_recomputed_agree(case: views.Case) -> None:
    kept, recomputed = views.measure(case, 300, [50, 400], 120, 2)
    assert [row["subscriptions"] for row in kept] == [0, 50, 400]
    assert all(row["us"] > 0 and row["events_per_s"] > 0 for row in kept)
    assert kept[0]["messages"] == 0
    assert kept[-1]["messages"] > 0
    installed = ["PostgreSQL"] + ["DuckDB"] * (importlib.util.find_spec("duckdb") is not None)
    assert [row["system"] for row in recomputed] == installed
    assert all(row["ms_view"] > 0 and row["ms_one_subscription"] > 0 for row in recomputed)


def test_a_database_with_another_answer_ends_the_bench() -> None:
    case, chance = views.CASES[1], random.Random(1)
    content = case.rows(100, chance)
    kept = views.Kept(case, content)
    kept.subscribe(1, 100, chance)
    id, lo, hi = kept.ranges[0]
    with SYSTEMS["PostgreSQL"]() as system:
        assert system is not None
        system.load(case.tables, content, case.view, case.definition)
        views._agree(kept, system, case, [(id, lo, hi)], "PostgreSQL")
        key = next(row[0] for row in content["movements"] if lo <= row[1] <= hi)
        event = {"table": "movements", "op": "update", "key": {"id": key}, "set": {"quantity": -1_000_000}}
        kept.take([event])
        with pytest.raises(SystemExit):
            views._agree(kept, system, case, [(id, lo, hi)], "PostgreSQL")
        system.update([event])
        views._agree(kept, system, case, [(id, lo, hi)], "PostgreSQL")


def test_a_view_is_built_while_a_publisher_publishes() -> None:
    figures = views_building.measure(3_000, 300)
    assert figures["rows"] == 3_000
    assert figures["requests"] > 0
    for when in ("before", "during"):
        assert figures[f"p50_ms_{when}"] <= figures[f"p99_ms_{when}"] <= figures[f"longest_ms_{when}"]
