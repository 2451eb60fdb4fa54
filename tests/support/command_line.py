"""`prosem` run as a user runs it, to its end."""

from __future__ import annotations

import subprocess

from tests.support import forked


def run(
    *arguments: str, stdin: str | None = None, timeout_s: float = 90, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Its output is wide and without colours."""
    wide = {"COLUMNS": "160", "NO_COLOR": "1"} | variables
    return forked.run(*arguments, stdin=stdin, timeout_s=timeout_s, **wide)
