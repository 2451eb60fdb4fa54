"""Leases of the network itself (`stages` with a `ttl`): a silent broker is dropped, and the next one is too."""

from __future__ import annotations

import signal
from itertools import pairwise
from types import SimpleNamespace

import pytest

from tests.support.deployed import Deployed
from tests.support.live import Api, attached, insert, lowest
from tests.support.waiting import until

pytest.importorskip("nats")

from api.broker import process
from api.broker.session import Session
from api.server.settings import BrokerSettings
from cn.model.frames import Lease, PositionMark
from cn.networks.stages import StageNode


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


def test_a_lease_deep_in_the_tree_is_over_and_the_server_hears_of_it() -> None:
    """Only the broker above it misses its renewals; it is told to the server on the way up, and the broker comes back."""
    options = ("--network", "stages", "--network-options", "ttl=2,fan_out=1", "--lease-s", "60")
    with Deployed(options=options) as deployed, Api(deployed.server.url) as api:
        parents = {one["parent"]: one["name"] for one in deployed.network()["brokers"]}
        first = parents["server"]
        last = deployed.broker(parents[parents[first]])
        table = api.table({"k": "integer", "x": "integer", "y": "integer"}, ["k"])
        id = lowest(api, table)
        with attached(last.url, [id]) as far, attached(deployed.broker(first).url, [id]) as near:
            deployed.signal(signal.SIGSTOP, last)
            until(lambda: last.folder.name not in deployed.names())
            assert len(deployed.names()) == 2, "those above it renew theirs"
            seq = api.publish(table, [insert(k=1, x=1, y=1)])["last_seq"]
            deployed.signal(signal.SIGCONT, last)
            for socket in (far, near):
                socket.progress(seq)
                assert socket.seqs(id) == [seq]
            until(lambda: last.folder.name in deployed.names())
        assert f"{last.folder.name}-" in deployed.server.log
        assert "its lease in the network is over" in deployed.server.log
        assert "Traceback" not in deployed.server.log


@pytest.mark.parametrize(("ttl", "every_s"), [(1, 1.0), (2, 1.0), (5, 1.0), (10, 0.5)])
def test_a_lease_is_renewed_before_it_is_over(ttl: int, every_s: float) -> None:
    """Whatever the ticks of the process: also when each comes a tenth late."""
    node = StageNode("b", {"ttl": ttl})
    list(node.receive("server", PositionMark(1, 1)))
    late_s = every_s * 1.1
    at = [step * late_s for step in range(60)]
    renewed = [now for now in at if any(isinstance(frame, Lease) for _, frame in node.tick(now))]
    assert len(renewed) > 3
    assert max(later - earlier for earlier, later in pairwise(renewed)) <= max(ttl, late_s) + 1e-9


async def test_a_broker_that_was_stopped_takes_no_other_for_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewals that came meanwhile wait unread: the time does not pass for those who are not listened to."""
    now, ticks = [100.0], list[float]()
    session = Session({"node": "b", "parent": "server", "stream": "", "lease_s": 9.0, "subjects": ""}, None)  # type: ignore[arg-type]
    made = process.Broker(BrokerSettings(name="one"))

    def tick(at: float) -> None:
        ticks.append(at)
        now[0] += 60.0 if len(ticks) == 3 else process.TICK_S
        if len(ticks) == 6:
            session.end("enough")

    monkeypatch.setattr(made.feed, "tick", tick)
    monkeypatch.setattr(process, "TICK_S", 0.001)
    monkeypatch.setattr(process, "Renewal", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: now[0]))
    await made._live(session)
    assert [round(later - earlier, 6) for earlier, later in pairwise(ticks)] == [0.001] * 5
