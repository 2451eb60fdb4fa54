"""The little a client has to know of its query: the key of its rows, their order, the types of its values.

Changes name rows by their key and values without their type; the server's answers say both (`fold`). Of a server that does
not, the words around FROM are read here, never the conditions, and the table's definition says the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/|'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*")|(?P<word>\w+)|(?P<other>.)""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Order:
    """A column by which rows are sorted."""

    column: str
    is_descending: bool = False
    nulls_first: bool = False
    type: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """How an answer is folded: the `key` of its rows or groups (none: rows count as a whole), its values' type, the `order`
    of its rows (none: any), and names and types of its `columns` (none: unknown) and of the `row` of a MIN or MAX.
    """

    key: tuple[str, ...] = ()
    type: str | None = None
    order: tuple[Order, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    row: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, fold: Mapping[str, Any]) -> Shape:
        """The shape of the `fold` in an answer of the server."""
        order = [
            Order(one["column"], one["descending"], one["nulls_first"], one["type"])
            for one in fold.get("order", ())
        ]
        columns, row = (
            [(one["name"], one["type"]) for one in fold.get(name, ())] for name in ("columns", "row")
        )
        return cls(tuple(fold.get("key", ())), fold.get("type"), tuple(order), tuple(columns), tuple(row))


@dataclass(frozen=True, slots=True)
class Outline:
    """The table of a query (None: several, or none found) and the column of its DISTINCT, if any."""

    table: str | None
    distinct: str | None = None

    def shape(self, definition: Mapping[str, Any]) -> Shape:
        """The shape of the answer, with the definition of the table."""
        types = {column["name"]: column["type"] for column in definition["columns"]}
        return Shape(tuple(definition["primary_key"]), types.get(self.distinct or ""))


@dataclass(frozen=True, slots=True)
class Selection:
    """What a query selects: its tables in order, the columns (none: all of them), and the aggregate over the one."""

    tables: tuple[str, ...]
    columns: tuple[str, ...] = ()
    function: str | None = None


def selection(sql: str) -> Selection:
    """What the words before and after FROM name.

    >>> selection("SELECT MIN(per) FROM stocks WHERE risk < 3")
    Selection(tables=('stocks',), columns=('per',), function='min')
    >>> selection('SELECT r."Id", b FROM "R" r JOIN s USING (b)')
    Selection(tables=('R', 's'), columns=('Id', 'b'), function=None)
    """
    words = [_name(match) for match in _TOKEN.finditer(sql) if match.lastgroup != "skip"]
    plain = [name for name, _ in words]
    bare = [name if is_bare else "" for name, is_bare in words]
    if "from" not in bare:
        return Selection(())
    start = bare.index("from")
    begins = [at for at, word in enumerate(bare) if at == start or (at > start and word == "join")]
    tables = tuple(name for at in begins if (name := _qualified(plain, at + 1)) is not None)
    chosen = plain[1:start][bare[1:start].count("distinct") :]
    function = chosen[0] if chosen[1:2] == ["("] else None
    inner = chosen[2:-1] if function is not None else chosen
    starts = [at for at in range(len(inner)) if at == 0 or inner[at - 1] == ","]
    columns = tuple(name for at in starts if (name := _qualified(inner, at)) is not None)
    return Selection(tables, () if columns == ("*",) else columns, function)


def outline(sql: str) -> Outline:
    """What the words around FROM say, in one pass over the text.

    >>> outline("SELECT DISTINCT t.sector FROM Stocks t WHERE note = 'from a join'")
    Outline(table='stocks', distinct='sector')
    >>> outline("SELECT * FROM r JOIN s USING (b)").table is None
    True
    """
    words = [_name(match) for match in _TOKEN.finditer(sql) if match.lastgroup != "skip"]
    plain = [name for name, _ in words]
    bare = [name if is_bare else "" for name, is_bare in words]
    if "from" not in bare or "join" in bare:
        return Outline(None)
    start = bare.index("from")
    table = _qualified(plain, start + 1)
    distinct = _qualified(plain, bare.index("distinct") + 1) if "distinct" in bare[:start] else None
    return Outline(table, distinct)


def _name(match: re.Match[str]) -> tuple[str, bool]:
    """A token as PostgreSQL reads it (lower case unless quoted), and whether it may be a keyword."""
    text = match.group()
    if match.lastgroup == "quoted":
        return text[1:-1].replace('""', '"'), False
    return text.lower(), True


def _qualified(names: list[str], start: int) -> str | None:
    """The last part of the dotted name that begins at `start`."""
    while names[start + 1 : start + 2] == ["."]:
        start += 2
    return names[start] if start < len(names) else None
