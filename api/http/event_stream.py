"""Server-Sent Events: items as events, and the ids by which a stream resumes.

An id is a seq, or a seq and its timeline (`17@4f0c9a1b22`) where the stream was opened with `?timeline=`.
"""

from __future__ import annotations

from prosem.delivery.subscriber import Item
from prosem.values.errors import InputError

_MAX_DIGITS = 18


def event(item: Item) -> bytes:
    """An item as an event whose id names the timeline.

    >>> event(Item("change", "a", 7, b"{}", "t1"))
    b'event: change\\nid: 7@t1\\ndata: {}\\n\\n'
    """
    return _event(item, b"%d@%b" % (item.seq, item.timeline.encode()))


def plain_event(item: Item) -> bytes:
    """An item as an event whose id is its seq."""
    return _event(item, b"%d" % item.seq)


def _event(item: Item, id: bytes) -> bytes:
    if item.kind in ("change", "snapshot"):
        return b"event: %b\nid: %b\ndata: %b\n\n" % (item.kind.encode(), id, item.body)
    if item.kind == "error":
        return b"event: error\ndata: %b\n\n" % item.body
    return b""


def last_event(given: str | None, named: str | None) -> tuple[int | None, str | None]:
    """The seq and the timeline that a stream resumes from; `named` is the timeline of a plain seq.

    >>> last_event("17@4f0c", None), last_event("17", ""), last_event("17", "4f0c"), last_event(None, "4f0c")
    ((17, '4f0c'), (17, None), (17, '4f0c'), (None, '4f0c'))
    """
    if given is None:
        return None, named or None
    seq, separator, timeline = given.partition("@")
    if not seq.isascii() or not seq.isdigit() or len(seq) > _MAX_DIGITS:
        raise InputError(
            f"Last-Event-ID must be a seq, or a seq and its timeline (17@4f0c), not {given[:40]!r}"
        )
    return int(seq), timeline if separator else named or None
