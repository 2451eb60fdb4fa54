"""Rebuilds of the state: the one before is released first, and nothing of it stays."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from api.server import memory
from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.values.errors import CommitError, ProsemError, RecoveringError, SetupError
from tests.support.every_type import subscribe_every_type
from tests.support.live import update
from tests.support.running import Listener, publish, running
from tests.support.waiting import until_async


async def rebuild(made: RunningServer) -> None:
    """A commit fails, and the state is built again."""
    made.writer.fail_after = 0
    before = weakref.ref(made.state)
    with pytest.raises(CommitError):
        await made.call(publish(update(1, y=5)))
    await rebuilt(made, before)


async def rebuilt(made: RunningServer, before: weakref.ref[EngineState]) -> None:
    """Wait until another state than this one is served."""
    await until_async(lambda: made.is_ready and made.engine.state not in (None, before()))


def parts(made: RunningServer) -> list[weakref.ref[Any]]:
    """The state and whatever of it should go with it."""
    state = made.state
    spaces = list(state.spaces.values())
    assert len(spaces) > 8, "a space of most types"
    found: list[Any] = [state, state.registry, state.group_store, state.table_store, state.chooser, *spaces]
    return [weakref.ref(one) for one in found]


async def test_the_state_is_released_before_the_next_one_is_built(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old: list[weakref.ref[Any]] = []
    alive: list[str] = []
    recover = memory.recover

    def watched(*arguments: Any, **options: Any) -> Any:
        alive.extend(type(found).__name__ for one in old if (found := one()) is not None)
        return recover(*arguments, **options)

    monkeypatch.setattr(memory, "recover", watched)

    async with running(url) as made:
        listener = await Listener(made, *await subscribe_every_type(made)).attached()
        await rebuild(made)
        for number in range(3):
            await made.call(publish(update(2, y=number)))
            old[:] = parts(made)
            await rebuild(made)
        done = await made.call(publish(update(3, y=1000)))
        await listener.progress(done["last_seq"])
        await listener.close()
    assert old, "the test watched nothing"
    assert alive == []


@pytest.mark.slow
async def test_ten_rebuilds_leave_no_objects_behind(url: str) -> None:
    counts: list[int] = []

    async with running(url) as made:
        listener = await Listener(made, *await subscribe_every_type(made, 2_000)).attached()
        for _ in range(10):
            await rebuild(made)
            done = await made.call(publish(update(3, y=1000 + len(counts) % 2)))
            await listener.progress(done["last_seq"])
            listener.seen.clear()
            counts.append(gc.get_freeze_count())
        await listener.close()
    first, *later = counts[2:]  # what is made once and kept is there by then
    assert (max(later) - first) / len(later) < 500, counts  # a state has 2,500; the log of a test keeps some


async def test_a_command_that_breaks_the_state_does_not_keep_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traceback of the error refers to the frames of the command, and so to the state."""
    old: list[weakref.ref[Any]] = []
    alive: list[str] = []
    recover = memory.recover

    def watched(*arguments: Any, **options: Any) -> Any:
        alive.extend(type(found).__name__ for one in old if (found := one()) is not None)
        return recover(*arguments, **options)

    monkeypatch.setattr(memory, "recover", watched)

    def broken(state: Any) -> None:
        raise ZeroDivisionError("a fault of ours")

    async with running(url) as made:
        await subscribe_every_type(made)
        old[:] = parts(made)
        with pytest.raises(ProsemError, match="a fault of ours"):
            await made.call(c.Inspect(broken))
        await rebuilt(made, old[0])
        assert (await made.call(publish(update(3, y=4))))["count"] == 1
    assert alive == []


async def test_reads_are_refused_while_the_state_is_built(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[Exception] = []
    recover = memory.recover

    async with running(url) as made:
        await subscribe_every_type(made)

        def watched(*arguments: Any, **options: Any) -> Any:
            assert not made.is_ready
            with pytest.raises(RecoveringError) as caught:
                _ = made.state
            refused.append(caught.value)
            return recover(*arguments, **options)

        monkeypatch.setattr(memory, "recover", watched)
        await rebuild(made)
        assert made.state.seq
    assert [type(error) for error in refused] == [RecoveringError]


async def test_a_database_that_is_gone_during_a_rebuild_is_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild that cannot read the database is tried again, also when it says that the setup is wrong."""
    attempts: list[bool] = []
    recover = memory.recover

    def failing(*arguments: Any, **options: Any) -> Any:
        attempts.append(options["restart"])
        if len(attempts) < 3:
            raise SetupError("the database cannot be reached")
        return recover(*arguments, **options)

    async with running(url) as made:
        ids = await subscribe_every_type(made)
        monkeypatch.setattr(memory, "recover", failing)
        await rebuild(made)
        assert (await made.call(c.Result(ids[0])))["seq"] == made.state.seq
    assert attempts == [False, False, False]
