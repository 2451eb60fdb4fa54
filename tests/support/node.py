"""The JavaScript client and the tools that run it."""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "clients" / "js"


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found, (
        f"{name} is missing: install Node.js 20 or later (make tools does it), then run the tests again"
    )
    return found
