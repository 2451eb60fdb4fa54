"""Small questions to sqlglot's tree: names, positions, and how to refuse a part of it.

sqlglot reads more than PostgreSQL does. What is not named as supported is refused, so that a construct
which the parser learns tomorrow is an error and never a different meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from sqlglot import exp

from prosem.language.positions import located
from prosem.language.syntax import ColumnName

Node = exp.Expr

_NAMED: dict[type[Node], str] = {
    exp.ILike: "ILIKE",
    exp.SimilarTo: "SIMILAR TO",
    exp.RegexpLike: "a regular expression (~)",
    exp.RegexpILike: "a regular expression (~*)",
    exp.Exists: "a subquery (EXISTS)",
    exp.Subquery: "a subquery",
    exp.Select: "a subquery",
    exp.SetOperation: "a subquery",
    exp.Any: "ANY",
    exp.All: "ALL",
    exp.Case: "CASE",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.Interval: "INTERVAL",
    exp.Collate: "COLLATE",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Escape: "ESCAPE",
    exp.Tuple: "a row of several values",
    exp.Mod: "the operator %",
    exp.Pow: "the operator ^",
    exp.DPipe: "the operator ||",
    exp.Concat: "a concatenation of texts",
    exp.Star: "*",
    exp.Window: "a window (OVER)",
    exp.Alias: "an alias (AS)",
    exp.Cast: "a cast (::)",
    exp.Placeholder: "a parameter",
    exp.Lateral: "LATERAL",
    exp.JSONExtract: "the operator ->",
    exp.JSONExtractScalar: "the operator ->>",
}
_RESERVED = re.compile(  # words of PostgreSQL that are no names without quotes
    "all|analyse|analyze|and|any|array|as|asc|asymmetric|authorization|binary|both|case|cast|check|collate"
    "|collation|column|concurrently|constraint|create|cross|current_catalog|current_date|current_role"
    "|current_schema|current_time|current_timestamp|current_user|default|deferrable|desc|distinct|do|else|end"
    "|except|false|fetch|for|foreign|freeze|from|full|grant|group|having|ilike|in|initially|inner|intersect|into"
    "|is|isnull|join|lateral|leading|left|like|limit|localtime|localtimestamp|natural|not|notnull|null|offset|on"
    "|only|or|order|outer|overlaps|placing|primary|references|returning|right|select|session_user|similar|some"
    "|symmetric|system_user|table|tablesample|then|to|trailing|true|union|unique|user|using|variadic|verbose|when"
    "|where|window|with"
)


def fold(identifier: Any) -> str:
    """The name an identifier means: unquoted ASCII letters are lower case, as in PostgreSQL."""
    if not isinstance(identifier, exp.Identifier):
        return str(identifier)
    name = str(identifier.this)
    return name if identifier.args.get("quoted") else re.sub("[A-Z]+", lambda match: match[0].lower(), name)


def bare(node: Node) -> Node:
    """The node without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def operands(node: Node, kind: type[Node]) -> Iterator[Node]:
    """The operands of a chain of one connective (`kind`), from left to right, without parentheses around them."""
    todo = [node]
    while todo:
        part = bare(todo.pop())
        if type(part) is kind:
            todo += [part.args["expression"], part.args["this"]]
        else:
            yield part


def settings(node: Node) -> dict[str, Any]:
    """The arguments that are given, by their names in every version of sqlglot (`with_` is `with`)."""
    return {name.rstrip("_"): value for name, value in node.args.items() if value}


def span(node: Node) -> tuple[int | None, int | None]:
    """Start and end of the node in the text, as far as its leaves know them; linear in the node's size."""
    starts: list[int] = []
    ends: list[int] = []
    for part in node.walk():
        if "start" in part.meta:
            starts.append(part.meta["start"])
            ends.append(part.meta["end"] + 1)
    return (min(starts), max(ends)) if starts else (None, None)


def place(sql: str, node: Node) -> tuple[int | None, int | None]:
    """Start and end of the node or, if it knows none, of what is around it; with the closing parentheses."""
    around: Node | None = node
    start = end = None
    while around is not None and start is None:
        start, end = span(around)
        around = around.parent
    if end is not None:
        open_ones = sql.count("(", start, end) - sql.count(")", start, end)
        while open_ones > 0 and (closing := re.compile(r"\s*\)").match(sql, end)):
            open_ones, end = open_ones - 1, closing.end()
    return start, end


def excerpt(sql: str, node: Node) -> str:
    """The node as it was written, shortened for a message."""
    start, end = place(sql, node)
    text = " ".join(sql[start:end].split()) if start is not None else type(node).__name__.upper()
    return text if len(text) <= 40 else text[:37] + "..."


def construct(sql: str, node: Node) -> str:
    """What to call the node in a message."""
    for kind, name in _NAMED.items():
        if isinstance(node, kind):
            return name
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
        return "a function of a schema"
    if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Cast):
        return f"the function {function_name(sql, node)}"
    return f"the expression {excerpt(sql, node)!r}"


def function_name(sql: str, node: exp.Func) -> str:
    if "start" in node.meta:
        return sql[node.meta["start"] : node.meta["end"] + 1].strip('"').upper()
    return str(node.this).upper() if isinstance(node, exp.Anonymous) else node.sql_name()


def refuse(detail: str, sql: str, node: Node) -> NoReturn:
    raise located(detail, sql, *place(sql, node))


def unsupported(sql: str, node: Node, instead: str) -> NoReturn:
    refuse(f"{construct(sql, node)} is not supported; {instead}", sql, node)


def alias_name(sql: str, name: Any, node: Node, *, takes_keywords: bool) -> str:
    """The alias a node has. sqlglot reads nearly any word as one; `FROM t ORDER` is a mistake and no alias.

    `takes_keywords`: whether reserved words may follow AS, as they may in a SELECT list.
    """
    start = name.meta.get("start", 0) if isinstance(name, exp.Identifier) else 0
    if not isinstance(name, exp.Identifier) or not name.this or sql[start] == "'":
        refuse('an alias is a name: AS n or AS "N"', sql, node)
    is_reserved = not name.args.get("quoted") and _RESERVED.fullmatch(fold(name))
    if is_reserved and not (takes_keywords and re.search(r"(?i)\bas\s*$", sql[max(0, start - 100) : start])):
        refuse(
            f'{name.this.upper()} is a reserved word; as an alias write it in quotes: AS "{fold(name)}"',
            sql,
            node,
        )
    return fold(name)


def column_name(sql: str, node: exp.Column) -> ColumnName:
    """`x` or `t.x`."""
    given = settings(node)
    if isinstance(node.this, exp.Star):
        refuse("t.* is not supported; write SELECT * or name the columns", sql, node)
    if not isinstance(node.this, exp.Identifier) or set(given) - {"this", "table"}:
        refuse("a column is written as column or table.column, without a schema", sql, node)
    table = given.get("table")
    owner = fold(table) if table is not None else None
    return ColumnName(fold(node.this), owner, span(node)[0])
