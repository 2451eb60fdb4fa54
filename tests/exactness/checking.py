"""The whole check: a server and its log, the archive, a backtest of each statement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pipeline.statistics.database import connect, take_lock
from pipeline.statistics.job import Job, Options
from pipeline.statistics.progress import Steps
from pipeline.statistics.session import Session
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from tests.exactness.comparison import Compared, compare
from tests.exactness.recording import Recorded, Recording, Size
from tests.support.backtested import CASES
from tests.support.database import empty_database
from tests.support.live import Api
from tests.support.processes import ServerProcess


class Checked(NamedTuple):
    """`since`: when the subscriptions began."""

    recorded: Recorded
    archive: str
    since: datetime
    compared: list[Compared]

    @property
    def differences(self) -> list[str]:
        return [one for some in self.compared for one in some.differences]

    @property
    def notifications(self) -> int:
        """Those that were equal."""
        return sum(one.notifications for one in self.compared)

    @property
    def summary(self) -> str:
        parts = sum(one.subscriptions for one in self.compared)
        equal, recorded = self.notifications, self.recorded
        seconds = sum(one.seconds for one in self.compared)
        return (
            f"backtests of {len(self.compared)} statements, {parts:,} subscriptions (with the later parts of"
            f" {recorded.changed:,} that were moved, suspended or deleted), {recorded.end - recorded.start:,} events in"
            f" {recorded.requests:,} requests: {equal:,} notifications equal to a server's (of"
            f" {len(recorded.changes):,} that it sent), {len(self.differences)} differences; backtests {seconds:.0f} s"
        )


def check(
    postgres: EmbeddedPostgres,
    session: Session,
    folder: Path,
    size: Size,
    seed: int,
    say: Callable[[str], object] = lambda said: None,
) -> Checked:
    """Everything, in a database and a folder of its own."""
    url = empty_database(postgres)
    schema.migrate(url)
    archive = str(folder / "archive")

    @contextmanager
    def step(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        say(f"{name}: {time.perf_counter() - began:.1f} s")

    server = ServerProcess("--database", url)
    try:
        with Api(server.start()) as api:
            recording = Recording(server.url, size, seed)
            with step("rows"):
                recording.fill(api)
            with step("archive with a copy of the tables"):
                _refresh(session, url, archive)
            with step("subscriptions"):
                recording.subscribe(api)
        since = datetime.now(UTC)
        with step("log"):
            asyncio.run(recording.run())
    except BaseException:
        say(f"the end of the server's log:\n{server.log[-3_000:]}")
        raise
    finally:
        server.remove()
    recorded = recording.recorded
    say(f"{len(recorded.changes):,} changes of {recorded.end - recorded.start:,} events")
    with step("archive"):
        _refresh(session, url, archive)
    compared = []
    for number, name in enumerate(CASES):
        with step(name):
            compared.append(compare(session, recorded, name, archive, since, folder / str(number)))
        say(f"  {compared[-1]}")
    return Checked(recorded, archive, since, compared)


def _refresh(session: Session, url: str, archive: str) -> None:
    """What the statistics job adds to the archive."""
    with connect(url) as connection:
        take_lock(connection)
        Job(session, Options(url, archive, quiet=True), Steps(quiet=True), connection).update_archive()
