"""A bank: accounts in branches, and subscribers that notice a total that is not constant.

Money is only moved, by transactions of two updates. So after every transaction the sum over all accounts, the sum of the
branches' totals and the number of accounts are what they were, whichever process was killed meanwhile.
"""

from __future__ import annotations

import random
from typing import Any

from tests.support.live import Api, Json, Socket

BRANCHES, ACCOUNTS, EACH = 5, 60, 1_000
TOTAL = ACCOUNTS * EACH
ALL = "SELECT SUM(balance) FROM accounts"
OF_VIEW = "SELECT SUM(total) FROM branches"
ROWS = "SELECT * FROM branches WHERE accounts > 0"
GROUPS = "SELECT branch, COUNT(*) AS accounts, SUM(balance) AS total FROM accounts GROUP BY branch"
QUERIES = (ALL, OF_VIEW, ROWS, GROUPS)
VIEW = {
    "name": "branches",
    "sql": "SELECT branch, COUNT(*) AS accounts, SUM(balance) AS total FROM accounts GROUP BY branch",
}


def open_accounts(api: Api) -> None:
    api.table({"id": "integer", "branch": "integer", "balance": "bigint"}, ["id"], "accounts")
    api.call("POST", "/v1/views", json=VIEW)
    rows = [{"id": id, "branch": id % BRANCHES, "balance": EACH} for id in range(ACCOUNTS)]
    api.publish("accounts", [{"op": "insert", "row": row} for row in rows])


class Transfers:
    """Random transfers; `balance` is as after the last request."""

    def __init__(self, seed: int, most: int = 3) -> None:
        self._random, self._most = random.Random(seed), most
        self.balance = dict.fromkeys(range(ACCOUNTS), EACH)
        self.count = 0

    def request(self) -> list[Json]:
        """Some transfers as one transaction."""
        events: list[Json] = []
        for _ in range(self._random.randint(1, self._most)):
            giver, taker = self._random.sample(range(ACCOUNTS), 2)
            amount = self._random.randint(0, 50)
            self.balance[giver] -= amount
            self.balance[taker] += amount
            self.count += 1
            for id in (giver, taker):
                change = {"op": "update", "key": {"id": id}, "set": {"balance": self.balance[id]}}
                events.append({"table": "accounts", **change})
        return events


class Totals:
    """The subscriptions of a subscriber per transaction, folded frame by frame over any number of streams."""

    def __init__(self, api: Api) -> None:
        self._sql = {api.subscribe(sql, per="transaction")["id"]: sql for sql in QUERIES}
        self.branches: dict[str, dict[int, Json]] = {}  # by query
        self.changes = dict.fromkeys(QUERIES, 0)

    def attach(self, socket: Socket, after: int | None = None) -> int:
        """Returns the seq up to which everything has come then."""
        for id in self._sql:
            socket.attach(id, after=after)
        return socket.pong()

    def take(self, socket: Socket) -> None:
        """Fold the frames that were read, and look at every total on the way."""
        for frame in socket.frames:
            assert "error" not in frame, frame
            if "id" in frame:
                self._fold(self._sql[frame["id"]], frame)
        socket.frames.clear()

    def _fold(self, sql: str, frame: Json) -> None:
        if sql in (ALL, OF_VIEW):
            assert "change" not in frame, f"a total that is not constant: {sql}: {frame}"
            assert int(frame["snapshot"]["value"]) == TOTAL
            return
        if "snapshot" in frame:
            self.branches[sql] = _by_branch(next(iter(frame["snapshot"].values())))
        else:
            self.changes[sql] += 1
            assert not frame["change"]["add"] + frame["change"]["remove"], frame
            self.branches[sql] |= _by_branch(frame["change"]["update"])
        assert self.total(sql, "total") == TOTAL, f"{sql}: {frame}"
        assert self.total(sql, "accounts") == ACCOUNTS, f"{sql}: {frame}"

    def total(self, sql: str, column: str) -> int:
        return sum(int(row[column]) for row in self.branches[sql].values())


def _by_branch(rows: list[Json]) -> dict[int, Any]:
    return {row["branch"]: row for row in rows}
