"""The frames of a subscriber's WebSocket, encoded: snapshots, changes, raw messages, progress and errors."""

from __future__ import annotations

import msgspec

from prosem.delivery.subscriber import Item

_encode = msgspec.json.encode


def frame(item: Item) -> bytes:
    """An item as a frame of the socket."""
    kind, id, seq, body, timeline = item
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
