"""The error of a row that a view cannot have, and how it is worded."""

from __future__ import annotations

from collections.abc import Sequence

from prosem.values.errors import ViewRowError
from prosem.values.model import Key, Table
from prosem.views.joined import Keys

_LONGEST = 60  # characters of a value that are shown


class RowErrors:
    """Makes the errors of one view: they name the view and the keys of the rows that the failing row is made of."""

    def __init__(self, view: str, sources: Sequence[tuple[str, Table]]) -> None:
        self._view, self._sources = view, tuple(sources)

    def at(self, keys: Keys, reason: Exception) -> ViewRowError:
        """An expression failed on the joined row of these keys."""
        rows = [
            f"{alias} ({_shown(table.primary_key, key)})"
            for (alias, table), key in zip(self._sources, keys, strict=False)
            if key is not None
        ]
        return ViewRowError(self._view, " and ".join(rows), str(reason))

    def of_group(self, names: Sequence[str], key: Key, reason: Exception) -> ViewRowError:
        """An aggregate of a group has no value."""
        return ViewRowError(self._view, f"the group ({_shown(names, key)})", str(reason))


def _shown(names: Sequence[str], key: Key) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in zip(names, key, strict=True))


def _value(value: object) -> str:
    text = "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
