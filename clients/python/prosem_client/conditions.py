"""Which parameters of a query are ends of a range that the client can check by itself.

The server is the one that understands queries. Read here is only what the update monitor needs: the columns
selected, and the conjuncts of WHERE of the form `x >= :lo`, `:lo < x` or `x BETWEEN :lo AND :hi`. A
condition that is read in no such way is the server's alone, and so is every parameter in it; what stands
under OR or NOT is never read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from prosem_client.errors import NotMonitorable
from prosem_client.query import outline

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*")"""
    r"""|(?P<cast>::)|:(?P<parameter>\w+)|(?P<word>[^\W\d]\w*)|(?P<number>[\d.]+)|(?P<sign><=|>=|<>|!=|.)""",
    re.DOTALL,
)
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


class Token(NamedTuple):
    kind: str
    text: str


Tokens = list[Token]


class End(NamedTuple):
    """One end of a range: `column >= :parameter` and the like."""

    column: str
    parameter: str
    is_lower: bool
    is_open: bool


class Condition(NamedTuple):
    """A query over one table: the columns selected (None: all), and the ends that can be checked here."""

    table: str
    selected: tuple[str, ...] | None
    ends: tuple[End, ...]


def condition(sql: str) -> Condition:
    """What can be checked of a query; NotMonitorable if its answer does not follow from a wider range's.

    O(n) in the length of the text.

    >>> condition("SELECT * FROM t WHERE x > :lo AND :hi >= x AND s = :s").ends
    (End(column='x', parameter='lo', is_lower=True, is_open=True), \
End(column='x', parameter='hi', is_lower=False, is_open=False))
    """
    tokens = _tokens(sql)
    words = [token.text if token.kind == "word" else "" for token in tokens]
    table = outline(sql).table
    if table is None or "from" not in words:
        raise NotMonitorable("the update monitor needs a query over one table; a join cannot be checked here")
    start = words.index("from")
    selected = _selected(tokens[1:start])
    where = words.index("where") + 1 if "where" in words else len(tokens)
    uses = Counter(token.text for token in tokens if token.kind == "parameter")
    found = (end for conjunct in _conjuncts(tokens[where:]) for end in _ends(conjunct))
    ends = tuple(end for end in found if uses[end.parameter] == 1)
    if not ends:
        raise NotMonitorable(
            "the update monitor needs a range whose ends are parameters of their own, joined by AND: "
            "x BETWEEN :lo AND :hi, x >= :lo, x < :hi (not under OR or NOT, not in arithmetic)"
        )
    return Condition(table, selected, ends)


def _tokens(sql: str) -> Tokens:
    tokens = []
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or ""
        text = match[kind]
        if kind == "word":
            text = text.lower()
        elif kind == "quoted":
            text = text[1:-1].replace('""', '"')
        if kind != "skip" and text != ";":
            tokens.append(Token(kind, text))
    return tokens


def _selected(tokens: Tokens) -> tuple[str, ...] | None:
    """The columns between SELECT and FROM, None for `*`."""
    if tokens == [Token("sign", "*")]:
        return None
    if any(token in (Token("sign", "("), Token("word", "distinct")) for token in tokens):
        raise NotMonitorable(
            "the update monitor needs SELECT * or columns: an aggregate or the distinct values of a range do "
            "not follow from those of a wider one"
        )
    items: list[Tokens] = [[]]
    for token in tokens:
        if token == Token("sign", ","):
            items.append([])
        else:
            items[-1].append(token)
    if len(items) == 1:
        raise NotMonitorable("the update monitor needs rows: one column alone is a value notification")
    return tuple(item[-1].text for item in items if item)


def _conjuncts(tokens: Tokens) -> Iterator[Tokens]:
    """The parts that AND joins, without the parentheses around them; none if OR joins any."""
    parts: list[Tokens] = [[]]
    depth, betweens = 0, 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")") if token.kind == "sign" else 0
        word = token.text if token.kind == "word" and not depth else ""
        if word == "or":
            return
        betweens += word == "between"
        if word == "and" and not betweens:
            parts.append([])
            continue
        betweens -= word == "and"
        parts[-1].append(token)
    for part in parts:
        if _is_wrapped(part):
            yield from _conjuncts(part[1:-1])
        else:
            yield part


def _is_wrapped(part: Tokens) -> bool:
    """Whether the first parenthesis closes at the end."""
    if not part or part[0] != Token("sign", "("):
        return False
    depth = 0
    for at, token in enumerate(part):
        depth += (token.text == "(") - (token.text == ")") if token.kind == "sign" else 0
        if not depth:
            return at == len(part) - 1
    return False


def _ends(conjunct: Tokens) -> Iterator[End]:
    words = [token.text if token.kind == "word" else "" for token in conjunct]
    if "between" in words and "and" in words:
        start, middle = words.index("between"), words.index("and")
        column = _column(conjunct[:start])
        for side, is_lower in ((conjunct[start + 1 : middle], True), (conjunct[middle + 1 :], False)):
            if column is not None and [token.kind for token in side] == ["parameter"]:
                yield End(column, side[0].text, is_lower, is_open=False)
        return
    for at, token in enumerate(conjunct):
        if token.kind == "sign" and token.text in _TURNED:
            left, right, sign = conjunct[:at], conjunct[at + 1 :], token.text
            if [part.kind for part in left] == ["parameter"]:
                left, right, sign = right, left, _TURNED[sign]
            column = _column(left)
            if column is not None and [part.kind for part in right] == ["parameter"]:
                yield End(column, right[0].text, is_lower=sign[0] == ">", is_open=len(sign) == 1)
            return


def _column(tokens: Tokens) -> str | None:
    """The column of `x` or `t.x`."""
    kinds = [token.kind in ("word", "quoted") for token in tokens]
    if kinds == [True] or (kinds == [True, False, True] and tokens[1].text == "."):
        return tokens[-1].text
    return None
