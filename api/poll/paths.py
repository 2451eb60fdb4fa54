"""Paths into a JSON value: the part of JSONPath that names one place."""

from __future__ import annotations

import re
from typing import Any

from prosem.values.errors import SetupError

Path = tuple[str | int, ...]
_STEP = re.compile(r"\.?([^.\[\]\s'\"$]+)|\[(-?\d+)\]|\[\"([^\"]*)\"\]|\['([^']*)'\]")


def parse_path(text: str) -> Path:
    """`$` is the value itself and may be left out.

    >>> parse_path("$.quotes[0].last"), parse_path("$"), parse_path("$['a b'].c")
    (('quotes', 0, 'last'), (), ('a b', 'c'))
    """
    at, steps = len(text) - len(text.removeprefix("$")), []
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise SetupError(
                f"{text!r} is no path at character {at + 1}; a path looks like $.data.items[0]['a name']"
            )
        name, number, *quoted = found.groups()
        steps.append(int(number) if number is not None else next(p for p in (name, *quoted) if p is not None))
        at = found.end()
    return tuple(steps)


def find(value: Any, path: Path) -> Any:
    """The value there; LookupError if nothing does.

    >>> find({"quotes": [{"last": 3}]}, ("quotes", 0, "last"))
    3
    """
    for step in path:
        fits = isinstance(value, list if isinstance(step, int) else dict)
        if not fits:
            raise LookupError(step)
        value = value[step]
    return value
