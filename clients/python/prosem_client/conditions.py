"""Which conditions of a query the client can check by itself.

The server is the one that understands queries. Read here is only what the update monitor needs: the columns
selected, and the conjuncts of WHERE that compare a column with a parameter or with arithmetic over parameters:
`x >= :lo`, `:pos - :reach < x`, `x BETWEEN :lo AND :hi`, `x = :x`. A condition that is read in no such way is the
server's alone; what stands under OR or NOT is never read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prosem_client.errors import NotMonitorable
from prosem_client.query import outline
from prosem_client.terms import Term, parameters_of, read_term
from prosem_client.tokens import Tokens, tokens_of, words_of

_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
_PARTIAL = {
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "fetch",
}  # an answer that is not all rows of a range


class Comparison(NamedTuple):
    """`column sign term`, where the term has a parameter; `text[start:stop]` is the term, or all of an equality."""

    column: str
    sign: str
    term: Term
    start: int
    stop: int
    source: str  # the column as the text names it


class Condition(NamedTuple):
    """A query over one table: the columns selected (None: all), and the comparisons that can be checked here."""

    sql: str
    table: str
    selected: tuple[str, ...] | None
    comparisons: tuple[Comparison, ...]
    uses: Mapping[str, int]  # how often each parameter stands in the text


def condition(sql: str) -> Condition:
    """What can be checked of a query; NotMonitorable if its answer does not follow from a wider range's.

    O(n) in the length of the text.

    >>> found = condition("SELECT * FROM t WHERE x > :lo AND :hi >= x AND s IS NULL")
    >>> [(one.column, one.sign, one.term) for one in found.comparisons]
    [('x', '>', Parameter(name='lo')), ('x', '<=', Parameter(name='hi'))]
    """
    tokens = tokens_of(sql)
    words = words_of(tokens)
    table = outline(sql).table
    if table is None or "from" not in words:
        raise NotMonitorable("the update monitor needs a query over one table; a join cannot be checked here")
    start = words.index("from")
    selected = _selected(tokens[1:start])
    if partial := _PARTIAL.intersection(words[start:]):
        raise NotMonitorable(
            f"the update monitor needs all rows of a range: what {min(partial).upper()} leaves of a range does "
            "not follow from a wider one"
        )
    where = words.index("where") + 1 if "where" in words else len(tokens)
    uses = Counter(token.text for token in tokens if token.kind == "parameter")
    found = tuple(one for part in _conjuncts(tokens[where:]) for one in _comparisons(sql, part))
    if not found:
        raise NotMonitorable(
            "the update monitor needs a column compared with parameters, joined by AND: x BETWEEN :lo AND :hi, "
            "x >= :lo, x < :pos + :reach, x = :x (not under OR or NOT)"
        )
    return Condition(sql, table, selected, found, uses)


def _selected(tokens: Tokens) -> tuple[str, ...] | None:
    """The columns between SELECT and FROM, None for `*`."""
    if len(tokens) == 1 and tokens[0].is_sign("*"):
        return None
    if any(token.is_sign("(") or token.is_word("distinct") for token in tokens):
        raise NotMonitorable(
            "the update monitor needs SELECT * or columns: an aggregate or the distinct values of a range do "
            "not follow from those of a wider one"
        )
    items: list[Tokens] = [[]]
    for token in tokens:
        if token.is_sign(","):
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
        depth += token.is_sign("(") - token.is_sign(")")
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
    if not part or not part[0].is_sign("("):
        return False
    depth = 0
    for at, token in enumerate(part):
        depth += token.is_sign("(") - token.is_sign(")")
        if not depth:
            return at == len(part) - 1
    return False


def _comparisons(sql: str, conjunct: Tokens) -> Iterator[Comparison]:
    words = words_of(conjunct)
    if "between" in words and "and" in words:
        start, middle = words.index("between"), words.index("and")
        sides = (
            [] if words[start + 1].endswith("symmetric") else [(">=", start, middle), ("<=", middle, None)]
        )
        for sign, before, after in sides:
            yield from _comparison(sql, conjunct[:start], sign, conjunct[before + 1 : after])
        return
    for at, token in enumerate(conjunct):
        if token.kind == "sign" and token.text in _TURNED:
            left, right, sign = conjunct[:at], conjunct[at + 1 :], token.text
            if _column(left) is None:
                left, right, sign = right, left, _TURNED[sign]
            yield from _comparison(sql, left, sign, right)
            return


def _comparison(sql: str, left: Tokens, sign: str, right: Tokens) -> Iterator[Comparison]:
    column, term = _column(left), read_term(right)
    if column is None or term is None or not any(parameters_of(term)):
        return
    replaced = [*left, *right] if sign == "=" else right
    start, stop = min(token.start for token in replaced), max(token.stop for token in replaced)
    yield Comparison(column, sign, term, start, stop, sql[left[0].start : left[-1].stop])


def _column(tokens: Tokens) -> str | None:
    """The column of `x` or `t.x`."""
    kinds = [token.kind in ("word", "quoted") for token in tokens]
    if kinds == [True] or (kinds == [True, False, True] and tokens[1].text == "."):
        return tokens[-1].text
    return None
