"""Heights: values as the minimum is taken of them. MAX is MIN over reversed codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prosem.index.order import Descending
from prosem.values.columns import ColumnType


def height(kind: ColumnType, maximum: bool) -> Callable[[Any], Any]:
    """A value as the minimum is taken of it: MAX is MIN over reversed codes."""
    assert kind.encode is not None, f"{kind.name} has no order"
    code: Callable[[Any], Any] = kind.encode  # without the call around it: once per row and event
    if not maximum:
        return code
    return (lambda value: ~code(value)) if kind.int64 else (lambda value: Descending(code(value)))


def coder(kind: ColumnType, maximum: bool) -> Callable[[Any], Any]:
    """From a height back to the code; None stays None."""
    if not maximum:
        return lambda height: height
    if kind.int64:
        return lambda height: None if height is None else ~height
    return lambda height: None if height is None else height.code
