"""FROM and JOIN: the tables, and the columns by which they are joined."""

from __future__ import annotations

from sqlglot import exp

from prosem.language.syntax import Source
from prosem.language.tree import Node, fold, refuse, settings, unsupported
from prosem.values.errors import LanguageError

MAX_TABLES = 6
_JOIN = "tables are joined as r JOIN s USING (column, …)"


def sources(sql: str, origin: Node | None, joins: list[Node]) -> tuple[Source, ...]:
    """The tables, each but the first with its USING columns."""
    if origin is None:
        raise LanguageError("FROM is missing; a subscription selects from a table")
    tables = [_table(sql, origin.this, [])]
    using: list[tuple[str, ...]] = []
    for join in joins:
        _check_kind(sql, join)
        tables.append(_table(sql, join.this, tables))
        using.append(_using(sql, join))
    if len(tables) > MAX_TABLES:
        refuse(
            f"{len(tables)} tables are joined; at most {MAX_TABLES} are supported", sql, joins[MAX_TABLES - 1]
        )
    first, *others = tables
    joined = [Source(name, name, "inner", names) for name, names in zip(others, using, strict=True)]
    return (Source(first, first), *joined)


def _table(sql: str, node: Node, others: list[str]) -> str:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        what = node.this if isinstance(node, exp.Table) and isinstance(node.this, exp.Func) else node
        unsupported(sql, what, "FROM takes the name of a table")
    name, given = fold(node.this), settings(node)
    if "db" in given or "catalog" in given:
        refuse(f"a schema is not supported; write the table's name alone: {name}", sql, node)
    if name in others:
        refuse(f"a self-join is not supported: the table {name} stands twice", sql, node)
    alias = given.pop("alias", None)
    if alias is not None and (fold(alias.this) != name or set(settings(alias)) != {"this"}):
        refuse(f"an alias of a table is not supported; write {name} itself", sql, node)
    for part in given:
        if part != "this":
            label = {
                "sample": "TABLESAMPLE",
                "only": "ONLY",
                "pivots": "PIVOT",
                "joins": "a nested join",
            }.get(part, part)
            refuse(f"{label} is not supported; FROM takes the name of a table", sql, node)
    return name


def _check_kind(sql: str, join: Node) -> None:
    given = settings(join)
    side = str(given.get("side", ""))
    kind = str(given.get("kind", ""))
    if side or kind == "OUTER":
        refuse(f"{f'{side} {kind}'.strip()} JOIN (an outer join) is not supported; {_JOIN}", sql, join)
    if given.get("method"):
        refuse(f"{given['method']} JOIN is not supported; {_JOIN}", sql, join)
    if kind not in ("", "INNER"):
        refuse(f"{kind} JOIN is not supported; {_JOIN}", sql, join)


def _using(sql: str, join: Node) -> tuple[str, ...]:
    given = settings(join)
    if "on" in given:
        refuse(f"JOIN … ON is not supported; write USING: {_JOIN}", sql, join)
    if "using" not in given:
        refuse(f"a join without USING (a comma, or a plain JOIN) is not supported; {_JOIN}", sql, join)
    if set(given) - {"this", "kind", "using"}:
        refuse(f"this join is not supported; {_JOIN}", sql, join)
    for column in given["using"]:
        if not isinstance(column, exp.Identifier):
            refuse(f"USING takes names of columns; {_JOIN}", sql, column)
    names = tuple(fold(column) for column in given["using"])
    if len(set(names)) < len(names):
        refuse("a column stands twice in USING", sql, join)
    return names
