"""From SQL text to a `Query`: syntax alone, no catalog.

sqlglot (PostgreSQL's dialect) reads the text; this module checks the tokens before, because the library
is lenient, and takes over only the parts of the tree that the language has. Everything else is a
LanguageError that names the construct, says what is supported instead and shows the place. Linear in the
text, but for the product of the normal form (see `condition`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError

from prosem.language.condition import disjunction
from prosem.language.positions import located
from prosem.language.selection import selection
from prosem.language.sources import sources
from prosem.language.syntax import Query
from prosem.language.tree import Node, refuse, settings, span
from prosem.values.columns import check_text
from prosem.values.errors import LanguageError

MAX_LENGTH = 100_000
MAX_NESTING = 30  # parentheses; the parser recurses about twenty frames for each
_SHORT = 2_000  # texts up to this length are cached by the thousand, longer ones by the dozen

_POSTGRES = Dialect.get_or_raise("postgres")
_OPENERS = {TokenType.L_PAREN, TokenType.R_PAREN}
_FOREIGN = {"==": "=", "<=>": "IS NULL or =", "&&": "AND", "!": "NOT"}
_CLAUSES = {  # what sqlglot calls a part of SELECT: its name, and what to do instead
    "with": ("WITH (a common table expression)", "select from the table itself"),
    "group": ("GROUP BY", "subscribe once for each group, with the group's value as a condition"),
    "having": ("HAVING", "an aggregate covers all rows that satisfy WHERE"),
    "order": ("ORDER BY", "rows are told as a set, sort them at the client"),
    "limit": ("LIMIT", "every row that satisfies WHERE is told"),
    "offset": ("OFFSET", "every row that satisfies WHERE is told"),
    "windows": ("WINDOW", "aggregates are taken over the whole selection"),
    "locks": ("FOR UPDATE or FOR SHARE", "a subscription only reads"),
    "into": ("INTO", "a subscription only reads"),
    "qualify": ("QUALIFY", "conditions stand in WHERE"),
    "laterals": ("LATERAL", "join tables with USING"),
    "sample": ("TABLESAMPLE", "every row that satisfies WHERE is told"),
}
_SET_OPERATIONS = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def parse(sql: str) -> Query:
    """The query a text stands for. Cached by the text.

    >>> query = parse("SELECT MIN(y) FROM t WHERE 5 < x AND NOT name = :who")
    >>> [f"{atom.column.name} {atom.op}" for atom in query.where[0]], sorted(query.parameters)
    (['x >', 'name <>'], ['who'])
    """
    if len(sql) > MAX_LENGTH:
        raise LanguageError(f"the query is longer than {MAX_LENGTH:,} characters")
    return _parse_short(sql) if len(sql) <= _SHORT else _parse_long(sql)


def _parse(sql: str) -> Query:
    start = 0
    try:
        tokens = _tokens(sql)
        start = tokens[0].start if tokens else 0
        _check_tokens(sql, tokens)
        return _query(sql, _tree(sql, tokens))
    except RecursionError:
        raise located(
            "the query is nested too deeply; remove parentheses or repeated signs", sql, start
        ) from None
    except LanguageError as error:
        if error.line is None:  # then it is the statement as a whole
            raise located(error.detail, sql, start) from None
        raise


_parse_short = lru_cache(maxsize=4_096)(_parse)
_parse_long = lru_cache(maxsize=12)(_parse)


# -- tokens ------------------------------------------------------------------------------------------------
def tokens_of(sql: str) -> list[Token]:
    """The tokens of a text that was parsed, without semicolons at its end."""
    tokens = _tokens(sql)
    _check_tokens(sql, tokens)
    return tokens


def _tokens(sql: str) -> list[Token]:
    try:
        check_text(sql)
    except ValueError as error:
        raise LanguageError(str(error)) from None
    try:
        tokens = list(_POSTGRES.tokenize(sql))
    except TokenError:
        raise _unclosed(sql) from None
    for colon, name in pairwise(tokens):
        is_name = name.text.isidentifier() and sql[colon.end + 1 : name.end + 1] == name.text
        if colon.token_type is TokenType.COLON and is_name:
            name.token_type = TokenType.VAR  # :from is a parameter, whatever `from` means elsewhere
    return tokens


def _unclosed(sql: str) -> LanguageError:
    parts = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|(?P<open>'|"|/\*)|."""
    for part in re.finditer(parts, sql, re.S):
        if part["open"]:
            return located(f"syntax error: {part['open']} is opened and not closed", sql, *part.span())
    return located("syntax error: a quoted text, a quoted name or a comment is not closed", sql, 0)


def _check_tokens(sql: str, tokens: list[Token]) -> None:
    """What sqlglot would read leniently, or at a great expense."""
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise LanguageError("the query is empty; write a SELECT statement")
    depth, before = 0, tokens[0]
    for token in tokens:
        kind, start, end = token.token_type, token.start, token.end + 1
        if kind is TokenType.SEMICOLON:
            raise located(
                "a subscription is one single statement; remove what follows the semicolon", sql, start, end
            )
        if kind in _OPENERS:
            depth += 1 if kind is TokenType.L_PAREN else -1
            if depth > MAX_NESTING:
                raise located(
                    f"nested too deeply; at most {MAX_NESTING} parentheses stand in one another", sql, start
                )
        if kind in (TokenType.L_BRACKET, TokenType.L_BRACE):
            raise located(
                "arrays, subscripts and braces are not supported; lists stand in IN (…)", sql, start
            )
        if token.text in _FOREIGN and sql[start:end] == token.text:
            raise located(
                f"the operator {token.text} is not supported; write {_FOREIGN[token.text]}", sql, start, end
            )
        if before.token_type is TokenType.COMMA and kind in (
            TokenType.FROM,
            TokenType.WHERE,
            TokenType.R_PAREN,
        ):
            raise located("syntax error: something is missing after the comma", sql, before.start)
        before = token
    if before.token_type is TokenType.COMMA:
        raise located("syntax error: something is missing after the comma", sql, before.start)
    first = next((token for token in tokens if token.token_type is not TokenType.L_PAREN), tokens[0])
    if first.token_type not in (TokenType.SELECT, TokenType.WITH):
        word = first.text.upper() if len(first.text) <= 40 else first.text[:37].upper() + "..."
        raise located(
            f"a subscription is a SELECT statement, {word} is not supported", sql, first.start, first.end + 1
        )


# -- the tree ----------------------------------------------------------------------------------------------
def _tree(sql: str, tokens: list[Token]) -> Node:
    try:
        trees = _POSTGRES.parser().parse(tokens, sql)
    except ParseError as error:
        raise _syntax_error(sql, tokens, error) from None
    except RecursionError:
        raise
    except Exception:  # a fault of the library on odd input is still a text nobody can read
        raise LanguageError("syntax error: the query cannot be read") from None
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise LanguageError("a subscription is one single SELECT statement")
    return tree


def _syntax_error(sql: str, tokens: list[Token], error: ParseError) -> LanguageError:
    first = error.errors[0] if error.errors else {}
    where = (first.get("line"), first.get("col"))
    token = next((token for token in tokens if (token.line, token.col) == where), tokens[-1])
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    missing = "missing" in str(first.get("description", "")) or token is tokens[-1]
    hint = "; something is missing or misplaced there" if missing else ""
    return located(f'syntax error at or near "{text}"{hint}', sql, token.start, token.end + 1)


def _query(sql: str, tree: Node) -> Query:
    while isinstance(tree, exp.Subquery) and set(settings(tree)) == {"this"}:
        tree = tree.this
    for kind, name in _SET_OPERATIONS.items():
        if isinstance(tree, kind):
            refuse(f"{name} is not supported; subscribe to each SELECT on its own", sql, tree)
    if isinstance(tree, exp.Subquery):
        _check_clauses(sql, tree)
    if not isinstance(tree, exp.Select):
        refuse("a subscription is a SELECT statement", sql, tree)
    _check_clauses(sql, tree)
    given = settings(tree)
    origins = sources(sql, given.get("from"), given.get("joins", []))
    where = given.get("where")
    return Query(
        sql=sql,
        selection=selection(sql, given.get("expressions", []), given.get("distinct")),
        sources=origins,
        where=disjunction(sql, where.this if where else None),
        parameters=frozenset(str(node.this) for node in tree.find_all(exp.Placeholder)),
    )


def _check_clauses(sql: str, tree: Node) -> None:
    given = settings(tree)
    for name, (label, instead) in _CLAUSES.items():
        if name in given:
            part = given[name][0] if isinstance(given[name], list) else given[name]
            start, end = span(part)
            keyword = [match.span() for match in re.finditer(rf"(?i)\b{label.split()[0]}\b", sql[:start])]
            raise located(
                f"{label} is not supported; {instead}", sql, *(keyword[-1] if keyword else (start, end))
            )
    allowed = (
        {"expressions", "from", "joins", "where", "distinct"} if isinstance(tree, exp.Select) else {"this"}
    )
    for name in given:
        if name not in allowed:
            refuse(f"{name.replace('_', ' ').upper()} is not supported in a subscription", sql, tree)
