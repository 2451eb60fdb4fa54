"""What the server says while it runs: lines for people, or one JSON object a line for a log collector."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import msgspec

from prosem.values.errors import SetupError
from prosem.values.redaction import redacted

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def _plainly_named(record: logging.LogRecord) -> bool:
    """uvicorn.error is where uvicorn says everything, mostly what is no error."""
    if record.name == "uvicorn.error":
        record.name = "uvicorn"
    return True


class JsonLines(logging.Formatter):
    """One object a line; what a record was given as `extra` is beside its message.

    >>> record = logging.makeLogRecord({"name": "prosem", "levelname": "INFO", "msg": "seq %d", "args": (7,), "seq": 7})
    >>> record.created = 0.0
    >>> print(JsonLines().format(record))
    {"time":"1970-01-01T00:00:00+00:00","level":"info","logger":"prosem","message":"seq 7","seq":7}
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="auto"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return redacted(msgspec.json.encode(line, enc_hook=str).decode())


class TextLines(logging.Formatter):
    """A line for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


def configure_logging(level: str, form: str) -> None:
    if level not in LEVELS:
        raise SetupError(f"--log-level is one of {', '.join(LEVELS)}, not {level!r}")
    if form not in FORMATS:
        raise SetupError(f"--log-format is {' or '.join(FORMATS)}, not {form!r}")
    handler = logging.StreamHandler()
    handler.addFilter(_plainly_named)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for chatty in ("uvicorn.access", "alembic", "httpx", "psycopg.pool"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
