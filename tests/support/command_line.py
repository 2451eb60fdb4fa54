"""`prosem` run as a user runs it, to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any


def run(*arguments: str, stdin: str | None = None, timeout_s: float = 90, **variables: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "api.commands.cli", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1"} | variables,
    )
