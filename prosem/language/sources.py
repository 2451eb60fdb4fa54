"""FROM and JOIN: the tables, what they are called, and the columns by which they are joined."""

from __future__ import annotations

from sqlglot import exp

from prosem.language.syntax import ColumnName, Source
from prosem.language.tree import (
    Node,
    alias_name,
    bare,
    column_name,
    fold,
    operands,
    refuse,
    settings,
    unsupported,
)
from prosem.values.errors import LanguageError

MAX_TABLES = 6
_JOIN = "tables are joined as r [LEFT] JOIN s USING (column, …) or r [LEFT] JOIN s ON r.x = s.y AND …"
_PARTS = {"sample": "TABLESAMPLE", "only": "ONLY", "pivots": "PIVOT", "joins": "a nested join"}


def sources(sql: str, origin: Node | None, joins: list[Node]) -> tuple[Source, ...]:
    """The tables in their order; each equality of ON has the column of a table before on its left side."""
    if origin is None:
        raise LanguageError("FROM is missing; rows are selected from a table")
    found: list[Source] = []
    for node in (origin, *joins):
        table, alias = _table(sql, node.this)
        _check_alias(sql, node.this, table, alias, found)
        if not found:
            found.append(Source(table, alias))
            continue
        if len(found) == MAX_TABLES:
            refuse(f"{len(joins) + 1} tables are joined; at most {MAX_TABLES} are supported", sql, node)
        join = _kind(sql, node)
        using, on = _using(sql, node), _on(sql, node, alias, found)
        found.append(Source(table, alias, join, using, on))
    return tuple(found)


def _table(sql: str, node: Node) -> tuple[str, str]:
    """Name and alias; the alias is the name if there is no other."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        what = node.this if isinstance(node, exp.Table) and isinstance(node.this, exp.Func) else node
        unsupported(sql, what, "FROM takes the name of a table")
    name, given = fold(node.this), settings(node)
    if "db" in given or "catalog" in given:
        refuse(f"a schema is not supported; write the table's name alone: {name}", sql, node)
    alias = given.pop("alias", None)
    if alias is not None and set(settings(alias)) != {"this"}:
        refuse(f"an alias of {name} is one name; columns are named in SELECT", sql, node)
    for part in given:
        if part != "this":
            refuse(f"{_PARTS.get(part, part)} is not supported; FROM takes the name of a table", sql, node)
    if alias is None:
        return name, name
    return name, alias_name(sql, alias.this, node, takes_keywords=False)


def _check_alias(sql: str, node: Node, table: str, alias: str, before: list[Source]) -> None:
    other = next((source for source in before if source.alias == alias), None)
    if other is None:
        return
    if table == alias == other.table:
        refuse(
            f"the table {table} stands twice in FROM; give each an alias of its own, like {table} AS a",
            sql,
            node,
        )
    refuse(f"two tables are called {alias} in FROM; give one of them another alias", sql, node)


def _kind(sql: str, join: Node) -> str:
    """inner or left."""
    given = settings(join)
    method, side, kind = (str(given.get(part, "")).upper() for part in ("method", "side", "kind"))
    name = " ".join(filter(None, (method, side, kind)))
    if method or (side, kind) not in {("", ""), ("", "INNER"), ("LEFT", ""), ("LEFT", "OUTER")}:
        refuse(f"{name} JOIN is not supported; {_JOIN}", sql, join)
    if ("using" in given) == ("on" in given):
        refuse(f"a join without USING or ON (a comma, or a plain JOIN) is not supported; {_JOIN}", sql, join)
    if set(given) - {"this", "side", "kind", "using", "on"}:
        refuse(f"this join is not supported; {_JOIN}", sql, join)
    return "left" if side else "inner"


def _using(sql: str, join: Node) -> tuple[str, ...]:
    columns = settings(join).get("using", [])
    for column in columns:
        if not isinstance(column, exp.Identifier):
            refuse(f"USING takes names of columns; {_JOIN}", sql, column)
    names = tuple(fold(column) for column in columns)
    if len(set(names)) < len(names):
        refuse("a column stands twice in USING", sql, join)
    return names


def _on(sql: str, join: Node, alias: str, before: list[Source]) -> tuple[tuple[ColumnName, ColumnName], ...]:
    condition = settings(join).get("on")
    if condition is None:
        return ()
    found = []
    for part in operands(bare(condition), exp.And):
        sides = [bare(part.this), bare(part.expression)] if isinstance(part, exp.EQ) else []
        names = [column_name(sql, side) for side in sides if isinstance(side, exp.Column)]
        if len(names) < 2:
            refuse(
                "ON takes equalities of columns joined by AND, like ON a.x = b.y AND a.z = b.z; "
                "other conditions stand in WHERE",
                sql,
                part,
            )
        left, right = names
        if left.table is None or right.table is None:
            name = left if left.table is None else right
            refuse(f"write the column {name.name} of ON with its table, like {alias}.{name.name}", sql, part)
        if left.table == alias:
            left, right = right, left
        known = [source.alias for source in before]
        if right.table != alias or left.table not in known:
            refuse(
                f"an equality of ON compares a column of {alias} with one of a table before it "
                f"({', '.join(known)})",
                sql,
                part,
            )
        found.append((left, right))
    return tuple(dict.fromkeys(found))
