"""Internal consistency: money is only moved, so a subscriber per transaction never sees a total that is not constant.

Accounts in branches, transfers as transactions of two updates, a view with totals per branch. Whatever is killed, the sum
over all accounts, the sum of the branches' totals and each branch's count stay as they were.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.live import Api
from tests.support.processes import ServerProcess

BRANCHES, ACCOUNTS, EACH = 5, 60, 1_000
TOTAL = ACCOUNTS * EACH
ALL = "SELECT SUM(balance) FROM accounts"
OF_VIEW = "SELECT SUM(total) FROM branches"
ROWS = "SELECT * FROM branches WHERE accounts > 0"
GROUPS = "SELECT branch, COUNT(*) AS n, SUM(balance) FROM accounts GROUP BY branch"


@pytest.fixture
def bank() -> Iterator[ServerProcess]:
    server = ServerProcess()
    server.start()
    yield server
    server.remove()


def open_accounts(api: Api) -> None:
    api.table({"id": "integer", "branch": "integer", "balance": "bigint"}, ["id"], "accounts")
    sql = "SELECT branch, COUNT(*) AS accounts, SUM(balance) AS total FROM accounts GROUP BY branch"
    api.call("POST", "/v1/views", json={"name": "branches", "sql": sql})
    rows = [{"id": id, "branch": id % BRANCHES, "balance": EACH} for id in range(ACCOUNTS)]
    api.publish("accounts", [{"op": "insert", "row": row} for row in rows])


class Transfers:
    """Random transfers, which know the balances that were acknowledged."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.balance = dict.fromkeys(range(ACCOUNTS), EACH)

    def request(self) -> list[dict[str, Any]]:
        """Some transfers as one transaction; the balances are as after it."""
        events = []
        for _ in range(self._random.randint(1, 3)):
            giver, taker = self._random.sample(range(ACCOUNTS), 2)
            amount = self._random.randint(0, 50)
            self.balance[giver] -= amount
            self.balance[taker] += amount
            for id in (giver, taker):
                change = {"op": "update", "key": {"id": id}, "set": {"balance": self.balance[id]}}
                events.append({"table": "accounts", **change})
        return events


def test_totals_are_constant(bank: ServerProcess) -> None:
    with Api(bank.url) as api:
        open_accounts(api)
        made = {sql: api.subscribe(sql, per="transaction")["id"] for sql in (ALL, OF_VIEW, ROWS, GROUPS)}
        transfers, seen = Transfers(1), dict.fromkeys(made, -1)
        for life in range(3):
            with Api(bank.url) as again, again.socket() as socket:
                for sql, id in made.items():
                    socket.attach(id, after=seen[sql] if seen[sql] >= 0 else None)
                socket.pong()
                for _ in range(150):
                    done = again.call("POST", "/v1/events", json={"events": transfers.request()})
                socket.progress(done["last_seq"])
                check(socket, made, life)
                seen = dict.fromkeys(made, done["first_seq"])  # inside a request: its end is told again
            if life < 2:
                bank.kill()
                bank.start()


def check(socket: Any, made: dict[str, str], life: int) -> None:
    for sql in (ALL, OF_VIEW):
        assert not socket.of(made[sql]), "a total that is not constant"
    rows: dict[int, Any] = {}
    for frame in [*socket.of(made[ROWS], "snapshot"), *socket.of(made[ROWS])]:
        told = frame["snapshot"]["rows"] if "snapshot" in frame else frame["change"]["update"]
        rows |= {row["branch"]: row["total"] for row in told}
        if life == 0:  # later streams begin with changes alone
            assert sum(map(int, rows.values())) == TOTAL
    for sql in (ROWS, GROUPS):
        assert len(socket.of(made[sql])) > 100
