"""What the server says: text for people, JSON for collectors, and a clear word about a wrong setting."""

from __future__ import annotations

import json
import logging

import pytest

from api.server.logs import JsonLines, configure_logging
from prosem.values.errors import SetupError
from tests.support.processes import ServerProcess


def record(**given: object) -> logging.LogRecord:
    return logging.makeLogRecord({"name": "prosem", "levelname": "WARNING", "msg": "lost", **given})


def test_an_exception_is_one_line_and_what_is_extra_stands_beside() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError as error:
        text = JsonLines().format(record(exc_info=(type(error), error, error.__traceback__), broker=object))
    assert "\n" not in text
    line = json.loads(text)
    assert line["level"] == "warning"
    assert line["error"].endswith("ValueError: first\nsecond")
    assert line["broker"] == str(object)


@pytest.mark.parametrize(("level", "form"), [("loud", "text"), ("info", "xml")])
def test_a_wrong_setting_is_named(level: str, form: str) -> None:
    with pytest.raises(SetupError, match="--log-"):
        configure_logging(level, form)


def test_a_server_writes_json_lines() -> None:
    made = ServerProcess("--log-format", "json")
    made.start()
    try:
        lines = [json.loads(line) for line in made.log.splitlines()]
    finally:
        made.remove()
    assert {"time", "level", "logger", "message"} <= lines[0].keys()
    assert {"prosem", "uvicorn"} <= {line["logger"] for line in lines}
