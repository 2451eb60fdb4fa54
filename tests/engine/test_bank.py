"""Internal consistency: a subscriber per transaction never sees a total that is not constant, whatever is killed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.bank import ACCOUNTS, GROUPS, QUERIES, ROWS, TOTAL, Totals, Transfers, open_accounts
from tests.support.live import Api, Json
from tests.support.processes import ServerProcess


@pytest.fixture
def bank() -> Iterator[ServerProcess]:
    server = ServerProcess()
    server.start()
    yield server
    server.remove()


def test_totals_are_constant(bank: ServerProcess) -> None:
    transfers, after = Transfers(1), None
    with Api(bank.url) as api:
        open_accounts(api)
        totals = Totals(api)
    for life in range(3):
        with Api(bank.url) as api, api.socket() as socket:
            totals.attach(socket, after)
            for _ in range(150):
                done = api.call("POST", "/v1/events", json={"events": transfers.request()})
            socket.progress(done["last_seq"])
            totals.take(socket)
            after = done["first_seq"]  # inside a request: its end is sent again
        if life < 2:
            bank.kill()
            bank.start()
    assert min(totals.changes[ROWS], totals.changes[GROUPS]) > 300


class Publisher:
    """Sends each request until it is acknowledged; under its key it is applied once."""

    def __init__(self, bank: ServerProcess, transfers: Transfers) -> None:
        self._bank, self._transfers = bank, transfers
        self._sent = 0

    def send(self, api: Api, body: Json) -> int:
        answer = api.call(
            "POST", "/v1/events", json=body, headers={"Idempotency-Key": f"transfer-{self._sent}"}
        )
        seq: int = answer["last_seq"]
        return seq

    def publish(self, api: Api) -> int:
        self._sent += 1
        return self.send(api, {"events": self._transfers.request()})

    def publish_and_kill(self, api: Api, executor: ThreadPoolExecutor) -> None:
        """The server is killed while it works on a request, which is sent again afterwards."""
        self._sent += 1
        body = {"events": self._transfers.request()}
        sending = executor.submit(self.send, api, body)
        self._bank.kill()
        assert isinstance(sending.exception(), httpx.HTTPError | None)
        with Api(self._bank.start()) as again:
            self.send(again, body)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12])
def test_totals_are_constant_over_a_hundred_thousand_transfers(bank: ServerProcess, seed: int) -> None:
    chance, transfers = random.Random(seed), Transfers(seed, most=40)
    publisher, after = Publisher(bank, transfers), None
    with Api(bank.url) as api:
        open_accounts(api)
        totals = Totals(api)
    with ThreadPoolExecutor(1) as executor:
        while transfers.count < 100_000:
            with Api(bank.url) as api, api.socket() as socket:
                totals.attach(socket, after)
                for _ in range(chance.randint(1, 10)):
                    for _ in range(chance.randint(1, 60)):
                        last = publisher.publish(api)
                    socket.progress(last)
                    totals.take(socket)
                    after = last
                publisher.publish_and_kill(api, executor)
    with Api(bank.url) as api, api.socket() as socket:
        assert totals.attach(socket, after) == api.call("GET", "/v1/status")["seq"]  # nobody publishes
        totals.take(socket)
        rows = api.subscribe("SELECT * FROM accounts")["result"]["rows"]
    assert {row["id"]: row["balance"] for row in rows} == transfers.balance
    assert sum(transfers.balance.values()) == TOTAL
    assert len(rows) == ACCOUNTS
    assert all(totals.changes[sql] > 1000 for sql in QUERIES[2:])
