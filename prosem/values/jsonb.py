"""Values of jsonb columns, as PostgreSQL gives them back.

Whether an event changes a row is decided by how the row is written before and after it. So a value is normalised when it is
read: memory holds what a recovery from PostgreSQL would load. jsonb orders the members of an object by the length of their
names in bytes, then by the bytes; it keeps the last of duplicate members (as the decoder does), and has no minus zero.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from prosem.values.texts import check_text


def read_jsonb(value: Any) -> Any:
    """The value normalised in place, ValueError for what jsonb cannot hold; iterative, so that no depth exhausts the stack.

    >>> read_jsonb({"bb": 1, "c": Decimal("1.50"), "a": -0.0})
    {'a': 0.0, 'c': 1.5, 'bb': 1}
    """
    if not isinstance(value, dict | list):
        return _scalar(value)
    todo: list[dict[str, Any] | list[Any]] = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            _order(node)
        for at, child in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(child, dict | list):
                todo.append(child)
            else:
                node[at] = _scalar(child)  # type: ignore[index]  # a member that exists: iteration goes on
    return value


def _order(node: dict[str, Any]) -> None:
    names = list(node)
    for name in names:
        check_text(name)
    ordered = sorted(names, key=_rank)
    if ordered != names:
        members = [(name, node[name]) for name in ordered]
        node.clear()
        node.update(members)


def _rank(name: str) -> tuple[int, bytes]:
    written = name.encode()
    return len(written), written


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, float | Decimal):
        number = float(value)
        if not math.isfinite(number):
            shown = str(value)
            raise ValueError(f"{shown if len(shown) <= 60 else shown[:57] + '...'} is not a finite number")
        return number or 0.0
    return value
