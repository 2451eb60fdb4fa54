"""Few certificate authorities for the tests: every client of httpx reads the whole list, whatever it connects to.

That takes 40 ms of a core, several times for each server that is started, and no test calls a server of the Internet. Tests
of TLS have authorities of their own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import certifi

END = "-----END CERTIFICATE-----\n"


def shorten() -> None:
    """From now on this process, and those forked from it, know the first authority alone."""
    text = Path(certifi.where()).read_text()
    first = text[: text.index(END) + len(END)]
    with tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False) as file:
        file.write(first)
    certifi.where = lambda: file.name
