"""Orders: a code reversed, and the two codes beyond every other."""

from __future__ import annotations

from typing import Any


class Descending:
    """A code whose order is reversed, for MAX over codes that cannot be negated (text, bytea).

    Equal exactly when the codes are equal, so it can stand in a dict and in ties like the code itself.

    >>> sorted([Descending("a"), Descending("c"), Descending("b")])
    [Descending('c'), Descending('b'), Descending('a')]
    """

    __slots__ = ("code",)

    def __init__(self, code: Any) -> None:
        self.code = code

    def __lt__(self, other: object) -> bool:
        return bool(other.code < self.code) if isinstance(other, Descending) else NotImplemented

    def __le__(self, other: object) -> bool:
        return bool(other.code <= self.code) if isinstance(other, Descending) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return bool(other.code > self.code) if isinstance(other, Descending) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return bool(other.code >= self.code) if isinstance(other, Descending) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self.code == other.code if isinstance(other, Descending) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.code)

    def __repr__(self) -> str:
        return f"Descending({self.code!r})"


class _Beyond:
    r"""Above or below every code of every type, by answering the reflected comparison.

    >>> 10**40 < HIGHEST, "\U0010ffff" <= HIGHEST, Descending("") < LOWEST, LOWEST < -1
    (True, True, False, True)
    """

    __slots__ = ("above", "name")

    def __init__(self, name: str, *, above: bool) -> None:
        self.name = name
        self.above = above

    def __lt__(self, other: object) -> bool:
        return not self.above and other is not self

    def __le__(self, other: object) -> bool:
        return not self.above or other is self

    def __gt__(self, other: object) -> bool:
        return self.above and other is not self

    def __ge__(self, other: object) -> bool:
        return self.above or other is self

    def __repr__(self) -> str:
        return self.name


LOWEST = _Beyond("LOWEST", above=False)
HIGHEST = _Beyond("HIGHEST", above=True)
