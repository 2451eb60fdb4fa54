"""Backtests of all statements over a long log notify exactly as a server did, which many publishers fed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pipeline.statistics.session import Session
from prosem.store.embedded import EmbeddedPostgres
from tests.exactness.checking import Checked, check
from tests.exactness.comparison import compare
from tests.exactness.recording import Size
from tests.support.backtested import CASES

pytestmark = pytest.mark.slow  # python -m tests.exactness: any size
SIZE = Size.of(subscriptions=1_000, events=30_000)


def test_backtests_notify_as_a_server_did(
    postgres: EmbeddedPostgres, spark: Session, tmp_path: Path, record_property: pytest.FixtureRequest
) -> None:
    seed = int(os.environ.get("PROSEM_SEED") or random.randrange(10**6))
    print(f"PROSEM_SEED={seed}")
    checked = check(postgres, spark, tmp_path, SIZE, seed, print)
    assert not checked.differences, "\n".join(checked.differences)
    assert [one.name for one in checked.compared if not one.notifications] == [], "no test of these"
    assert len(checked.compared) == len(CASES)
    assert checked.recorded.end - checked.recorded.start >= SIZE.events
    assert checked.recorded.changed > len(CASES)
    assert checked.notifications > 0.9 * len(checked.recorded.changes), (
        "the others are of changed subscriptions"
    )
    record_property("summary", f"seed {seed}: {checked.summary}")  # type: ignore[operator]
    check_that_a_difference_is_found(spark, checked, tmp_path / "altered")


def check_that_a_difference_is_found(spark: Session, checked: Checked, folder: Path) -> None:
    """One change of a subscription is made another, and one of another subscription comes at another seq."""
    changes, parts = checked.recorded.changes, checked.recorded.parts["value"]
    notified = [part for part in parts if len(changes.of(part.number, part.after, part.upto)[0])]
    one = notified[0]
    other = next(part for part in reversed(notified) if part.number != one.number)
    changes.of(one.number, one.after, one.upto)[1][0] += 1
    changes.of(other.number, other.after, other.upto)[0][-1] += 1
    found = compare(spark, checked.recorded, "value", checked.archive, checked.since, folder)
    altered, moved = found.differences
    assert "the server sent another change, the backtest found {" in altered
    assert "the server sent nothing, the backtest found {" in moved
