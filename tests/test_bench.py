"""The benchmarks in miniature: they run, their strategies agree, and they speak the form that outside checks read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bench import range_min
from bench.common import Report, fail, machine
from bench.registry import BENCHES

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
    assert BENCHES.keys() >= {"range-min", "end-to-end"}
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
        assert figures["events_per_s"] > 0
        assert figures["changes_per_s"] > 0
