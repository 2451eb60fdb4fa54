"""An existing PostgreSQL: each tenant is notified of its own rows, once per transaction of the application."""

from __future__ import annotations

import re

from tests.support.examples import example

COMMIT = re.compile(r"^the shop commits (\d+) rows of (\w+)$")
TOTAL = re.compile(r"^  (\w+) is notified: (\d+) orders, ([\d.]+) € \(paid\)$")
PAYMENT = re.compile(r"^  (\w+) is notified: payment \d+ of ([\d.]+) € \((\w+)\)$")


def test_each_tenant_is_notified_of_its_own_transactions(source: str) -> None:
    with example("existing_postgresql", "--rate", "20", "--source", source) as running:
        for pattern in (
            r"acme is notified: payment",
            r"bolt is notified: payment",
            r"commits \d+ rows of core",
        ):
            running.until(pattern)
        for _ in range(20):
            running.until("is notified: .* orders")
    commits = [found for line in running.lines if (found := COMMIT.match(line))]
    totals = [found for line in running.lines if (found := TOTAL.match(line))]
    payments = [found for line in running.lines if (found := PAYMENT.match(line))]
    for tenant in ("acme", "bolt"):
        counts = [int(found[2]) for found in totals if found[1] == tenant]
        assert counts == sorted(set(counts)), "each notification has new orders"
        made = sum(found[2] == tenant for found in commits)
        assert len(counts) <= made + 1, "at most one per transaction; the last line of a commit may be unread"
    assert not [found for found in totals if found[1] == "core"], "no key was made for it"
    assert payments
    assert all(
        tenant == owner and float(amount) >= 400 for tenant, amount, owner in map(re.Match.groups, payments)
    )
