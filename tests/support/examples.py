"""An example as a user starts it, and what it says."""

from __future__ import annotations

import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import WAIT_S

ROOT = Path(__file__).parents[2]


class Example:
    """`python -m examples.<name>`; ended as by Ctrl-C."""

    def __init__(self, name: str, *options: str) -> None:
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"examples.{name}", *options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def until(self, pattern: str, wait_s: float = 2 * WAIT_S) -> re.Match[str]:
        """The next line with the pattern."""
        while True:
            try:
                line = self._queue.get(timeout=wait_s)
            except queue.Empty:
                line = None
            assert line is not None, f"no line with {pattern!r}:\n" + "\n".join(self.lines[-40:])
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(WAIT_S)
        self._thread.join(WAIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def example(name: str, *options: str) -> Iterator[Example]:
    made = Example(name, *options)
    try:
        yield made
    finally:
        code = made.end()
    assert code == 0, "\n".join(made.lines[-40:])
