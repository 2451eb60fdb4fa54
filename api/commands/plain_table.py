"""Tables of the command line: no frame, words are wrapped and never cut, so that they fit 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table


def plain_table(*columns: str, numbers: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    """`numbers` are aligned right; cells of `whole` are never wrapped, unless the terminal is narrower than they are."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in columns:
        table.add_column(
            name,
            justify="right" if name in numbers else "left",
            overflow="fold",
            no_wrap=name in whole,
        )
    return table
