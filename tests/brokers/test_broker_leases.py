"""Leases of the network itself (`stages` with a `ttl`): a silent broker is dropped, and the next one is too."""

from __future__ import annotations

import signal

import pytest

from tests.support.deployed import Deployed
from tests.support.live import Api, attached, insert, lowest
from tests.support.waiting import until

pytest.importorskip("nats")


def test_the_server_goes_on_checking_leases_after_one_was_over() -> None:
    """The lease of the membership is long: only that of the network runs out."""
    options = ("--network", "stages", "--network-options", "ttl=2", "--lease-s", "20")
    with Deployed(brokers=2, options=options) as deployed, Api(deployed.server.url) as api:
        first, second = deployed.brokers
        table = api.table({"k": "integer", "x": "integer", "y": "integer"}, ["k"])
        id = lowest(api, table)
        with attached(first.url, [id]) as one, attached(second.url, [id]) as two:
            for broker in (first, second, first):
                name = broker.folder.name
                deployed.signal(signal.SIGSTOP, broker)
                until(lambda name=name: name not in deployed.names())  # type: ignore[misc]
                deployed.signal(signal.SIGCONT, broker)
                until(lambda name=name: name in deployed.names())  # type: ignore[misc]
            seq = api.publish(table, [insert(k=1, x=1, y=1)])["last_seq"]
            for socket in (one, two):
                socket.progress(seq)
                assert socket.seqs(id) == [seq]
        assert "Traceback" not in deployed.server.log
