"""Reading request bodies: JSON with exact decimals, limits, and errors that say what is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request

from api.http.json_slices import decode_large
from prosem.values.errors import InputError, TooLargeError

MAX_LINE_BYTES = 16 << 20  # of NDJSON


def body_limit(request: Request) -> int:
    """The largest body that this caller may send."""
    limit: int = request.app.state.server.settings.max_body_mb << 20
    own = request.state.caller.limits.frame_bytes
    return limit if own is None else min(limit, own)


async def body(request: Request, limit_bytes: int) -> bytes:
    """The whole body, refused as soon as it grows beyond the limit."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit_bytes:
            raise TooLargeError(
                f"the body is larger than {_size(limit_bytes)}; send less at a time, or events as application/x-ndjson,"
                " or raise --max-body-mb (a key may have a limit of its own)"
            )
        parts.append(part)
    return b"".join(parts)


def _size(limit_bytes: int) -> str:
    return f"{limit_bytes >> 20} MiB" if limit_bytes >> 20 else f"{limit_bytes} bytes"


async def json_object(request: Request, limit_bytes: int) -> dict[str, Any]:
    value = await decode_large(await body(request, limit_bytes))
    if not isinstance(value, dict):
        raise InputError("expected a JSON object", "")
    return value


async def lines(request: Request, limit_bytes: int) -> AsyncIterator[list[bytes]]:
    """The complete lines of a body as they arrive; memory holds one line and one network chunk."""
    most = min(limit_bytes, MAX_LINE_BYTES)
    rest: list[bytes] = []  # of a line that goes on; joined once, when it ends
    size = 0
    async for part in request.stream():
        first, *whole = part.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > most:
            raise TooLargeError(f"a line is longer than {_size(most)}; send such an event as JSON")
        if whole:
            yield [b"".join(rest), *whole[:-1]]
            rest, size = [whole[-1]], len(whole[-1])
    if size:
        yield [b"".join(rest)]
