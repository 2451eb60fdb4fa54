"""Background tasks are started again when they fail, and `/healthz` fails once a thread of the engine has died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx

from api.http.app import make_app
from api.server.lifetime import ServerLifetime
from prosem.engine import commands as c
from prosem.runtime.supervise import end, supervise
from tests.support.running import TABLE, publish, served
from tests.support.waiting import until_async


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
