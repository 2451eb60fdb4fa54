"""Feeds become items: objects with fields, whatever the format. Nothing in a feed is believed.

XML is parsed without entities: a document that declares some is refused, and none is ever fetched, so a small document
cannot become a large one, and cannot read files. The size of a feed is bounded before it comes here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import msgspec

from api.poll.paths import Path, find
from prosem.values.wire import decode_exact

Item = dict[str, Any]
_GUESSES = {".json": "json", ".csv": "csv", ".rss": "rss", ".xml": "rss", ".atom": "rss"}
_RENAMED = {
    "guid": "id",
    "pubDate": "published",
    "date": "published",
    "encoded": "content",
    "category": "categories",
}
_MISSING = "\0missing"
_MOMENTS = ("published", "updated", "lastBuildDate")


class FeedError(Exception):
    """The feed cannot be read; it may be another time. `retry_after_s` is what its server asked for."""

    def __init__(self, detail: str, retry_after_s: float = 0.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


def guess(name: str) -> str | None:
    """The format that a name suggests.

    >>> guess("https://example.org/a/quotes.csv?x=1"), guess("feed")
    ('csv', None)
    """
    name = name.partition("?")[0].partition("#")[0].lower()
    return next((form for ending, form in _GUESSES.items() if name.endswith(ending)), None)


def read_json(content: bytes, path: Path) -> list[Item]:
    """The objects of the list at `path`."""
    try:
        value = decode_exact(content)
    except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError) as error:
        raise FeedError(f"the feed is no JSON: {error}") from None
    try:
        items = find(value, path)
    except LookupError as error:
        raise FeedError(f"the feed has nothing at --path: {error} is missing") from None
    if not isinstance(items, list):
        lists = (
            [f"$.{name}" for name, each in items.items() if isinstance(each, list)]
            if isinstance(items, dict)
            else []
        )
        hint = f"; --path may be {' or '.join(lists)}" if lists else ""
        raise FeedError(f"expected a list of objects at --path, found {type(items).__name__}{hint}")
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise FeedError(f"item {number} of the feed is no object")
    return items


def read_csv(content: bytes, delimiter: str) -> list[Item]:
    """The lines as objects; the first line has the names of the fields, and an empty field is null."""
    try:
        text = content.decode("utf-8-sig")
        reader = csv.DictReader(
            io.StringIO(text, newline=""), restval=_MISSING, delimiter=delimiter, strict=True
        )
        if not reader.fieldnames:
            raise FeedError("the feed is empty; the first line of CSV has the names of the fields")
        items = []
        for line in reader:
            if None in line:
                raise FeedError(f"line {reader.line_num} of the feed has more fields than the first")
            if _MISSING in line.values():  # of a file that was cut off, perhaps
                raise FeedError(f"line {reader.line_num} of the feed has fewer fields than the first")
            items.append({name: value if value else None for name, value in line.items()})
    except (UnicodeDecodeError, csv.Error) as error:
        raise FeedError(f"the feed is no CSV in UTF-8: {error}") from None
    return items


def read_rss(content: bytes) -> list[Item]:
    """The items of RSS 0.9 to 2.0, or the entries of Atom, under the same names.

    `id` (guid, or the link), `title`, `link`, `description`, `summary`, `content`, `author`, `published` and `updated` in
    ISO 8601, `categories` with commas, and any other element by its own name.
    """
    root = _parsed(content)
    entries = [element for element in root.iter() if _local(element) in ("item", "entry")]
    if not entries and _local(root) not in ("rss", "feed", "RDF"):
        raise FeedError(f"the feed is neither RSS nor Atom: it is a document <{_local(root)}>")
    return [_entry(element) for element in entries]


def _entry(entry: Element) -> Item:
    item: Item = {}
    for child in entry:
        name = _RENAMED.get(_local(child), _local(child))
        text = "".join(child.itertext()).strip()
        if name == "link":
            text = text or child.get("href", "")
            if child.get("rel", "alternate") != "alternate":
                continue
        elif name == "author":
            text = next(("".join(each.itertext()).strip() for each in child if _local(each) == "name"), text)
        elif name == "categories":
            text = ", ".join(filter(None, [item.get("categories"), text or child.get("term", "")]))
        if name in _MOMENTS:
            text = _moment(text)
        if name == "categories" or name not in item:
            item[name] = text or None
    item["id"] = item.get("id") or item.get("link")
    return item


def _moment(text: str) -> str:
    """A moment of an e-mail's form in ISO 8601; others as they are.

    >>> _moment("Sat, 07 Sep 2002 00:00:01 GMT"), _moment("2003-12-13T18:30:02Z")
    ('2002-09-07T00:00:01+00:00', '2003-12-13T18:30:02Z')
    """
    try:
        datetime.fromisoformat(text)
        return text
    except ValueError:
        pass
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return text
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()


def _local(element: Element) -> str:
    """The name without its namespace."""
    return str(element.tag).rpartition(" ")[2]


def _parsed(content: bytes) -> Element:
    """The document's root. O(content), iterative: no depth exhausts the stack."""
    builder = TreeBuilder()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    start: Callable[[str, dict[str, str]], Any] = builder.start
    parser.StartElementHandler = lambda name, attributes: start(name, attributes)
    parser.EndElementHandler = lambda name: builder.end(name)
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = _check_doctype
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(content, True)
        return builder.close()
    except (expat.ExpatError, AssertionError, LookupError, ValueError) as error:
        raise FeedError(f"the feed is no XML: {error}") from None


def _check_doctype(name: str, system: str | None, public: str | None, has_internal_subset: bool) -> None:
    if has_internal_subset:
        raise FeedError("the feed declares things of its own in its DOCTYPE, which is refused")


def _refuse_entity(*_: Any) -> None:
    raise FeedError("the feed declares entities, which are refused")
