"""The frames of a subscriber's WebSocket, encoded: snapshots, changes, raw messages, progress and errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from prosem.delivery.subscriber import Item

_encode = msgspec.json.encode


def frames(items: Iterable[Item]) -> Iterator[bytes]:
    """Items as frames of the socket. A change that many streams receive is written once: they differ in their heads."""
    seq, body, tail = -1, b"", b""
    for item in items:
        kind, _, item_seq, item_body, _, head = item
        if kind != "change" or not head:
            yield frame(item)
            continue
        if item_body is not body or item_seq != seq:
            seq, body, tail = item_seq, item_body, b',"seq":%d,"change":%b}' % (item_seq, item_body)
        yield head + tail


def frame(item: Item) -> bytes:
    """One item."""
    kind, id, seq, body, timeline, _ = item
    if kind == "change" or kind == "raw":
        return b'{"id":%b,"seq":%d,"%b":%b}' % (_encode(id), seq, kind.encode(), body)
    if kind == "snapshot":
        return b'{"id":%b,"seq":%d,"snapshot":%b,"timeline":"%b"}' % (
            _encode(id),
            seq,
            body,
            timeline.encode(),
        )
    if kind == "redirect":
        return b'{"redirect":%b,"id":%b}' % (body, _encode(id))
    if kind == "error":
        return b'{"error":%b%b}' % (body, b"" if id is None else b',"id":' + _encode(id))
    return b'{"%b":%d,"timeline":"%b"}' % (kind.encode(), seq, timeline.encode())
