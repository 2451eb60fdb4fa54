"""A backtest in a process of its own, which a server starts: Spark's memory and its faults stay outside the server.

Standard input is a line with one JSON object (`Request`, with `subscriptions` and `master`), and stays open: when it is
closed, the server has ended, and so does this process with all that it started. Standard output has a line of JSON for each
step and for the tasks of Spark that are done of it, and at the end one with the result or the error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.statistics import StatisticsError
from prosem.values.wire import decode_exact, encode_exact

if TYPE_CHECKING:
    from pipeline.statistics.session import Session


def main() -> int:
    asked: dict[str, Any] = decode_exact(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_server, daemon=True).start()
    subscriptions, master = asked.pop("subscriptions"), asked.pop("master")
    asked["per_day"] = float(asked["per_day"])  # what is decoded exactly is a Decimal
    try:
        from pipeline.statistics.session import check_spark, open_session

        check_spark()
        from pipeline.backtest.execution import carry_out, given
        from pipeline.backtest.request import Request

        with ExitStack() as stack:
            _say(json.dumps({"step": "starting Spark"}))
            session = stack.enter_context(open_session(master))
            step = partial(_step, session)
            outcome = carry_out(session, Request(**asked), given(subscriptions), step)
            _say(encode_exact({"result": outcome.document()}).decode())
    except StatisticsError as error:
        _say(json.dumps({"error": str(error)}))
        return 1
    return 0


def _end_with_server() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.killpg(0, signal.SIGKILL)  # the server started it in a group of its own


@contextmanager
def _step(session: Session, name: str) -> Iterator[None]:
    from pipeline.statistics.progress import watched

    _say(json.dumps({"step": name}))
    said: list[tuple[int, int]] = []

    def seen(done: int, total: int) -> None:
        if (done, total) not in said[-1:]:
            said.append((done, total))
            _say(json.dumps({"progress": {"done": done, "total": total}}))

    with watched(lambda: session.spark.sparkContext, seen):
        yield


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")  # at once: the tasks are said by another thread
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
