"""The benchmarks in miniature: they run, their strategies agree, and they speak the form that outside checks read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bench import (
    engine,
    join,
    join_many,
    mixed,
    optimizer,
    optimizer_cases,
    optimizer_overhead,
    range_min,
    recovery,
    rows,
    rows_wide,
)
from bench.common import Report, fail, machine
from bench.registry import BENCHES
from optimizer.choose import Chooser, NamedPlan

ROW = {
    "subscriptions",
    "tuples",
    "messages_reformulate",
    "messages_enumerate",
    "us_reformulate",
    "us_enumerate",
    "us_scan",
}


def test_range_min_in_miniature() -> None:
    few, memory = range_min.measure(300, 500, 150)
    many, _ = range_min.measure(300, 4_000, 150)
    for figures, count in ((few, 500), (many, 4_000)):
        assert figures.keys() >= ROW
        assert (figures["subscriptions"], figures["tuples"]) == (count, 300)
        assert all(figures[name] > 0 for name in ROW)
    assert memory >= 0
    assert many["messages_reformulate"] < 6, "the number of messages does not depend on the subscriptions"
    assert many["messages_enumerate"] > 3 * few["messages_enumerate"], "that of addressed ones does"


def test_recovery_in_miniature() -> None:
    figures = recovery.measure(3_000, 5, 2)
    assert (figures["rows"], figures["subscriptions"]) == (3_000, 5 * len(recovery.GROUPS))
    assert figures["rows_per_s"] > 0


def test_the_engine_in_miniature() -> None:
    steps = {row["step"]: row["median"] for row in engine.steps(200, 300, 2)}
    assert steps["the engine in all"] > steps["validation: keys, old and new rows"] > 0
    found = engine.fourteen(200, 900)
    assert found["events_per_s"] > 0
    assert {row["space"].partition(":")[0] for row in found["by_type"]} >= {"range-min", "value", "filter"}
    assert [row["event"] for row in engine.two_ranges(300, 50, 5)] == ["insert", "delete"]
    assert all(row["per_s"] > 0 for row in engine.registration(300, 50))


@pytest.mark.slow
def test_rows_in_miniature() -> None:
    figures = rows.measure(3_000, 40, 200)
    assert (figures["rows"], figures["subscriptions"]) == (3_000, 40)
    assert 12 <= figures["packed_bytes_per_row"] < 60
    assert figures["us_per_event"] > 0


@pytest.mark.slow
def test_wide_rows_in_miniature() -> None:
    whole, used = rows_wide.measure(2_000, 40, 2_000)
    assert (whole["held"], used["held"]) == (20, 3)
    assert used["packed_bytes_per_row"] < whole["packed_bytes_per_row"] / 3
    assert whole["rows_read_per_event"] == 0 < used["rows_read_per_event"]
    assert all(one["us_per_event"] > 0 for one in (whole, used))


def test_the_scan_is_right() -> None:
    """The baseline itself against the plainest of all ways."""
    random = np.random.default_rng(5)
    xs, ys = random.integers(0, 50, 40), random.integers(0, 9, 40)
    low = random.integers(0, 50, 200)
    high = low + random.integers(0, 20, 200)
    scan = range_min.Scan(low, high, xs, ys)
    values = ys.copy()

    def minima() -> list[int | None]:
        inside = [values[(xs >= a) & (xs <= b)] for a, b in zip(low, high, strict=True)]
        return [int(some.min()) if len(some) else None for some in inside]

    before = minima()
    for _ in range(300):
        key, y = int(random.integers(0, 40)), int(random.integers(0, 9))
        values[key] = y
        after = minima()
        expected = [at for at, (was, now) in enumerate(zip(before, after, strict=True)) if was != now]
        assert sorted(int(at) for at in scan.take(key, y)) == expected
        before = after


def test_join_in_miniature() -> None:
    few = join.measure(300, 25, 400, 300)
    many = join.measure(3_000, 25, 400, 300)
    for figures, count in ((few, 300), (many, 3_000)):
        assert figures["subscriptions"] == count
        for what in ("kb", "kb_delivered", "us", "messages"):
            assert figures[what].keys() == set(join.STRATEGIES)
        assert figures["description_bytes"].keys() == set(join.FLAVOURS)
        assert figures["affected"] > 0
    assert many["kb"]["enum-sj"] > 4 * few["kb"]["enum-sj"], "addressed messages grow with the subscriptions"
    assert many["kb"]["rel-sel"] == pytest.approx(few["kb"]["rel-sel"], rel=0.2), "an event as such does not"
    assert many["kb"]["ref-sj-clu+"] <= many["kb"]["ref-sj-clu"] <= many["kb"]["ref-sj-tup"]
    assert many["kb_delivered"]["ref-sj-clu+"] < many["kb_delivered"]["ref-j+"], "no row twice"
    assert many["kb_delivered"]["ref-sj-clu+"] < many["kb_delivered"]["rel-sel"], "no row that joins nothing"


def test_joins_that_disagree_end_the_bench() -> None:
    one, other = join.Walk("ref-sj-clu+", told=[np.array([1, 2])]), join.Walk("enum-sj", told=[np.array([1])])
    with pytest.raises(SystemExit):
        join._agree({"ref-sj-clu+": one, "enum-sj": other})
    with pytest.raises(SystemExit):
        join._agree({"ref-sj-clu+": one, "rel-sel": join.Walk("rel-sel", told=[np.array([2, 3])])})
    join._agree({"ref-sj-clu+": one, "rel-sel": join.Walk("rel-sel", told=[np.array([1, 2, 3])])})


def test_joins_of_several_tables_in_miniature() -> None:
    random = np.random.default_rng(1)
    schema = join_many.star(100, 1_000, 0, random)
    happened = list(join_many.events(schema, "s", 40, random))
    figures = join_many.measure(schema, happened, 10_000, ("enum-j", "ref-j", "rel-sel", "ref-sj-clu+"), "rt")
    assert figures.keys() == {"enum-j", "ref-j", "rel-sel", "ref-sj-clu+", "s⋉r", "s⋉t"}
    assert all(sent > 0 and carried > 0 for sent, _, carried in figures.values())


def test_a_report_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    row = dict.fromkeys(ROW, 1.5)
    report = Report("range-min", {"events": 1}, {"by_subscriptions": [row]}, [("growth", [row])], ["a note"])
    report.show(as_json=True)
    document: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document.keys() == {"bench", "params", "figures", "machine", "seconds"}
    assert document["machine"].keys() >= {"cpu", "cores"}
    assert document["machine"] == machine()
    assert document["figures"]["by_subscriptions"] == [row]
    report.show(as_json=False)
    shown = capsys.readouterr().out
    assert "growth" in shown
    assert "a note" in shown


def test_a_disagreement_ends_the_bench(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        fail("enumeration and scan disagree")
    assert caught.value.code == 1
    assert "disagree" in capsys.readouterr().err


def test_the_benches_by_name() -> None:
    assert BENCHES.keys() >= {"range-min", "end-to-end", "join"}
    assert all(callable(run) and text for run, text in BENCHES.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["range-min", "end-to-end"])
def test_quick_in_full(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    BENCHES[name][0](True).show(as_json=True)
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    if name == "range-min":
        assert figures["bytes_per_subscription"] > 0
        for row in figures["by_subscriptions"] + figures["by_tuples"]:
            assert row.keys() >= ROW
    else:
        assert figures["latency_ms"].keys() >= {"p50", "p99"}
        assert figures["limit"].keys() >= {"events_per_s", "changes_per_s"}
        assert figures["idle_ms"].keys() == {"commit", "healthz", "acknowledged", "change"}
        assert all(0 < times["least"] <= times["p50"] for times in figures["idle_ms"].values())
        assert figures["cpu_us_per_event"].keys() == {"server", "postgres"}
        assert figures["events_per_s"] > 0
        assert figures["changes_per_s"] > 0


def test_the_optimizer_in_miniature() -> None:
    """Costs of every plan on real events: the oracle is the least, the worst the most, and learning helps."""
    workload = mixed.Mixed(Chooser(NamedPlan("reformulate"), share=0), 700)
    cases = optimizer_cases.measured_cases(workload, optimizer_cases.Overlay(workload.state), 60)
    assert len(workload.state.spaces) == len(mixed.TYPES) - 1, "the two filters share a space"
    flat = [case for some in cases for case in some]
    assert {pair for case in flat for pair in optimizer.pairs(case)} >= {
        (plan, way)
        for plan in ("reformulate", "enumerate", "enum-sj", "ref-sj-tup")
        for way in ("tree", "straight")
    }
    found = optimizer.costs(flat, flat, 60)
    assert found["oracle"] <= found["ours"][1000] <= found["worst"]
    assert found["oracle"] <= min(found["static"].values())
    rows = optimizer.knobs(flat, flat, 60)
    assert len(rows) == 16
    shares = {(row["knob"], row["weight"]): row["reformulation_percent"] for row in rows}
    assert shares["bandwidth", 100.0] <= shares["bandwidth", 0.0], "traffic between brokers is avoided"
    assert shares["server_time", 100.0] >= shares["server_time", 0.0], "regions take the server less time"
    by_knob = {(row["knob"], row["weight"]): row for row in rows}
    for row in rows:
        percent, size_bytes = (sum(some) for some in zip(*row["shares"].values(), strict=True))
        assert abs(percent - 100) < 1
        assert abs(size_bytes - row["server_bytes"]) < 1
    for knob, figure in (
        ("server_time", "server_bytes"),
        ("response_time", "latency_us"),
        ("server_stress", "server_bytes"),
        ("bandwidth", "network_bytes"),
    ):
        assert by_knob[knob, 100.0][figure] <= by_knob[knob, 0.0][figure]
    names = dict.fromkeys(workload.state.spaces, "type")
    for row in optimizer.by_type(flat, flat, 60, names):
        assert row["oracle"] <= row["ours"]
        assert row["oracle"] <= row["its cost"]
    assert optimizer_overhead.overhead(workload, flat, (0, 10), 1, 5).keys() == {0, 10}
