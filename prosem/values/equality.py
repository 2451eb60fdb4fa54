"""Equality as PostgreSQL's `=` has it, with NULL equal to NULL: what decides whether an answer differs."""

from __future__ import annotations

from typing import Any

_NUMBERS = (int, float)


def is_equal(one: Any, other: Any) -> bool:
    """Whether two values of one column are equal: minus zero is zero, a numeric's scale does not count.

    In jsonb TRUE is not 1, and 1 is 1.0. Iterative, so that no depth exhausts the stack.

    >>> from decimal import Decimal
    >>> is_equal(Decimal("1.50"), Decimal("1.5")), is_equal(-0.0, 0.0), is_equal(None, 0)
    (True, True, False)
    >>> is_equal({"a": [1, 2]}, {"a": [1.0, 2]}), is_equal([True], [1])
    (True, False)
    """
    if one is other:
        return True
    todo = [(one, other)]
    while todo:
        a, b = todo.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            todo += [(part, b[name]) for name, part in a.items()]
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            todo += zip(a, b, strict=True)
        elif not _are_comparable(a, b) or a != b:
            return False
    return True


def _are_comparable(one: Any, other: Any) -> bool:
    return type(one) is type(other) or (type(one) in _NUMBERS and type(other) in _NUMBERS)


def are_equal(one: Any, other: Any) -> bool:
    """Whether two rows with the same columns are equal, value by value."""
    return one is other or all(a is b or is_equal(a, b) for a, b in zip(one, other, strict=True))
