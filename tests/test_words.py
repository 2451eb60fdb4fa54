"""Code and pages use the words of the trade: machines are not described as people, and there is no private vocabulary."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "api",
    "bench",
    "clients/python",
    "cn",
    "docker",
    "docs",
    "examples",
    "migrations",
    "optimizer",
    "pipeline",
    "prosem",
)
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "examples/**/*.md",
        "examples/*/*.js*",
        "clients/*/README.md",
        "kernels/*.md",
        "api/console/*.js",
        "api/console/*.html",
        "clients/js/src/*.js",
        "clients/js/src/*.ts",
        "clients/react/src/*.*s",
    )
    for path in ROOT.glob(pattern)
)
PEOPLE = r"who|whom|whoever|somebody|nobody|everybody|anybody|offices?|couriers?|patience|keepers?"
PRIVATE = r"standings?|stood|journeys?|surroundings|a message a subscription"
FORBIDDEN = re.compile(rf"(?<![A-Za-z'])({PEOPLE}|{PRIVATE})(?![A-Za-z'])", re.IGNORECASE)
ALLOWED = {
    ("cn/model/frames.py", "stood"),  # a tag on the wire
    ("prosem/store/installation.py", "nobody"),  # the user of that name in Unix
}


def words(text: str) -> Iterator[tuple[int, str]]:
    """The forbidden words in names, comments and strings, with their lines.

    >>> list(words("x = 1  # nobody asks\\nkeepers = 2\\nbookkeeper = 3\\n"))
    [(1, 'nobody'), (2, 'keepers')]
    """
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NAME, tokenize.COMMENT, tokenize.STRING):
            for found in FORBIDDEN.finditer(token.string):
                line = token.start[0] + token.string.count("\n", 0, found.start())
                yield line, found[1].lower()


@pytest.mark.parametrize("package", PACKAGES)
def test_code_uses_the_words_of_the_trade(package: str) -> None:
    found = [
        f"{name}:{line}: {word}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in [path.relative_to(ROOT).as_posix()]
        for line, word in words(path.read_text())
        if (name, word) not in ALLOWED
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_the_words_of_the_trade(page: str) -> None:
    found = [line for line in (ROOT / page).read_text().splitlines() if FORBIDDEN.search(line)]
    assert not found, "\n".join(found)


def test_forbidden_words_are_found() -> None:
    assert FORBIDDEN.search("Nobody is told")
    assert not FORBIDDEN.search("Whomsoever, a bookkeeper")
