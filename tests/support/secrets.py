"""Secrets that the tests use, and whether one of them is in a log.

Every log of every process that the tests start is read when the process has ended, and every record that is logged within
the tests. Keys, passwords and webhook secrets are noted where they are made or given; addresses with a password in them are
found by their form.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

SHORTEST = 12  # a shorter one may be an ordinary word
_ADDRESS = re.compile(r"[a-z]+://[^\s/:@'\"]*:(?!\*+@)[^\s/@'\"]+@[^\s/'\"]+")
_secrets: set[str] = set()


def note(*secrets: str | None) -> None:
    """These must be in no log. Of an address the password counts."""
    for secret in secrets:
        if secret and "://" in secret:
            secret = _password(secret)
        if secret and len(secret) >= SHORTEST:
            _secrets.add(secret)


def _password(address: str) -> str | None:
    try:
        return urlsplit(address).password
    except ValueError:
        return None


def note_options(arguments: Iterable[str]) -> None:
    """What a command line has after options for secrets."""
    given = list(arguments)
    for option, value in itertools.pairwise(given):
        if option.endswith("-key") or option in ("--database", "--nats", "--source"):
            note(value)


def leaks(text: str) -> list[str]:
    """The lines with a secret in them, the secret itself made unreadable.

    >>> note("postgresql://prosem:a-password-of-a-test@127.0.0.1/prosem")
    >>> leaks("fine\\nthe key a-password-of-a-test is bad\\nnats://a:b@c:1\\nnats://***:***@c")
    ['the key … is bad', '… is in an address']
    """
    found = []
    for line in text.splitlines():
        if _ADDRESS.search(line):
            found.append("… is in an address")
        for secret in _secrets:
            if secret in line:
                found.append(line.replace(secret, "…"))
    return found


def check_folder(folder: Path) -> None:
    """Fail if a log in this folder, or below, has a secret in it."""
    for path in folder.rglob("*.log"):
        found = leaks(path.read_text(errors="replace"))
        assert not found, f"secrets in {path.name}: {found[:5]}"


class Listening(logging.Handler):
    """Remembers the leaks of records that are logged in this process."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found += leaks(self.format(record))
