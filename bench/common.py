"""What all benchmarks share: progress on stderr, a table on stdout, one JSON object on request."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from prosem.runtime.garbage import COLLECT

One = TypeVar("One")
Found = TypeVar("Found")

_progress = Console(stderr=True)
WIDE = 200  # columns of a table that goes into a file or a pipe


@dataclass(frozen=True)
class Curve:
    """A diagram: named lines over one axis each, for `--plot`."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    logarithmic: str = ""  # the axes that are, of x and y
    marks: Sequence[float] = ()  # places on the x axis where something happened


@dataclass
class Report:
    """The outcome of a benchmark. `figures` keeps the names that outside checks use."""

    bench: str
    params: dict[str, Any]
    figures: dict[str, Any] = field(default_factory=dict)
    tables: list[tuple[str, Sequence[Mapping[str, Any]]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def show(self, as_json: bool) -> None:
        seconds = round(time.perf_counter() - self.started, 1)
        if as_json:
            document = {
                "bench": self.bench,
                "params": self.params,
                "figures": self.figures,
                "machine": machine(),
                "seconds": seconds,
            }
            print(json.dumps(document))
            return
        console = Console() if sys.stdout.isatty() else Console(width=WIDE)
        for title, rows in self.tables:
            table = Table(title=title, title_justify="left")
            for name in rows[0]:  # a number that is cut is a wrong one
                table.add_column(name, justify="right", overflow="fold")
            for row in rows:
                table.add_row(*(_short(value) for value in row.values()))
            console.print(table)
        for note in self.notes:
            console.print(note)
        console.print(f"[dim]{machine()['cpu']}, {machine()['cores']} cores, {seconds} s[/dim]")


def _short(value: Any) -> str:
    return (
        f"{value:,.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def progress(text: str) -> None:
    _progress.print(f"[dim]{text}[/dim]")


def machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def load_average() -> float:
    return round(os.getloadavg()[0], 1)


def resident_bytes() -> int:
    """The memory of this process; 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 0
    gc.collect()
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def as_served() -> Iterator[None]:
    """Garbage is collected as a server does: what was built before is not looked at again."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


Bench = Callable[[bool], Report]


def fail(text: str) -> None:
    """Strategies disagree: no figure of such a run is worth anything."""
    print(f"bench failed: {text}", file=sys.stderr)
    raise SystemExit(1)


def child_found(module: str, *arguments: object) -> dict[str, Any]:
    """What `child` of a module prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"from {module} import child; child()", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if done.returncode:
        fail(f"a process of {module} failed: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def on_all_cores(work: Callable[[One], Found], given: Sequence[One]) -> list[Found]:
    """What some work finds for each of what is given, in forked processes: for counts, not for times.

    The processes have what the caller has at that moment; what they find is pickled. As many run as there are cores, and
    each takes the next one of what is given when it has ended one: the dearest had better come first. The bench ends with
    the first one that fails.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        return [work(one) for one in given]
    _forked.append(work)
    try:
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
            waiting = [pool.submit(_in_fork, one) for one in given]
            try:
                return [one.result() for one in waiting]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        _forked.pop()


def side_by_side(work: Mapping[str, Callable[[], Found]]) -> dict[str, Found]:
    """What each of these finds, by its name."""
    found = on_all_cores(lambda name: work[name](), [*work])
    return dict(zip(work, found, strict=True))


_forked: list[Callable[[Any], Any]] = []  # work that processes take over from the one that forks them


def _in_fork(one: Any) -> Any:
    return _forked[-1](one)
