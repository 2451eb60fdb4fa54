"""A flame graph of the server under the load of `end-to-end`: where its threads spend their CPU time.

    python -m bench.flame_graph docs/images/flame-graph.svg

Samples are taken by py-spy, a tool of its own (`pip install py-spy`), from outside of the server's process. The width of a
thread is its CPU time as the system counts it; within a thread widths are samples, without those in which it waits for work
or for PostgreSQL. So the loop's own work below Python (sockets, timers) is spread over what it calls. The picture is plain
SVG, with the share of each box as a tooltip.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from bench.common import progress
from bench.end_to_end import Served, cpu_s
from bench.listener import Listener

WIDTH, ROW, LETTER = 1200, 17, 6.6  # pixels: of the picture, of a line, of a letter
LEAST = 0.004  # the share below which a box is left out
RATE = 250  # samples per second
_THREAD = re.compile(r"thread \((\d+)\): (.*)")
_LINE = re.compile(r"(.*) \((.*?)(?::\d+)?\)$")
_BEGINS = ("Runner.run", "Engine._run", "Thread.run")  # what is below these is the same for all samples
_WAITS = frozenset({"Runner.run", "Condition.wait", "Event.wait", "Connection.wait"})


@dataclass
class Box:
    """A function with what it calls, in seconds of CPU time."""

    name: str
    file: str = ""
    cpu_s: float = 0.0
    calls: dict[tuple[str, str], Box] = field(default_factory=dict)

    def add(self, stack: list[tuple[str, str]], cpu_s: float) -> None:
        self.cpu_s += cpu_s
        if stack:
            inner = self.calls.setdefault(stack[0], Box(*stack[0]))
            inner.add(stack[1:], cpu_s)


def read(folded: str, cpu_s: dict[int, float]) -> Box:
    """Folded stacks (`thread;function (file:line);… samples`) as one box, whose calls are the threads.

    >>> text = "thread (1): MainThread;Runner.run (a.py:3);f (b.py:1) 3\\nthread (1): MainThread;Runner.run (a.py:4) 1"
    >>> found = read(text, {1: 0.5})
    >>> [(box.name, box.cpu_s, [inner.name for inner in box.calls.values()]) for box in found.calls.values()]
    [('loop', 0.5, ['f'])]
    """
    stacks: dict[tuple[int, str], list[tuple[list[tuple[str, str]], int]]] = {}
    for line in folded.splitlines():
        text, _, samples = line.rpartition(" ")
        thread, *frames = text.split(";")
        named = _THREAD.match(thread)
        stack = [(str(part[1]), str(part[2])) for frame in frames if (part := _LINE.match(frame))]
        if named is None or not stack or stack[-1][0] in _WAITS:
            continue
        begin = max((at + 1 for at, (name, _) in enumerate(stack) if name in _BEGINS), default=0)
        name = "loop" if named[2] == "MainThread" else named[2]
        stacks.setdefault((int(named[1]), name), []).append((stack[begin:], int(samples)))
    whole = Box("all")
    for (thread_id, name), seen in stacks.items():
        each_s = cpu_s.get(thread_id, 0.0) / sum(count for _, count in seen)
        for stack, count in seen:
            whole.add([(name, ""), *stack], count * each_s)
    return whole


def drawn(whole: Box, title: str) -> str:
    """Plain SVG, callers below what they call."""
    deepest = max(_depth(box, whole.cpu_s) for box in whole.calls.values())
    height = ROW * (deepest + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/><text x="4" y="13">{escape(title)}</text>',
    ]
    _draw(whole, 0.0, -1, whole.cpu_s, height, parts)
    return "\n".join([*parts, "</svg>", ""])


def _depth(box: Box, all_s: float) -> int:
    if box.cpu_s < LEAST * all_s:
        return 0
    return 1 + max((_depth(inner, all_s) for inner in box.calls.values()), default=0)


def _draw(box: Box, left: float, level: int, all_s: float, height: int, parts: list[str]) -> None:
    share = box.cpu_s / all_s
    if share < LEAST:
        return
    width = WIDTH * share
    if level >= 0:
        top = height - ROW * (level + 1)
        text = box.name[: max(0, int((width - 4) / LETTER))]
        tip = f"{box.name} {box.file} {100 * share:.1f} %"
        parts.append(
            f'<g><title>{escape(tip)}</title><rect x="{left:.1f}" y="{top}" width="{max(0.5, width - 0.5):.1f}"'
            f' height="{ROW - 1}" fill="{_colour(box, level)}"/>'
            f'<text x="{left + 2:.1f}" y="{top + 12}">{escape(text)}</text></g>'
        )
    for inner in sorted(box.calls.values(), key=lambda inner: -inner.cpu_s):
        _draw(inner, left, level + 1, all_s, height, parts)
        left += WIDTH * inner.cpu_s / all_s


def _colour(box: Box, level: int) -> str:
    """By origin: threads, this project, its dependencies."""
    if level == 0:
        return "#c9d7e8"
    return "#f2b279" if box.file.startswith(("prosem/", "api/", "cn/", "optimizer/")) else "#e4e0d5"


def threads_cpu_s(pid: int) -> dict[int, float]:
    return {int(one.name): cpu_s(one) for one in Path(f"/proc/{pid}/task").iterdir()}


def sampled(pid: int, seconds: float) -> str:
    tool = shutil.which("py-spy")
    if tool is None:
        raise SystemExit("py-spy is not installed: pip install py-spy")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "stacks"
        command = [tool, "record", "--pid", str(pid), "--duration", str(round(seconds)), "--rate", str(RATE)]
        subprocess.run(
            [*command, "--threads", "--format", "raw", "--output", str(output)],
            check=True, capture_output=True,
        )  # fmt: skip
        return output.read_text()


def main(target: Path, subscriptions: int = 20_000, tuples: int = 10_000, seconds: float = 15.0) -> None:
    with Served() as served:
        served.fill(tuples, subscriptions)
        with Listener(served.url, served.ids, sockets=4) as listener:
            listener.wait_attached()
            publishers = served.publishers(seconds + 2, lowest=5_000)
            progress(f"flame graph: sampling for {seconds:.0f} s")
            before = threads_cpu_s(served.pid)
            folded = sampled(served.pid, seconds)
            used = {id: after - before.get(id, 0.0) for id, after in threads_cpu_s(served.pid).items()}
            for one in publishers:
                one.wait()
    title = f"{subscriptions:,} range-min subscriptions, all attached; eight requests of 100 events in flight"
    target.write_text(drawn(read(folded, used), title))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
