"""From SQL text to sqlglot's tree of one SELECT: tokens, syntax errors, and clauses that no statement here has.

sqlglot (PostgreSQL's dialect) reads the text; this module checks the tokens before, because the library is lenient: it
takes clauses in any order, arrays, and operators of other dialects. Every error names the construct, says what to write
instead and shows the place. Linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError

from prosem.language.positions import located
from prosem.language.tree import Node, refuse, settings, span
from prosem.values.columns import check_text
from prosem.values.errors import LanguageError

T = TypeVar("T")
MAX_LENGTH = 100_000
SHORT = 2_000  # texts up to this length are cached by the hundred or thousand, longer ones by the dozen
MAX_NESTING = 30  # parentheses; the parser recurses about twenty frames for each

_POSTGRES = Dialect.get_or_raise("postgres")
_OPENERS = {TokenType.L_PAREN, TokenType.R_PAREN}
_FOREIGN = {"==": "=", "<=>": "IS NULL or =", "&&": "AND", "!": "NOT"}
_IN_ORDER = (
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
)
_NAMING = (TokenType.DOT, TokenType.ALIAS, TokenType.DISTINCT)  # a keyword after one of these opens no clause
_SERVED = {"expressions", "distinct", "from", "joins", "where", "group", "having", "order", "limit"}
_CLAUSES = {  # what sqlglot calls a part of SELECT: its name, and what to do instead
    "with": ("WITH (a common table expression)", "select from a table or a view"),
    "offset": ("OFFSET", "ORDER BY … LIMIT selects the first rows; leave OFFSET out"),
    "windows": ("WINDOW", "aggregates are taken over the whole selection, or of groups"),
    "locks": ("FOR UPDATE or FOR SHARE", "the statement only reads"),
    "into": ("INTO", "the statement only reads"),
    "qualify": ("QUALIFY", "conditions stand in WHERE"),
    "laterals": ("LATERAL", "join tables with USING or ON"),
    "sample": ("TABLESAMPLE", "conditions in WHERE select the rows"),
}
_SET_OPERATIONS = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def read(sql: str, what: str, convert: Callable[[exp.Select], T]) -> T:
    """What `convert` makes of the tree of a SELECT. LanguageError shows the place; `what` is what the statement is for.

    >>> read("SELECT x FROM t", "a view", lambda tree: tree.sql())
    'SELECT x FROM t'
    """
    if len(sql) > MAX_LENGTH:
        raise LanguageError(f"the query is longer than {MAX_LENGTH:,} characters")
    start = 0
    try:
        tokens = _tokens(sql)
        start = tokens[0].start if tokens else 0
        _check_tokens(sql, tokens, what)
        return convert(_select(sql, _tree(sql, tokens, what), what))
    except RecursionError:
        raise located(
            "the query is nested too deeply; remove parentheses or repeated signs", sql, start
        ) from None
    except LanguageError as error:
        if error.line is None:  # then it is the statement as a whole
            raise located(error.detail, sql, start) from None
        raise


def keyword(sql: str, word: str, node: Node) -> tuple[int | None, int | None]:
    """Start and end of the keyword that precedes a node; of the node if there is none."""
    start, end = span(node)
    found = [match.span() for match in re.finditer(rf"(?i)\b(?:{word})\b", sql[:start])]
    return found[-1] if found else (start, end)


# -- tokens ------------------------------------------------------------------------------------------------
def tokens_of(sql: str) -> list[Token]:
    """The tokens of a text that was parsed, without semicolons at its end."""
    tokens = _tokens(sql)
    _check_tokens(sql, tokens, "a statement")
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


def _check_tokens(sql: str, tokens: list[Token], what: str) -> None:
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
                f"{what} is one single statement; remove what follows the semicolon", sql, start, end
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
        if before.token_type is TokenType.NUMBER and start == before.end + 1 and kind is TokenType.VAR:
            text = token.text[:40]
            raise located(
                f'syntax error at or near "{text}"; it follows a number without a space', sql, start, end
            )
        if before.token_type is TokenType.COMMA and (kind in _IN_ORDER or kind is TokenType.R_PAREN):
            raise located("syntax error: something is missing after the comma", sql, before.start)
        before = token
    if before.token_type in (TokenType.COMMA, TokenType.ALIAS):
        what_ended = "the comma" if before.token_type is TokenType.COMMA else "AS"
        raise located(f"syntax error: something is missing after {what_ended}", sql, before.start)
    first = next((token for token in tokens if token.token_type is not TokenType.L_PAREN), tokens[0])
    if first.token_type not in (TokenType.SELECT, TokenType.WITH):
        word = first.text.upper() if len(first.text) <= 40 else first.text[:37].upper() + "..."
        raise located(
            f"{what} is a SELECT statement, {word} is not supported", sql, first.start, first.end + 1
        )
    _check_order(sql, tokens)


def _check_order(sql: str, tokens: list[Token]) -> None:
    """Clauses stand in PostgreSQL's order; sqlglot takes them in any."""
    last: dict[int, int] = {}  # by depth of parentheses, the last clause's place in the order
    for token, depth in keywords(tokens):
        if token.token_type not in _IN_ORDER:
            last.pop(depth, None)
            continue
        at = _IN_ORDER.index(token.token_type)
        if at <= last.get(depth, -1):
            before = _IN_ORDER[last[depth]].name.replace("_", " ")
            raise located(
                f"syntax error: {token.text.upper()} stands after {before}; the order is FROM, WHERE, GROUP BY, "
                "HAVING, ORDER BY, LIMIT",
                sql,
                token.start,
                token.end + 1,
            )
        last[depth] = at


def keywords(tokens: list[Token]) -> Iterator[tuple[Token, int]]:
    """The words that open a clause, SELECT and opening parentheses, each with its depth of parentheses.

    After a dot or AS such a word is a name, and in IS DISTINCT FROM it opens nothing.
    """
    depth, before = 0, None
    for token in tokens:
        kind = token.token_type
        if kind is TokenType.L_PAREN:
            depth += 1
            yield token, depth
        elif kind is TokenType.R_PAREN:
            depth -= 1
        elif kind is TokenType.SELECT or (kind in _IN_ORDER and before not in _NAMING):
            yield token, depth
        before = kind


# -- the tree ----------------------------------------------------------------------------------------------
def _tree(sql: str, tokens: list[Token], what: str) -> Node:
    try:
        trees = _POSTGRES.parser().parse(tokens, sql)
    except ParseError as error:
        raise _syntax_error(sql, tokens, error) from None
    except RecursionError:
        raise
    except Exception:  # a fault of the library on odd input is still a text that cannot be read
        raise LanguageError("syntax error: the query cannot be read") from None
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise LanguageError(f"{what} is one single SELECT statement")
    return tree


def _syntax_error(sql: str, tokens: list[Token], error: ParseError) -> LanguageError:
    first = error.errors[0] if error.errors else {}
    where = (first.get("line"), first.get("col"))
    token = next((token for token in tokens if (token.line, token.col) == where), tokens[-1])
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    missing = "missing" in str(first.get("description", "")) or token is tokens[-1]
    hint = "; something is missing or misplaced there" if missing else ""
    return located(f'syntax error at or near "{text}"{hint}', sql, token.start, token.end + 1)


def _select(sql: str, tree: Node, what: str) -> exp.Select:
    while isinstance(tree, exp.Subquery) and set(settings(tree)) == {"this"}:
        tree = tree.this
    for kind, name in _SET_OPERATIONS.items():
        if isinstance(tree, kind):
            refuse(f"{name} is not supported; write each SELECT on its own", sql, tree)
    if isinstance(tree, exp.Subquery):
        outside = next(name for name in settings(tree) if name != "this").replace("_", " ").upper()
        refuse(f"{outside} after the parentheses is not supported; write it within them", sql, tree)
    if not isinstance(tree, exp.Select):
        refuse(f"{what} is a SELECT statement", sql, tree)
    given = settings(tree)
    for name, (label, instead) in _CLAUSES.items():
        if name in given:
            part = given[name][0] if isinstance(given[name], list) else given[name]
            place = keyword(sql, label.split()[0], part)
            raise located(f"{label} is not supported; {instead}", sql, *place)
    for name in given:
        if name not in _SERVED:
            refuse(f"{name.replace('_', ' ').upper()} is not supported in {what}", sql, tree)
    return tree
