"""The same subscriptions by `prosem backtest --output` over the archive, compared with what a server sent: seq by seq."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from rich.console import Console

from api.commands.backtest import Options, run
from pipeline.backtest.request import Request
from pipeline.statistics.progress import Steps
from pipeline.statistics.session import Session
from prosem.values.wire import encode_exact
from tests.exactness.received import digest
from tests.exactness.recording import Part, Recorded
from tests.support.backtested import CASES

SHOWN = 3  # differences


class Compared(NamedTuple):
    """One statement: its subscriptions (of which those that were changed count twice), and what was equal."""

    name: str
    subscriptions: int
    notifications: int
    seconds: float
    differences: Sequence[str]


def compare(
    session: Session, recorded: Recorded, name: str, archive: str, since: datetime, folder: Path
) -> Compared:
    """`folder` is for the file of parameters and the output."""
    case, parts = CASES[name], recorded.parts[name]
    folder.mkdir()
    _write_parameters(folder / "params.csv", parts)
    request = Request(
        case.sql,
        archive,
        notify=case.notify,
        per=case.per,
        since=since.isoformat(),
        output=str(folder / "found"),
    )
    began = time.perf_counter()
    options = Options(request, file=str(folder / "params.csv"))
    run(options, session, Steps(quiet=True), Console(file=io.StringIO()))
    seconds = time.perf_counter() - began
    found = pq.read_table(folder / "found" / "notifications", partitioning=None)
    found = found.sort_by([("subscription", "ascending"), ("seq", "ascending")])
    numbers, seqs = (found[column].to_numpy() for column in ("subscription", "seq"))
    digests = np.fromiter((digest(change.as_py()) for change in found["change"]), np.int64, len(found))
    equal = 0
    differences: list[str] = []
    for number, part in enumerate(parts):
        first, last = np.searchsorted(numbers, [number, number + 1])
        start = first + np.searchsorted(seqs[first:last], part.after, "right")
        end = first + np.searchsorted(seqs[first:last], part.upto, "right")
        sent = recorded.changes.of(part.number, part.after, part.upto)
        if np.array_equal(sent[0], seqs[start:end]) and np.array_equal(sent[1], digests[start:end]):
            equal += len(sent[0])
        elif len(differences) < SHOWN:
            differences.append(
                _difference(name, part, sent, found.slice(start, end - start), digests[start:end])
            )
    return Compared(name, len(parts), equal, seconds, differences)


def _write_parameters(path: Path, parts: Sequence[Part]) -> None:
    """As a user writes them: texts as they are, everything else as JSON."""
    names = sorted(parts[0].params)
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(names)
        for part in parts:
            given = (part.params[name] for name in names)
            lines.writerow([one if isinstance(one, str) else encode_exact(one).decode() for one in given])


def _difference(name: str, part: Part, sent: Any, found: Any, digests: Any) -> str:
    """The first seq at which a server and a backtest differ."""
    by_server = dict(zip(*(column.tolist() for column in sent), strict=True))
    rows = dict(zip(found["seq"].to_pylist(), found.to_pylist(), strict=True))
    by_backtest = dict(zip(rows, digests.tolist(), strict=True))
    seq = min(
        seq for seq in by_server.keys() | by_backtest.keys() if by_server.get(seq) != by_backtest.get(seq)
    )
    said = rows[seq]["change"] if seq in rows else "nothing"
    kind = (
        "another change"
        if seq in by_server and seq in rows
        else "a change"
        if seq in by_server
        else "nothing"
    )
    return (
        f"{name}, {part}: at seq {seq} the server sent {kind}, the backtest found {said};"
        f" {len(by_server)} and {len(by_backtest)} changes in all"
    )
