"""A query as words, names, parameters, numbers and signs, each with its place in the text."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*")"""
    r"""|(?P<cast>::)|:(?P<parameter>\w+)|(?P<word>[^\W\d]\w*)|(?P<number>[0-9]+(?:\.[0-9]+)?(?![\w.]))"""
    r"""|(?P<sign><=|>=|<>|!=|.)""",
    re.DOTALL,
)


class Token(NamedTuple):
    kind: str
    text: str  # a bare word in lower case, a quoted name without its quotes
    start: int
    stop: int

    def is_sign(self, text: str) -> bool:
        return self.kind == "sign" and self.text == text

    def is_word(self, text: str) -> bool:
        return self.kind == "word" and self.text == text


Tokens = list[Token]


def tokens_of(sql: str) -> Tokens:
    """The tokens without what is skipped: spaces, comments, and the semicolon.

    >>> [(token.kind, token.text) for token in tokens_of('"X" >= :lo -- low')]
    [('quoted', 'X'), ('sign', '>='), ('parameter', 'lo')]
    """
    tokens = []
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or ""
        text = match[kind]
        if kind == "word":
            text = text.lower()
        elif kind == "quoted":
            text = text[1:-1].replace('""', '"')
        if kind != "skip" and text != ";":
            tokens.append(Token(kind, text, match.start(), match.end()))
    return tokens


def words_of(tokens: Tokens) -> list[str]:
    """Bare words, which alone may be keywords; an empty text for any other token."""
    return [token.text if token.kind == "word" else "" for token in tokens]
