"""Conditions added to a query's text, so that nothing behind the parser knows of them.

What comes out is read again and compared with what was meant: the same query, with the atoms in each of its alternatives.
So no text, however odd, can get rid of a condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import TokenType

from prosem.language.evaluate import parameter_names
from prosem.language.parse import parse
from prosem.language.reading import keywords, tokens_of
from prosem.language.syntax import Atom, ColumnName, Parameter, Query
from prosem.values.errors import LanguageError

_AFTER_WHERE = (TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT)


def restrict(query: Query, atoms: Sequence[Atom]) -> Query:
    """The query whose rows also satisfy the atoms: `=` or `in` over parameters, on columns qualified as in its text.

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
    clauses = [token for token, depth in keywords(tokens) if depth == 0]
    where = next((token for token in clauses if token.token_type is TokenType.WHERE), None)
    after = next((token for token in clauses if token.token_type in _AFTER_WHERE), None)
    rest, tail = end, ""
    if after is not None:  # without a comment before it, which would hide what is added
        rest, tail = tokens[tokens.index(after) - 1].end + 1, f" {query.sql[after.start : end]}"
    if where is None:
        sql = f"{query.sql[first:rest]} WHERE {text}{tail}"
    else:
        condition = query.sql[where.end + 1 : rest].strip()
        sql = f"{query.sql[first : where.end + 1]} ({condition}) AND {text}{tail}"
    made = replace(parse(sql), per=query.per)
    is_single = len(query.sources) == 1  # then its columns have no qualifier
    added = [replace(atom, column=ColumnName(atom.column.name)) if is_single else atom for atom in atoms]
    meant = replace(
        query,
        sql=sql,
        where=tuple((*conjunction, *added) for conjunction in query.where),
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
