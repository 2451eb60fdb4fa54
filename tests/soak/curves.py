"""Memory and latency of a running load over time, as a picture."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from pathlib import Path

from bench.common import Curve
from bench.plots import draw_curves
from prosem.store import postmaster
from tests.soak.load import Load
from tests.support.deployed import Deployed

SAMPLE_S = 20.0
MIB = 2**20


class Curves:
    """`sample` runs beside a load; times are minutes since the beginning."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._start = time.monotonic()
        self.memory: dict[str, list[tuple[float, float]]] = {}
        self.latency: dict[str, list[tuple[float, float]]] = {}
        self.kills: list[tuple[float, str]] = []

    @property
    def now_min(self) -> float:
        return (time.monotonic() - self._start) / 60

    async def sample(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            self._sample_memory()
            self._sample_latency()

    def _sample_memory(self) -> None:
        for name, bytes in memory_bytes(self._load.deployed).items():
            self.memory.setdefault(name, []).append((self.now_min, bytes / MIB))

    def _sample_latency(self) -> None:
        broker, server = self._load.followers[0], self._load.followers[-1]
        measured = {"acknowledged": self._load.acknowledgements_s}
        measured |= {"change from a broker": broker.latencies_s, "change from the server": server.latencies_s}
        for name, values in measured.items():
            if len(values) >= 2:
                cuts = statistics.quantiles(values, n=100, method="inclusive")
                for part, cut in (("median", 49), ("p99", 98)):
                    self.latency.setdefault(f"{name}, {part}", []).append((self.now_min, cuts[cut] * 1000))
            values.clear()

    def draw(self, path: Path) -> None:
        marks = [at for at, _ in self.kills]
        draw_curves(
            [
                Curve("Memory (dotted: kill -9 of a part)", "minutes", "MiB", self.memory, marks=marks),
                Curve(f"Latency, each {SAMPLE_S:.0f} s", "minutes", "ms", self.latency, "y", marks=marks),
            ],
            path,
        )

    @property
    def summary(self) -> list[str]:
        """Of each line the median over the first and the last quarter."""
        lines = []
        for unit, drawn in (("MiB", self.memory), ("ms", self.latency)):
            for name, points in drawn.items():
                values = [value for _, value in points]
                quarter = max(1, len(values) // 4)
                first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
                lines.append(
                    f"{name}: {first:.1f} {unit} in the first quarter, {last:.1f} {unit} in the last"
                )
        return lines


def memory_bytes(deployed: Deployed) -> dict[str, int]:
    """Of each part: its proportional set size, so that what processes share counts once. A part that is away has none."""
    found = {}
    data = deployed.server.folder / "data"
    if deployed.server.process is not None:
        found["server"] = _proportional(deployed.server.process.pid)
    for broker in deployed.brokers:
        if broker.process is not None:
            found[broker.folder.name] = _proportional(broker.process.pid)
    if running := postmaster.find(data / "cluster"):
        found["PostgreSQL"] = sum(map(_proportional, [running.pid, *_children(running.pid)]))
    with contextlib.suppress(OSError, ValueError):
        found["NATS"] = _proportional(int((data / "nats" / "nats.pid").read_text()))
    return {name: size for name, size in found.items() if size}


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
