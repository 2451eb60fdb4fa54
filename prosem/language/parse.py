"""From SQL text to a `Query`: syntax alone, no catalog.

`reading` gives the tree; this module takes over only the parts of it that the language has. Everything else is a
LanguageError that names the construct, says what is supported instead and shows the place. Linear in the text, but for
the product of the normal form (see `condition`).
"""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from prosem.language.condition import disjunction
from prosem.language.reading import MAX_LENGTH, SHORT, read
from prosem.language.selection import selection
from prosem.language.sources import sources
from prosem.language.syntax import Query, Source
from prosem.language.tree import fold, refuse, settings
from prosem.values.errors import LanguageError


def parse(sql: str) -> Query:
    """The query a text stands for. Cached by the text.

    In a query of one table columns have no qualifier: `s.x` of `FROM stocks s` is `x`.

    >>> query = parse("SELECT MIN(y) FROM t WHERE 5 < x AND NOT t.name = :owner")
    >>> [f"{atom.column.name} {atom.op}" for atom in query.where[0]], sorted(query.parameters)
    (['x >', 'name <>'], ['owner'])
    """
    if len(sql) > MAX_LENGTH:
        raise LanguageError(f"the query is longer than {MAX_LENGTH:,} characters")
    return _parse_short(sql) if len(sql) <= SHORT else _parse_long(sql)


def _parse(sql: str) -> Query:
    return read(sql, "a subscription", lambda tree: _query(sql, tree))


_parse_short = lru_cache(maxsize=4_096)(_parse)
_parse_long = lru_cache(maxsize=12)(_parse)


def _query(sql: str, tree: exp.Select) -> Query:
    given = settings(tree)
    origins = sources(sql, given.get("from"), given.get("joins", []))
    _check_parameters(sql, tree)
    _check_qualifiers(sql, tree, origins)
    where = given.get("where")
    return Query(
        sql=sql,
        selection=selection(sql, tree),
        sources=origins,
        where=disjunction(sql, where.this if where else None),
        parameters=frozenset(str(node.this) for node in tree.find_all(exp.Placeholder)),
    )


def _check_parameters(sql: str, tree: exp.Select) -> None:
    """A parameter is a list everywhere or nowhere."""
    lists = {}
    values = set()
    for node in tree.find_all(exp.Placeholder):
        if isinstance(node.parent, exp.In) and node.arg_key == "field":
            lists[str(node.this)] = node
        else:
            values.add(str(node.this))
    for name, node in lists.items():
        if name in values:
            refuse(
                f"the parameter :{name} is a list in IN :{name} and a single value elsewhere; use two parameters",
                sql,
                node,
            )


def _check_qualifiers(sql: str, tree: exp.Select, origins: tuple[Source, ...]) -> None:
    """Every `a.x` names a table of FROM by its alias; with one table the qualifier says nothing and is dropped."""
    names = [source.alias for source in origins]
    walk = tree.walk(prune=lambda node: node is not tree and isinstance(node, exp.Select))
    for node in [node for node in walk if isinstance(node, exp.Column)]:
        table = node.args.get("table")
        if not isinstance(table, exp.Identifier) or node.args.get("db") or isinstance(node.this, exp.Star):
            continue
        name = fold(table)
        if name not in names:
            alias = next((source.alias for source in origins if source.table == name), None)
            hint = f"it is called {alias} there" if alias else f"there are {', '.join(names)}"
            refuse(f"there is no table {name} in FROM; {hint}", sql, node)
        if len(names) == 1:
            node.set("table", None)
            node.meta["qualified"] = (
                True  # `ORDER BY t.x` is a column of the table, `ORDER BY x` one of the result
            )
