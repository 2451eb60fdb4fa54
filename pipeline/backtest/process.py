"""A backtest in a process of its own, which a server starts: Spark's memory and its faults stay outside the server.

Standard input is one JSON object (`Request`, with `subscriptions` and `master`); standard output has a line of JSON for each
step, and at the end one with the result or the error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pipeline.statistics import StatisticsError
from prosem.values.wire import decode_exact, encode_exact


def main() -> int:
    asked: dict[str, Any] = decode_exact(sys.stdin.buffer.read())
    subscriptions, master = asked.pop("subscriptions"), asked.pop("master")
    asked["per_day"] = float(asked["per_day"])  # what is decoded exactly is a Decimal
    try:
        from pipeline.statistics.session import check_spark, open_session

        check_spark()
        from pipeline.backtest.execution import carry_out, given
        from pipeline.backtest.request import Request

        with ExitStack() as stack:
            with _step("starting Spark"):
                session = stack.enter_context(open_session(master))
            outcome = carry_out(session, Request(**asked), given(subscriptions), _step)
            _say(encode_exact({"result": outcome.document()}).decode())
    except StatisticsError as error:
        _say(json.dumps({"error": str(error)}))
        return 1
    return 0


@contextmanager
def _step(name: str) -> Iterator[None]:
    _say(json.dumps({"step": name}))
    yield


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
