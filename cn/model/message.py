"""What travels through a network. Stateless: nothing in a message depends on what was sent before."""

from __future__ import annotations

from typing import Any

import msgspec

from cn.model.geometry import Region


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """Whatever is sent: never changed, and written as an array, without the names of its fields."""


class Message(Sent, frozen=True):
    """One reformulated message.

    It concerns the points of `space` under `topic` (the encoded equality values, b"" without any) that lie in
    `region`; or, when `targets` is given, exactly the points named there; or, when `attributes` is given, the
    filters that hold one of these attribute vectors (the event is the point; None: no row). `part`
    numbers the messages of one `seq`. `payload` is opaque to the network.

    `contents` are the parts of the payload that no condition looks at and that other messages may carry again, `digests`
    their hashes: a network that remembers contents may send the digest alone, with b"" in the content's place.
    """

    seq: int
    part: int
    space: int
    kind: str
    topic: bytes = b""
    region: Region = ()
    targets: tuple[int, ...] | None = None
    attributes: tuple[tuple[Any, ...] | None, ...] | None = None
    payload: bytes = b""
    contents: tuple[bytes, ...] = ()
    digests: tuple[bytes, ...] = ()
