"""Background tasks are started again when they fail, and `/healthz` fails once a thread of the engine has died."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.broker.process import Broker
from api.broker.remote_keys import RemoteKeys
from api.broker.renewal import Renewal
from api.http.app import make_app
from api.http.routes import streams
from api.server.backtests import BacktestService
from api.server.deployment import Deployment
from api.server.expiry import Expiry
from api.server.lifetime import ServerLifetime
from api.server.settings import BrokerSettings
from api.webhooks.requests import webhook_request
from api.webhooks.service import WebhookService
from api.webhooks.worker import DeliveryWorker
from cn.transport.nats import NatsTransport
from prosem.brokers.membership import Membership
from prosem.delivery.replayer import Replayer
from prosem.engine import commands as c
from prosem.engine.watchdog import WatchdogThread
from prosem.runtime.supervise import end, supervise, supervise_thread
from prosem.store.heartbeat import Heartbeat
from prosem.store.retiring import Retiring
from prosem.store.statistics import Listener
from prosem.values.access import KEYLESS
from tests.support.deployed import Deployed
from tests.support.receiver import Receiver
from tests.support.running import TABLE, publish, running, served, subscribe
from tests.support.waiting import until_async

SECRET = "a-secret-of-these-tests"


async def test_a_task_that_fails_is_started_again_and_counted() -> None:
    restarts: dict[str, int] = {}
    runs: list[int] = []

    async def work() -> None:
        runs.append(len(runs))
        if len(runs) < 4:
            raise OSError("lost")

    await supervise("worker", work, restarts, first_wait_s=0.001)
    assert (restarts, len(runs)) == ({"worker": 3}, 4)


async def test_a_task_is_ended_while_it_waits_to_be_started_again() -> None:
    failed = asyncio.Event()

    async def work() -> None:
        failed.set()
        raise OSError("lost")

    task = supervise("worker", work, {}, first_wait_s=1000)
    await failed.wait()
    await end(task, None)
    assert task.cancelled()


def test_a_thread_that_fails_is_started_again_until_it_is_closed() -> None:
    restarts: dict[str, int] = {}
    closing, runs = threading.Event(), list[int]()

    def work() -> None:
        runs.append(len(runs))
        if len(runs) < 4:
            raise OSError("lost")
        if len(runs) == 4:
            closing.set()
            raise OSError("lost, and nobody waits for it")

    made = supervise_thread("worker", work, restarts, closing, longest_wait_s=0.001)
    made.start()
    made.join(60)
    assert (restarts, len(runs), made.is_alive()) == ({"worker": 4}, 4, False)


async def _get(lifetime: ServerLifetime, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(make_app(lifetime))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        return await http.get(path)


async def _until(
    lifetime: ServerLifetime, path: str, is_there: Callable[[httpx.Response], bool]
) -> httpx.Response:
    """The first such response, which is given in a list: a response with an error status counts as false."""

    async def found() -> list[httpx.Response]:
        answer = await _get(lifetime, path)
        return [answer] if is_there(answer) else []

    return (await until_async(found))[0]


async def test_healthz_fails_when_the_committer_has_died(url: str) -> None:
    async with served(url) as lifetime:
        made = lifetime.running
        await made.call(c.CreateTable(TABLE))
        assert (await _get(lifetime, "/healthz")).status_code == 200

        def die(writes: object) -> None:
            raise SystemExit("the committer dies")

        made.writer.write = die  # type: ignore[method-assign, assignment]
        made.submit(publish({"op": "insert", "row": {"k": 1, "x": 1, "y": 1}}))
        answer = await _until(lifetime, "/healthz", lambda answer: answer.status_code != 200)
        assert answer.status_code == 503
        assert "restart the server" in answer.text
        assert "prosem_alive 0.0" in (await _get(lifetime, "/metrics")).text


async def test_a_watcher_that_dies_is_restarted_and_shown(url: str) -> None:
    async with served(url) as lifetime:
        made = lifetime.running
        made.replayer._requests = None  # type: ignore[assignment]
        made.replayer._wake.set()  # it fails on that
        metrics = await _until(
            lifetime,
            "/metrics",
            lambda answer: 'prosem_task_restarts_total{task="replayer"} 1.0' in answer.text,
        )
        assert 'task="prosem_keys"' in metrics.text
        assert (await _get(lifetime, "/v1/status")).json()["restarts"]["replayer"] == 1


async def test_a_task_ends_that_has_swallowed_a_cancellation() -> None:
    """As `asyncio.wait_for` of Python 3.11 does when the answer arrives at the same moment."""
    answers: asyncio.Queue[str] = asyncio.Queue()

    async def ask_for_ever() -> None:
        while True:
            answer = asyncio.ensure_future(answers.get())
            try:
                await asyncio.wait([answer])
            except asyncio.CancelledError:
                if not answer.done():
                    raise
            answer.result()

    asking = asyncio.create_task(ask_for_ever())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    answers.put_nowait("an answer")
    await asyncio.sleep(0)  # the answer has it, the task does not know yet
    await end(asking)
    assert asking.cancelled()


WORK: list[
    tuple[type, str, list[str]]
] = [  # of a server: a class, what it runs, and the tasks and threads that run it
    (Replayer, "_work", ["replayer"]),
    (Listener, "_run", ["prosem_keys", "prosem_statistics"]),
    (BacktestService, "_run", ["backtests"]),
    (Expiry, "_end_orphans", ["orphans"]),
    (Expiry, "_expire", ["expiry"]),
    (WebhookService, "_start", ["webhooks"]),
    (DeliveryWorker, "_run", ["webhook-delivery"]),
    (Retiring, "_run", ["retention"]),
    (Heartbeat, "_beat_all", ["heartbeat"]),
    (Heartbeat, "_watch", ["heartbeat-watchdog"]),
    (WatchdogThread, "_check_often", ["commit-watchdog"]),
    (Deployment, "_revive", ["nats-revive"]),
    (Membership, "_open", ["brokers-open"]),
    (Membership, "_watch", ["brokers-leases"]),
]
CARRYING: list[tuple[type, str, list[str]]] = [  # of a server and of a broker alike
    (NatsTransport, "_send_all", ["nats-send"]),
    (NatsTransport, "_repeat", ["nats-repeat"]),
    (NatsTransport, "_check_often", ["nats-check"]),
]
BROKER: list[tuple[type, str, list[str]]] = [
    (Broker, "_run", ["broker"]),
    (RemoteKeys, "watch", ["keys"]),
    (Renewal, "_run", ["lease-renewal"]),
]


def broken(monkeypatch: pytest.MonkeyPatch, work: list[tuple[type, str, list[str]]]) -> dict[str, int]:
    """Each of these fails when it is run for the first time; how often each will have been started again."""
    for owner, name, _ in work:

        def failing(self: Any, *given: Any, owner: Any = owner, name: str = name, **named: Any) -> Any:
            failed = self.__dict__.setdefault("failed_once", set())
            if name not in failed:
                failed.add(name)
                raise LookupError("injected")
            return originals[owner, name](self, *given, **named)

        originals[owner, name] = getattr(owner, name)
        monkeypatch.setattr(owner, name, failing)
    return {name: 1 for *_, names in work for name in names}


originals: dict[tuple[type, str], Callable[..., Any]] = {}


async def test_every_task_and_thread_of_a_server_is_started_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of each kind fails; all are shown, and what they do is done."""
    expected = broken(monkeypatch, WORK + CARRYING)
    with Receiver(SECRET) as receiver:
        async with served(url, nats="embedded", data_dir=str(tmp_path), ephemeral_s=1) as lifetime:
            made = lifetime.running
            await made.call(c.CreateTable(TABLE))
            await made.call(subscribe(0, 9, "s"))
            asked = {"url": receiver.url + "/hook", "subscriptions": ["s"], "secret": SECRET}
            await made.webhooks.create(KEYLESS, webhook_request(asked))
            await made.call(publish({"op": "insert", "row": {"k": 1, "x": 1, "y": 1}}))
            await until_async(lambda: any(receiver.deliveries.values()))
            await until_async(lambda: made.metrics.restarts == expected)
            shown = (await _get(lifetime, "/metrics")).text
            for name in expected:
                assert f'prosem_task_restarts_total{{task="{name}"}} 1.0' in shown
            await until_async(lambda: made.brokers.membership._is_open)
            proven = made.writer.session.proven_at
            await until_async(lambda: made.writer.session.proven_at > proven)  # by the heartbeat


async def test_every_task_and_thread_of_a_broker_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = broken(monkeypatch, BROKER + CARRYING)
    with Deployed(brokers=0) as deployed:
        made = Broker(BrokerSettings(server=deployed.server.url, name="one", advertise="none"))
        made.start()
        try:
            await until_async(lambda: made.is_ready)
            session = made.session
            assert session is not None
            joined = session.renewed
            await until_async(lambda: session.renewed > joined)
            await until_async(lambda: made.metrics.restarts == expected)
            (shown,) = [one for one in made.collect() if one.name == "prosem_task_restarts"]
            assert {one.labels["task"]: one.value for one in shown.samples} == expected
            assert made.session is session
        finally:
            await made.close()


async def test_a_socket_whose_frames_cannot_be_made_is_closed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its client would wait for ever: it connects again, and resumes."""
    closed: list[int] = []

    class Gone:
        """In the place of a socket."""

        async def close(self, code: int) -> None:
            closed.append(code)

    def failing(items: Any) -> Any:
        raise KeyError("injected")

    monkeypatch.setattr(streams, "frames", failing)
    async with running(url) as made:
        await made.call(c.CreateTable(TABLE))
        await made.call(subscribe(0, 9, "s"))
        subscriber = made.subscriber()
        subscriber.attach("s", None)
        await streams._send(Gone(), subscriber)  # type: ignore[arg-type]
        subscriber.close()
    assert closed == [1011]
