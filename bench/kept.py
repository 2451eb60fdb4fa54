"""What benches have found, one JSON file each: a page is made of runs one after another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

FULL, QUICK = "full", "quick"


class Result(Protocol):
    """A named tuple whose first field is its name. `size`: `FULL` or `QUICK`."""

    @property
    def size(self) -> str: ...
    def __getitem__(self, at: int, /) -> Any: ...
    def _asdict(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Result)


def keep(folder: Path, result: Result) -> bool:
    """Write a result; a small one does not replace one at full size."""
    file = folder / f"{result[0]}.json"
    if result.size == QUICK and file.exists() and _read(file)["size"] == FULL:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result._asdict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return True


def kept(folder: Path, kind: Callable[..., R]) -> dict[str, R]:
    """All results by name."""
    found = [kind(**_read(path)) for path in sorted(folder.glob("*.json"))]
    return {one[0]: one for one in found}


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
