"""Delivery over brokers: the changes that reach listeners, with the server's own sockets and with 1, 2 and 4 brokers.

A server with an embedded NATS, `prosem broker` processes, and a listener process for each of them. Everything shares the
machine, so the changes per second grow only as far as there are cores; the CPU time of a change says what a machine of its
own would do: what the server spends on it does not grow with the subscribers, and each broker spends its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import httpx

from api.commands.process import free_port, start_broker, wait_ready
from bench.common import Report, fail, progress
from bench.end_to_end import Served
from bench.listener import Listener


def run(quick: bool) -> Report:
    subscriptions, tuples, seconds = (2_000, 500, 1.0) if quick else (20_000, 2_000, 6.0)
    counts = (0, 1, 2) if quick else (0, 1, 2, 4)
    report = Report("fan-out", {"subscriptions": subscriptions, "seconds": seconds, "quick": quick})
    rows = []
    with Served("--nats", "embedded") as served:
        served.fill(tuples, subscriptions)
        for number in counts:
            progress(f"fan-out: {number} brokers")
            rows.append(_measure(served, number, seconds))
    report.figures = {"by_brokers": rows, "cores": os.cpu_count()}
    report.tables = [(f"{subscriptions:,} subscriptions, all attached", rows)]
    report.notes = [
        f"{os.cpu_count()} cores for the server, PostgreSQL, NATS, brokers, listeners and the publisher together."
    ]
    return report


def _measure(served: Served, number: int, seconds: float) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        urls = stack.enter_context(_brokers(served, number)) or [served.url]
        shares = [served.ids[at :: len(urls)] for at in range(len(urls))]
        listeners = [
            stack.enter_context(Listener(url, ids, sockets=max(1, 4 // len(urls))))
            for url, ids in zip(urls, shares, strict=True)
        ]
        together = _Together(listeners)
        together.wait_attached()
        before = _cpu(served.url), sum(map(_cpu, urls))
        rate, received = served.deliver(together, seconds)
        server, brokers = _cpu(served.url) - before[0], sum(map(_cpu, urls)) - before[1]
        if not received:
            fail("no change was delivered")
    return {
        "brokers": number,
        "changes_per_s": round(rate),
        "changes": received,
        "us_server": round(server / received * 1e6, 2),
        "us_broker": round(brokers / received * 1e6, 2) if number else 0.0,
    }


@contextlib.contextmanager
def _brokers(served: Served, number: int) -> Iterator[list[str]]:
    """So many brokers; their addresses."""
    processes, urls = [], []
    try:
        for at in range(number):
            port = free_port()
            urls.append(f"http://127.0.0.1:{port}")
            log = served.folder / f"broker-{at}.log"
            processes.append(start_broker(port, served.url, f"broker-{at}", log))
        for url, process in zip(urls, processes, strict=True):
            if not wait_ready(url, process):
                fail(f"the broker at {url} did not start")
        yield urls
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
            process.wait(40)


class _Together:
    """Several listener processes as one."""

    def __init__(self, listeners: list[Listener]) -> None:
        self._listeners = listeners

    def count(self) -> int:
        return sum(listener.count() for listener in self._listeners)

    def wait_attached(self, seconds: float = 120.0) -> None:
        for listener in self._listeners:
            listener.wait_attached(seconds)

    def wait_progress(self, seq: int, seconds: float = 60.0) -> None:
        for listener in self._listeners:
            listener.wait_progress(seq, seconds)


def _cpu(url: str) -> float:
    text = httpx.get(url + "/metrics", trust_env=False, timeout=30).text
    found = re.search(r"^prosem_process_cpu_seconds_total (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0
