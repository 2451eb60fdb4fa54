"""Price alerts as a user runs them: every alert has moved as far as asked, and no forged request counts."""

from __future__ import annotations

import csv
import importlib.util
import time

import pytest
from prosem_client.webhooks import sign

from examples.price_alerts.receiver import Receiver
from tests.support.examples import ROOT, example

MOVED = r"^(\w+): (\w+) moved ([+-][\d.]+) % \(alert at ([\d.]+) %\): ([\d.]+) → ([\d.]+)$"


def test_alerts_arrive_once_the_price_has_moved_far_enough() -> None:
    with open(ROOT / "examples" / "price_alerts" / "alerts.csv", encoding="utf-8") as file:
        asked = {(row["user"], row["symbol"]): float(row["percent"]) for row in csv.DictReader(file)}
    last: dict[tuple[str, str], str] = {}
    with example("price_alerts", "--rate", "100") as running:
        running.until("8 alerts, posted to")
        running.until("a forged request is answered 401")
        for _ in range(12):
            user, symbol, _, percent, before, after = running.until(MOVED).groups()
            assert asked[user, symbol] == float(percent)
            assert abs(float(after) / float(before) - 1) * 100 >= float(percent) - 1e-9
            assert last.get((user, symbol), before) == before, (
                "each alert begins where the previous one ended"
            )
            last[user, symbol] = after


def test_a_delivery_counts_once_and_only_if_it_is_signed() -> None:
    taken: list[str] = []
    with Receiver("a-secret-of-the-test", lambda id, change: taken.append(id)) as receiver:
        body = b'{"delivery": "1", "frames": [{"id": "a", "snapshot": {}}, {"id": "b", "change": {}}]}'
        signature = sign(body, "a-secret-of-the-test", _now())
        assert [receiver.take(body, signature) for _ in range(2)] == [204, 204]
        assert receiver.take(body, sign(body, "another-secret-of-it", _now())) == 401
        assert receiver.take(body.replace(b"b", b"c"), signature) == 401
    assert taken == ["b"]
    assert receiver.rejected == 2


def _now() -> int:
    return int(time.time())


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="the backtest runs on Spark")
def test_the_backtest_suggests_a_percentage_for_each_symbol() -> None:
    with example("price_alerts", "--seconds", "10", "--rate", "50", "--backtest", "200") as running:
        middle = running.until(
            r"nearest to 4800 notifications per day: :radius = ([\d.]+) in the median", 240
        )
        assert float(middle[1]) > 0
        assert running.until(r"symbol=AUR +([\d.]+)", 240)
        assert running.until(r"[\d,]+ notifications$", 240)
        assert running.process.wait(240) == 0
