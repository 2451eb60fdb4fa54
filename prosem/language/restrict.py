"""Conditions added to a query's text, so that nothing behind the parser knows of them.

What comes out is read again and compared with what was meant: the same query, with the atoms in each of its alternatives.
So no text, however odd, can get rid of a condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import TokenType

from prosem.language.evaluate import parameter_names
from prosem.language.parse import parse, tokens_of
from prosem.language.syntax import Atom, Parameter, Query
from prosem.values.errors import LanguageError


def restrict(query: Query, atoms: Sequence[Atom]) -> Query:
    """The query whose rows also satisfy the atoms: `=` or `in` on qualified columns, over parameters.

    >>> from prosem.language.syntax import ColumnName
    >>> atom = Atom(ColumnName("sector", "s"), "=", (Parameter("mine"),))
    >>> restrict(parse("SELECT * FROM s WHERE a = 1 OR b = 2 -- all"), [atom]).sql
    'SELECT * FROM s WHERE (a = 1 OR b = 2) AND "s"."sector" = :mine'
    """
    if not atoms:
        return query
    text = " AND ".join(_written(atom) for atom in atoms)
    tokens = tokens_of(query.sql)
    while tokens[0].token_type is TokenType.L_PAREN and tokens[-1].token_type is TokenType.R_PAREN:
        tokens = tokens[1:-1]
    first, end = tokens[0].start, tokens[-1].end + 1
    where = next((token for token in tokens if token.token_type is TokenType.WHERE), None)
    if where is None:
        sql = f"{query.sql[first:end]} WHERE {text}"
    else:
        condition = query.sql[where.end + 1 : end].strip()
        sql = f"{query.sql[first : where.end + 1]} ({condition}) AND {text}"
    made = parse(sql)
    meant = replace(
        query,
        sql=sql,
        where=tuple((*conjunction, *atoms) for conjunction in query.where),
        parameters=query.parameters
        | {name for atom in atoms for arg in atom.args for name in parameter_names(arg)},
    )
    if made != meant:
        raise LanguageError("this query cannot be restricted to the rows of the key; write it more simply")
    return made


def _written(atom: Atom) -> str:
    assert atom.column.table is not None
    name = ".".join('"' + part.replace('"', '""') + '"' for part in (atom.column.table, atom.column.name))
    names = ", ".join(f":{arg.name}" for arg in atom.args if isinstance(arg, Parameter))
    return f"{name} = {names}" if atom.op == "=" else f"{name} IN ({names})"
