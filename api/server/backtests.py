"""Backtests as jobs: queued, run one at a time in a process of their own, and kept until newer ones push them out.

Jobs live in the memory of the server: a restart forgets them and ends the one that runs. A process that is cancelled is
killed with all that it started (Java), and ends itself if the server is killed: its standard input is then closed. What it
writes is in a folder of the server, and what is not kept is removed when it ends; what a killed server left, by the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
import sys
import uuid
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from api.server.held_folder import HeldFolder
from pipeline.backtest.pages import read_page
from prosem.runtime.supervise import end, supervise
from prosem.values.errors import BusyError, ConflictError, NotFoundError
from prosem.values.model import JsonObject
from prosem.values.wire import decode, encode_exact

PREFIX = "prosem-backtests-"  # of the folder with results, and with what processes write meanwhile
MOST_WAITING = 20
KEPT = 100
RETRY_AFTER_S = 60
_LINE_BYTES = 64 << 20
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LAST_WORDS = 2_000  # characters of what a process wrote before it died


@dataclass
class BacktestJob:
    """`state` is queued, running, done, failed or cancelled; `steps` are those begun so far.

    `progress` is how many of Spark's tasks are done in the last of these; `pages` the file with what was found of each
    subscription.
    """

    tenant: str
    request: JsonObject
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    state: str = "queued"
    steps: list[str] = field(default_factory=list)
    progress: JsonObject | None = None
    result: Any = None
    error: str | None = None

    @property
    def is_over(self) -> bool:
        return self.state not in ("queued", "running")

    @property
    def pages(self) -> Path:
        return Path(self.request["pages"])

    def page(self, after: int, limit: int) -> JsonObject:
        """At most so many subscriptions after a place; ConflictError while there is no result."""
        if self.state != "done":
            raise ConflictError(
                f"the backtest is {self.state}: what it finds of each subscription is there when it is done"
            )
        found = read_page(str(self.pages), after, limit)
        is_last = len(found) < limit or found[-1]["subscription"] + 1 == len(self.request["subscriptions"])
        days = [one["day"] for one in self.result["per_day"]]
        return {"days": days, "subscriptions": found, "next": None if is_last else found[-1]["subscription"]}

    def document(self, *, with_result: bool = True) -> JsonObject:
        shown = {
            "id": self.id,
            "created": self.created,
            "state": self.state,
            "sql": self.request["sql"],
            "subscriptions": len(self.request["subscriptions"]),
            "steps": list(self.steps),
            "progress": self.progress,
            "error": self.error,
        }
        return {**shown, "result": self.result} if with_result else shown


class BacktestService:
    """Used on the loop's thread."""

    def __init__(self, archive: str, master: str, restarts: MutableMapping[str, int]) -> None:
        self._archive, self._master, self._restarts = archive, master, restarts
        self._jobs: dict[str, BacktestJob] = {}
        self._folder = HeldFolder(PREFIX)
        self._waiting: asyncio.Queue[BacktestJob] = asyncio.Queue()
        self._process: asyncio.subprocess.Process | None = None
        self._current: BacktestJob | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = supervise("backtests", self._run, self._restarts)

    async def close(self) -> None:
        await end(self._task)
        await asyncio.to_thread(self._folder.close)

    # -- jobs ----------------------------------------------------------------------------------------------------
    def submit(self, tenant: str, request: JsonObject) -> BacktestJob:
        """Queue a backtest over the archive of this database; ConflictError if there is none."""
        if not _SCHEME.match(self._archive) and not (Path(self._archive) / request["archive_of"]).is_dir():
            raise ConflictError(
                f"there is no archive of this database in {self._archive}: prosem stats refresh fills it; "
                "--archive of the server names another folder"
            )
        if sum(not one.is_over for one in self._jobs.values()) >= MOST_WAITING:
            raise BusyError(f"{MOST_WAITING} backtests wait already", retry_after_s=RETRY_AFTER_S)
        job = BacktestJob(tenant, {**request, "archive": self._archive, "tenant": tenant})
        job.request["pages"] = str(self._folder.path / job.id)
        self._jobs[job.id] = job
        over = [one.id for one in self._jobs.values() if one.is_over]
        for id in over[: max(0, len(self._jobs) - KEPT)]:
            self._forget(id)
        self._waiting.put_nowait(job)
        return job

    def jobs(self, tenant: str) -> list[BacktestJob]:
        """Newest first."""
        return [one for one in reversed(self._jobs.values()) if one.tenant == tenant]

    def job(self, tenant: str, id: str) -> BacktestJob:
        found = self._jobs.get(id)
        if found is None or found.tenant != tenant:
            raise NotFoundError(f"there is no backtest {id[:200]!r}")
        return found

    def cancel(self, tenant: str, id: str) -> BacktestJob:
        """End a backtest that waits or runs, and forget it."""
        job = self.job(tenant, id)
        if not job.is_over:
            job.state = "cancelled"
            if job is self._current:
                self._kill()
        self._forget(id)
        return job

    def _forget(self, id: str) -> None:
        self._jobs.pop(id).pages.unlink(missing_ok=True)

    # -- the process ---------------------------------------------------------------------------------------------
    async def _run(self) -> None:
        await asyncio.to_thread(self._folder.remove_abandoned)
        while True:
            job = await self._waiting.get()
            if job.is_over:
                continue
            self._current = job
            try:
                await self._carry_out(job)
            finally:
                self._current = self._process = None

    async def _carry_out(self, job: BacktestJob) -> None:
        """In a process whose temporary files are removed with it, Spark's too, which a killed Java leaves."""
        job.state = "running"
        scratch = self._folder.path / f"{job.id}.tmp"
        scratch.mkdir()
        try:
            await self._attend(job, scratch)
        finally:
            self._kill()
            shutil.rmtree(scratch, ignore_errors=True)

    async def _attend(self, job: BacktestJob, scratch: Path) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pipeline.backtest.process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_LINE_BYTES,
            env=os.environ | _temporary(scratch),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        words = asyncio.create_task(_last_words(process.stderr))
        try:
            with contextlib.suppress(ConnectionError):
                process.stdin.write(encode_exact({**job.request, "master": self._master}) + b"\n")
                await process.stdin.drain()
            async for line in process.stdout:
                self._take(job, line)
            await process.wait()
            said = (await words).strip()
        finally:
            process.stdin.close()
            words.cancel()
        if not job.is_over:
            job.state, job.error = "failed", f"the process ended with {process.returncode}: {said}"

    def _take(self, job: BacktestJob, line: bytes) -> None:
        try:
            said = decode(line)
        except ValueError:
            return  # a library that prints
        if not isinstance(said, dict) or job.is_over:
            return
        if "step" in said:
            job.steps.append(said["step"])
            job.progress = None
        elif "progress" in said:
            job.progress = said["progress"]
        elif "result" in said:
            job.state, job.result = "done", said["result"]
        elif "error" in said:
            job.state, job.error = "failed", said["error"]

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _temporary(folder: Path) -> dict[str, str]:
    """Variables by which Python and Java keep their temporary files in a folder."""
    java = (os.environ.get("JDK_JAVA_OPTIONS", ""), shlex.quote(f"-Djava.io.tmpdir={folder}"))
    return {"TMPDIR": str(folder), "JDK_JAVA_OPTIONS": " ".join(java).strip()}


async def _last_words(stream: asyncio.StreamReader) -> str:
    kept = ""
    while block := await stream.read(4_096):
        kept = (kept + block.decode(errors="replace"))[-_LAST_WORDS:]
    return kept
