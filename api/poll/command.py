"""`prosem poll`: look at a feed again and again, and say what came of it."""

from __future__ import annotations

import hashlib
import logging
import re
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from prosem_client import Client, ProsemError

from api.poll.formats import FeedError, Item, guess, read_csv, read_json, read_rss
from api.poll.paths import parse_path
from api.poll.poller import Poller, Seen
from api.poll.rows import Fields
from api.poll.source import open_source
from api.poll.state import StateFile
from api.server.logs import configure_logging
from prosem.runtime.backoff import Backoff
from prosem.values.errors import SetupError
from prosem.values.wire import encode

log = logging.getLogger("prosem.poll")
FORMATS = ("json", "csv", "rss")
LONGEST_WAIT_S = 900.0
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")
_UNITS_S = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


@dataclass(frozen=True)
class Options:
    source: str
    server: str
    table: str
    form: str = ""
    every: str = "30s"
    path: str = "$"
    chosen: tuple[str, ...] = ()
    delimiter: str = ","
    complete: bool = False
    state: str = ""
    max_mb: int = 64
    once: bool = False
    api_key: str = ""


def poll(options: Options) -> int:
    """Until a signal ends it, or once; exit code 1 if that one look failed."""
    configure_logging("info", "text")
    every_s, read = seconds(options.every), reader(options)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with Client(options.server, api_key=options.api_key) as client:
        fields = Fields(_definition(client, options), chosen(options.chosen))
        source = open_source(options.source, options.max_mb << 20)
        state = StateFile(state_path(options), fingerprint(options))
        try:
            poller = Poller(source, read, fields, client, state, options.complete)
            return _follow(poller, options, every_s, stopped)
        finally:
            state.close()
            source.close()


def _follow(poller: Poller, options: Options, every_s: float, stopped: threading.Event) -> int:
    backoff = Backoff(max(every_s, 1.0), max(every_s, LONGEST_WAIT_S))
    has_worked = False
    while not stopped.is_set():
        wait_s = every_s
        try:
            seen = poller.look()
            backoff.reset()
            has_worked = True
            log.info("%s: %s", options.table, summary(seen))
        except (FeedError, SetupError) as error:
            if isinstance(error, SetupError) and not has_worked:
                raise  # by the options; later on it is the feed that has changed
            asked_s = error.retry_after_s if isinstance(error, FeedError) else 0.0
            wait_s = max(backoff.next_s(), min(asked_s, LONGEST_WAIT_S))
            log.warning(
                "%s: %s%s", options.table, error, "" if options.once else f"; again in {wait_s:.1f} s"
            )
            if options.once:
                return 1
        if options.once:
            break
        stopped.wait(wait_s)
    return 0


def summary(seen: Seen | None) -> str:
    """A look in words.

    >>> summary(Seen(5, upserts=2, seq=7)), summary(None)
    ('5 items, 2 rows published, seq 7', 'nothing new')
    """
    if seen is None:
        return "nothing new"
    words = [f"{seen.items} items", f"{seen.upserts} rows published"]
    if seen.deletes:
        words.append(f"{seen.deletes} deleted")
    if seen.left_out:
        words.append(f"{seen.left_out} left out (the first: {seen.reason})")
    if seen.seq is not None:
        words.append(f"seq {seen.seq}")
    return ", ".join(words)


def _definition(client: Client, options: Options) -> Mapping[str, object]:
    try:
        return client.table(options.table)
    except ProsemError as error:
        if error.status == 404:
            raise SetupError(
                f"the server has no table {options.table!r}: create it first, with the columns you want"
            ) from None
        raise SetupError(f"{options.server}: {error.detail}") from None


# -- options -------------------------------------------------------------------------------------------------------
def reader(options: Options) -> Callable[[bytes], list[Item]]:
    form, path = options.form or guess(options.source), parse_path(options.path)
    if form not in FORMATS:
        raise SetupError(f"--format is one of {', '.join(FORMATS)}" + (f", not {form!r}" if form else ""))
    if path and form != "json":
        raise SetupError(f"--path leads to the items of a JSON feed, not of {form}")
    if len(options.delimiter) != 1 or options.delimiter in '\r\n"':
        raise SetupError("--delimiter is one character, such as , or ;")
    if form == "json":
        return lambda content: read_json(content, path)
    return (lambda content: read_csv(content, options.delimiter)) if form == "csv" else read_rss


def chosen(given: tuple[str, ...]) -> dict[str, str]:
    """Columns and the fields they are read from.

    >>> chosen(("per=$.quote.per", "symbol=Symbol Name"))
    {'per': '$.quote.per', 'symbol': 'Symbol Name'}
    """
    found = {}
    for item in given:
        column, separator, field = item.partition("=")
        if not column or not separator or not field:
            raise SetupError(f"--map {item}: expected column=field")
        found[column] = field
    return found


def seconds(text: str) -> float:
    """A span.

    >>> seconds("30s"), seconds("5m"), seconds("1.5h"), seconds("10")
    (30.0, 300.0, 5400.0, 10.0)
    """
    found = _SPAN.fullmatch(text.strip())
    span = 0.0 if found is None else float(found[1]) * _UNITS_S[found[2]]
    if not 0.01 <= span <= 30 * 86_400:
        raise SetupError(f"--every is a span like 30s, 5m or 1h, not {text!r}")
    return span


def fingerprint(options: Options) -> str:
    """How the feed is read: the state of another way says nothing of this one."""
    read = [
        options.source,
        options.table,
        options.form,
        options.path,
        sorted(options.chosen),
        options.delimiter,
    ]
    return hashlib.sha256(encode(read)).hexdigest()[:32]


def state_path(options: Options) -> Path:
    if options.state:
        return Path(options.state).expanduser()
    name = hashlib.sha256(encode([options.source, options.server, options.table])).hexdigest()[:16]
    return Path(platformdirs.user_state_dir("prosem", appauthor=False)) / "poll" / f"{name}.json"
