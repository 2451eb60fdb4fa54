"""How long publishers and subscribers wait when the server is lost and its standby takes over.

Two real `prosem serve --standby` processes on one PostgreSQL, each behind proxies towards its clients and towards the
database, so that its network can be cut. A publisher inserts rows one by one and a subscriber follows them, each a client
with both addresses. Measured is the longest time between two acknowledgements, and between two changes, around each fault.
Every row must be acknowledged once and arrive once, in order.
"""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from prosem_client import Client, Closed

from api.commands.process import free_port, start_command, wait_ready
from bench.common import Report, fail, progress
from bench.cut_proxy import CutProxy
from bench.postgres import migrated_postgres

ROWS_AROUND = 30  # that must be acknowledged before a fault, and after it
WAIT_S = 120.0
FAULTS = ("SIGTERM", "kill -9", "SIGSTOP", "lost network")


@dataclass
class Member:
    """One server, at `url` for its clients."""

    number: int
    port: int
    front: CutProxy
    behind: CutProxy
    command: tuple[str, ...]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.front.port}"

    def start(self) -> None:
        self.process = start_command(self.log, *self.command)

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def is_owner(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz", trust_env=False, timeout=1.0).is_success
        except httpx.HTTPError:
            return False

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait()


class Pair:
    """Two servers with one database, one of which owns it; a context manager."""

    def __init__(self, database: str, folder: Path, takeover_s: int, *options: str) -> None:
        self._open = ExitStack()
        self.members: list[Member] = []
        port = urlsplit(database).port
        assert port is not None
        for number in (1, 2):
            front, behind, own = free_port(), free_port(), free_port()
            command = (
                *("serve", "--standby", "--takeover-s", str(takeover_s), "--port", str(own)),
                *("--database", database.replace(f":{port}/", f":{behind}/"), *options),
            )
            proxies = CutProxy(front, own), CutProxy(behind, port)
            self.members.append(Member(number, own, *proxies, command, folder / f"server-{number}.log"))

    def __enter__(self) -> Pair:
        with ExitStack() as opened:
            for member in self.members:
                opened.enter_context(member.front)
                opened.enter_context(member.behind)
                opened.callback(member.end)
            first, second = self.members
            first.start()
            assert first.process is not None
            if not wait_ready(f"http://127.0.0.1:{first.port}", first.process):
                fail(f"a server does not start:\n{first.log.read_text()[-2000:]}")
            second.start()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def urls(self) -> str:
        return ",".join(member.url for member in self.members)

    def owner(self) -> Member:
        """The member that serves; waits for one."""
        found: Member = _until(
            lambda: next((one for one in self.members if one.is_owner()), None), "an owner"
        )
        return found

    def strike(self, fault: str, member: Member) -> None:
        if fault == "lost network":
            member.front.cut()
            member.behind.cut()
        else:
            member.signal(
                {"SIGTERM": signal.SIGTERM, "kill -9": signal.SIGKILL, "SIGSTOP": signal.SIGSTOP}[fault]
            )

    def heal(self, fault: str, member: Member) -> None:
        """The member is a standby again."""
        assert member.process is not None
        if fault == "lost network":
            member.front.mend()
            member.behind.mend()
        elif fault == "SIGSTOP":
            member.signal(signal.SIGCONT)
        else:
            member.process.wait()
            member.start()
        _until(lambda: _is_waiting(member), f"server {member.number} as a standby")


def _is_waiting(member: Member) -> bool:
    """Whether it answers, and that it does not serve."""
    try:
        return httpx.get(f"{member.url}/readyz", trust_env=False, timeout=1.0).status_code == 503
    except httpx.HTTPError:
        return False


def _until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (found := condition()):
        if time.monotonic() > deadline:
            fail(f"{what} did not come within {WAIT_S:.0f} s")
        time.sleep(0.02)
    return found


@dataclass
class Traffic:
    """A publisher that inserts 1, 2, 3, …, and a subscriber; when each was acknowledged, and when it arrived."""

    urls: str
    options: dict[str, Any]
    acknowledged: list[float] = field(default_factory=list)
    arrived: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @contextmanager
    def flowing(self) -> Iterator[Traffic]:
        self._closing = threading.Event()
        with Client(self.urls, **self.options) as client, Client(self.urls, **self.options) as other:
            client.create_table("t", {"k": "integer"}, ["k"])
            followed = other.subscribe("SELECT * FROM t WHERE k > :k", {"k": 0})
            threads = [
                threading.Thread(target=self._guarded, args=[work, end])
                for work, end in ((self._publish, client), (self._follow, followed))
            ]
            for thread in threads:
                thread.start()
            try:
                yield self
            finally:
                self._closing.set()
                threads[0].join()
                if not self.failures:
                    _until(
                        lambda: len(self.arrived) >= len(self.acknowledged) or self.failures, "every change"
                    )
                followed.close()
                threads[1].join()
        if self.failures:
            fail("; ".join(self.failures))
        if len(self.arrived) != len(self.acknowledged):
            fail(f"{len(self.acknowledged)} rows were acknowledged, {len(self.arrived)} arrived")

    def _guarded(self, work: Callable[[Any], None], end: Any) -> None:
        try:
            work(end)
        except Exception as error:
            self.failures.append(f"{work.__name__}: {error!r}")

    def _publish(self, client: Client) -> None:
        while not self._closing.is_set():
            number = len(self.acknowledged) + 1
            client.publish("t", [{"op": "insert", "row": {"k": number}}])
            self.acknowledged.append(time.monotonic())

    def _follow(self, followed: Any) -> None:
        while True:
            try:
                change = followed.next()
            except Closed:
                return
            if change.change != {"add": [{"k": len(self.arrived) + 1}], "remove": [], "update": []}:
                self.failures.append(f"after {len(self.arrived)} came {change}")
                return
            self.arrived.append(time.monotonic())

    def more(self, count: int = ROWS_AROUND) -> None:
        """Until so many further rows were acknowledged and arrived."""
        goal = len(self.acknowledged) + count
        _until(lambda: min(len(self.acknowledged), len(self.arrived)) >= goal or self.failures, "rows")
        if self.failures:
            fail("; ".join(self.failures))


def gap_s(times: list[float], since: float) -> float:
    """The longest time between two of these that ends after `since`.

    >>> gap_s([1.0, 2.0, 3.0, 7.0, 8.0], 3.5)
    4.0
    """
    return max(after - before for before, after in itertools.pairwise(times) if after > since)


def strike_once(pair: Pair, traffic: Traffic, fault: str) -> tuple[float, float]:
    """The longest waits of the publisher and the subscriber around one fault of the owner."""
    traffic.more()
    owner = pair.owner()
    since = time.monotonic()
    pair.strike(fault, owner)
    _until(lambda: any(member.is_owner() for member in pair.members if member is not owner), "a takeover")
    traffic.more()
    waits = gap_s(traffic.acknowledged, since), gap_s(traffic.arrived, since)
    pair.heal(fault, owner)
    return waits


def run(quick: bool) -> Report:
    rounds, takeover_s = (1, 2) if quick else (10, 10)
    client = {"timeout_s": 2.0, "alive_s": 2.0, "reconnect_s": 60.0}
    report = Report("takeover", {"rounds": rounds, "takeover_s": takeover_s, **client})
    rows = measure(rounds, takeover_s, client)
    report.figures = {"faults": rows}
    report.tables = [(f"Seconds without service, {rounds} takeovers each, --takeover-s {takeover_s}", rows)]
    return report


def measure(
    rounds: int, takeover_s: int, client: dict[str, Any], faults: tuple[str, ...] = FAULTS
) -> list[dict[str, Any]]:
    """The waits by fault: least, median and most."""
    with (
        migrated_postgres() as (url, folder),
        Pair(url, folder, takeover_s) as pair,
        Traffic(pair.urls, client).flowing() as traffic,
    ):
        return [_measured(pair, traffic, fault, rounds) for fault in faults]


def _measured(pair: Pair, traffic: Traffic, fault: str, rounds: int) -> dict[str, Any]:
    waits = []
    for number in range(rounds):
        waits.append(strike_once(pair, traffic, fault))
        progress(f"{fault} {number + 1}: publisher {waits[-1][0]:.2f} s, subscriber {waits[-1][1]:.2f} s")
    row: dict[str, Any] = {"fault": fault}
    for name, values in zip(("publish", "change"), zip(*waits, strict=True), strict=True):
        row |= {
            f"{name}_least_s": round(min(values), 2),
            f"{name}_median_s": round(statistics.median(values), 2),
            f"{name}_most_s": round(max(values), 2),
        }
    return row
