"""Where something stands in a query's text, and errors that show it."""

from __future__ import annotations

from prosem.values.errors import LanguageError

WIDTH = 100  # characters of a line that are shown; a longer line is cut around the place


def located(detail: str, sql: str, start: int | None, end: int | None = None) -> LanguageError:
    """The error with line, column and a marker under `sql[start:end]`; without them if `start` is None.

    >>> print(located("no such column", "SELECT x\\nFROM t WHERE y = 1", 22, 23).highlight)
    FROM t WHERE y = 1
                 ^
    """
    if start is None:
        return LanguageError(detail)
    start = min(start, len(sql))
    first = sql.rfind("\n", 0, start) + 1
    last = sql.find("\n", start)
    last = len(sql) if last < 0 else last
    column = start - first + 1
    line = sql.count("\n", 0, start) + 1
    shift = max(first, start - WIDTH // 2) if last - first > WIDTH else first
    shown = sql[shift : min(last, shift + WIDTH)].rstrip()
    length = max(1, min(end if end is not None else start + 1, shift + WIDTH, last) - start)
    before = "".join("\t" if character == "\t" else " " for character in sql[shift:start])
    return LanguageError(detail, line=line, column=column, highlight=f"{shown}\n{before}{'^' * length}")
