"""The progress of the job in a terminal: its steps, and within a step the tasks of Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark import SparkContext

_PAUSE_S = 0.2


@contextmanager
def watched(context: Callable[[], SparkContext | None], seen: Callable[[int, int], None]) -> Iterator[None]:
    """Calls `seen`, in another thread, with how many tasks of Spark's active stages are done, and how many there are."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_PAUSE_S):
            found = context()
            if found is None:
                continue
            tracker = found.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            total = sum(stage.numTasks for stage in stages if stage is not None)
            if total:
                seen(sum(stage.numCompletedTasks for stage in stages if stage is not None), total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


class Steps:
    """A bar a step, on standard error; plain lines where that is no terminal."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[tasks]}"))
        self._bars = Progress(*columns, TimeElapsedColumn(), console=self._console)
        self._plain = not self._console.is_terminal
        self.context: SparkContext | None = None

    def __enter__(self) -> Steps:
        if not self._plain:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._plain:
            self._bars.stop()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """What happens inside is this step."""
        if self._plain:
            self.say(name)
            yield
            return
        bar = self._bars.add_task(name, total=None, tasks="")

        def seen(done: int, total: int) -> None:
            self._bars.update(bar, total=total, completed=done, tasks=f"{done}/{total} tasks")

        with watched(lambda: self.context, seen):
            yield
        self._bars.update(bar, total=1, completed=1, tasks="done")
