"""Which texts PostgreSQL can hold."""

from __future__ import annotations


def check_text(value: str) -> None:
    """PostgreSQL holds no NUL character and no half of a surrogate pair."""
    if "\0" in value:
        raise ValueError("a text cannot hold the NUL character")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("a text cannot hold half of a surrogate pair")
