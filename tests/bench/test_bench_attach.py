"""The benchmark of `prosem attach` in miniature: real processes, and both sides agree at the end."""

from __future__ import annotations

import pytest

from bench import attach


@pytest.mark.slow
def test_attach_in_miniature() -> None:
    figures = attach.measure(accounts=300, backlog=40, seconds=1, subscriptions=20)
    assert figures["drained_events_per_s"] > 0
    assert figures["rate_events_per_s"] == pytest.approx(figures["drained_events_per_s"] / 2, abs=1)
    assert figures["cpu_us_per_event"].keys() == {
        "attach",
        "server",
        "PostgreSQL of the source",
        "PostgreSQL of the server",
    }
    lag = figures["lag_ms"]
    assert 0 < lag["p50"] <= lag["p99"] <= lag["most"]
    assert lag["samples"] > 0
