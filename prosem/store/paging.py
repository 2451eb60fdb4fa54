"""Pages of rows that are bounded in bytes, where their size is known only after they are read.

The first page is small. Each next one asks for as many rows as the last one lets expect, and at most four times as many:
a page is larger than `PAGE_BYTES` only where rows suddenly are. Where PostgreSQL knows the size of a row without reading it
(a `bytea`), the query itself ends the page, and this is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

PAGE_BYTES = 4 << 20
PAGE_ROWS = 2_000
FIRST_ROWS = 50
GROWTH = 4


class PageSize:
    """How many rows to ask for next.

    >>> page = PageSize()
    >>> page.rows, page.read([(1, b"x")] * 50), page.rows, page.read([(1, b"x" * PAGE_BYTES)]), page.rows
    (50, None, 200, None, 1)
    """

    def __init__(self) -> None:
        self.rows = FIRST_ROWS

    def read(self, rows: Sequence[Sequence[Any]]) -> None:
        """Take the sizes of a page that was read into account."""
        if rows:
            size = sum(len(value) for row in rows for value in row if isinstance(value, str | bytes))
            self.rows = min(GROWTH * self.rows, PAGE_ROWS, max(1, PAGE_BYTES * len(rows) // max(1, size)))
