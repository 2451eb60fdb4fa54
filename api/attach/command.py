"""`prosem attach`: set up, follow, begin again when the source was lost, and report progress."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from api.attach.follow import Follower, StoppedError
from api.attach.pgoutput import written
from api.attach.progress import Progress
from api.attach.slot import connect
from api.attach.source import Source, SourceTable, parse_tables
from api.attach.target import Target
from api.server.logs import configure_logging
from prosem.runtime.backoff import Backoff
from prosem.values.errors import SetupError

log = logging.getLogger("prosem.attach")
LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True)
class Options:
    source: str
    server: str
    tables: str
    slot: str = "prosem"
    publication: str = "prosem"
    leave_out: tuple[str, ...] = ()
    metrics_port: int = 0
    report_s: float = 10.0
    again: bool = False
    once: bool = False
    api_key: str = ""


def attach(options: Options) -> int:
    """Follow until a signal ends it; exit code 0 after that."""
    configure_logging("info", "text")
    progress, stopped = Progress(), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    if options.metrics_port:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(Readings(progress, options.slot))
        start_http_server(options.metrics_port, "127.0.0.1", registry)
    try:
        with _reporting(progress, options.report_s):
            follow(options, progress, stopped)
    except StoppedError as error:
        print(error.detail, file=sys.stderr)
    return 0


def follow(options: Options, progress: Progress, stopped: threading.Event) -> None:
    """Again and again as long as the source is lost; what is wrong at the first attempt is an error."""
    tables: list[SourceTable] = []
    target: Target | None = None
    made: list[str] = []
    follower: Follower | None = None
    again, backoff = options.again, Backoff(0.5, LONGEST_PAUSE_S)

    def waiting(reason: str) -> None:
        progress.state = f"waiting for the server at {options.server} ({reason})"
        if stopped.is_set():
            raise StoppedError("stopped while the server was away")

    try:
        while not stopped.is_set():
            try:
                with connect(options.source) as connection:
                    source = Source(connection, options.slot, options.publication)
                    if target is None:
                        system = source.check()
                        tables = _tables(source, options)
                        target = Target(options.server, f"{system}/{options.slot}", options.api_key)
                        target.waiting = waiting
                        tables, made = target.prepare(tables)
                        log.info(
                            "the source has %s",
                            ", ".join(f"{name} = {value}" for name, value in source.settings().items()),
                        )
                    follower = Follower(
                        options.source, source, target, tables, progress, stopped.is_set, options.once
                    )
                    follower.run(again, made)
                    return
            except psycopg.OperationalError as error:
                if target is None:
                    raise SetupError(f"the source cannot be reached: {str(error).strip()}") from None
                if follower is not None and follower.is_copied:
                    again, made = False, []
                if progress.state == "following":
                    backoff.reset()
                progress.state, progress.losses = f"waiting: {str(error).strip()}", progress.losses + 1
                stopped.wait(backoff.next_s())
            except psycopg.Error as error:
                raise SetupError(f"the source refuses: {str(error).strip()}") from None
    finally:
        if target is not None:
            target.close()


def _tables(source: Source, options: Options) -> list[SourceTable]:
    requested = parse_tables(options.tables)
    left_out: dict[str, set[str]] = {}
    for item in options.leave_out:
        table, dot, column = item.rpartition(".")
        if not dot or table not in {target for _, _, target in requested}:
            raise SetupError(f"--leave-out {item}: expected table.column of a table in --tables")
        left_out.setdefault(table, set()).add(column)
    return [
        source.table(schema, name, target, left_out.get(target, set())) for schema, name, target in requested
    ]


def detach(options: Options) -> int:
    """Drop slot and publication of the source; the tables stay on the server as they are."""
    try:
        with connect(options.source) as connection:
            Source(connection, options.slot, options.publication).drop()
    except psycopg.Error as error:
        raise SetupError(f"the source refuses: {str(error).strip()}") from None
    print(f"the slot {options.slot} and the publication {options.publication} are dropped", file=sys.stderr)
    return 0


# -- progress ---------------------------------------------------------------------------------------------------
def line(progress: Progress) -> str:
    """One line for people.

    >>> line(Progress(state="following", transactions=3, events=7, position=0x16B374D8, lag_bytes=2048,
    ...     lag_s=1.25))
    'following: 3 transactions, 7 events, at 0/16B374D8, 2.0 KiB and 1.2 s behind'
    """
    if progress.state == "copying":
        return f"copying: {progress.rows:,} rows"
    text = (
        f"{progress.state}: {progress.transactions:,} transactions, {progress.events:,} events, "
        f"at {written(progress.position)}, {_size(progress.lag_bytes)} and {progress.lag_s:.1f} s behind"
    )
    if progress.safe_bytes is not None:
        text += f"; the slot is lost after {_size(max(0, progress.safe_bytes))} more"
    return text


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


@contextlib.contextmanager
def _reporting(progress: Progress, every_s: float) -> Iterator[None]:
    """A line on standard error whenever the state changes, and now and then; in a terminal it renews itself."""
    ended = threading.Event()
    in_place = sys.stderr.isatty()

    def report() -> None:
        shown, waited_s = "", 0.0
        while not ended.wait(0.2):
            waited_s += 0.2
            if in_place:
                print(f"\r\x1b[2K{line(progress)}", end="", file=sys.stderr, flush=True)
            elif progress.state != shown or waited_s >= every_s:
                print(line(progress), file=sys.stderr, flush=True)
                shown, waited_s = progress.state, 0.0

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        print(("\r\x1b[2K" if in_place else "") + line(progress), file=sys.stderr, flush=True)


class Readings:
    """The progress for Prometheus."""

    def __init__(self, progress: Progress, slot: str) -> None:
        self._progress, self._slot = progress, slot

    def collect(self) -> Iterator[Metric]:
        progress = self._progress
        following = progress.state == "following"
        gauges: tuple[tuple[str, str, float], ...] = (
            ("following", "1 while the source is followed", int(following)),
            ("slot_lag_bytes", "bytes of the source's log not yet applied", progress.lag_bytes),
            ("slot_lag_seconds", "age of the oldest transaction not yet applied", progress.lag_s),
            ("slot_kept_bytes", "bytes of its log that the source keeps for the slot", progress.kept_bytes),
            ("position_bytes", "the position in the source's log", progress.position),
        )
        counters = (
            ("rows_copied", "rows copied from snapshots", progress.rows),
            ("transactions", "transactions of the source applied", progress.transactions),
            ("events", "events of those transactions", progress.events),
            ("source_losses", "times that the source was lost", progress.losses),
        )
        if progress.safe_bytes is not None:
            text = "bytes of log until the source gives the slot up (max_slot_wal_keep_size)"
            gauges += (("slot_safe_bytes", text, progress.safe_bytes),)
        for family, measured in ((GaugeMetricFamily, gauges), (CounterMetricFamily, counters)):
            for name, text, value in measured:
                metric = family(f"prosem_attach_{name}", text, labels=["slot"])
                metric.add_metric([self._slot], value)
                yield metric
