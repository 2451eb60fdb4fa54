"""Reading request bodies: JSON with exact decimals, limits, and errors that say what is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from fastapi import Request

from prosem.errors import InputError, MalformedError, TooLargeError
from prosem.wire import decode_exact


def decode(text: bytes | str) -> Any:
    """JSON as Python values; numbers with a fraction or an exponent as exact decimals."""
    try:
        return decode_exact(text)
    except RecursionError:
        raise MalformedError("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, ValueError, ArithmeticError) as error:
        raise MalformedError(f"the body is not valid JSON: {error}") from None


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
                f"the body is larger than {_size(limit_bytes)}; send less at a time, or events as application/x-ndjson"
            )
        parts.append(part)
    return b"".join(parts)


def _size(limit_bytes: int) -> str:
    return f"{limit_bytes >> 20} MiB" if limit_bytes >> 20 else f"{limit_bytes} bytes"


async def json_object(request: Request, limit_bytes: int) -> dict[str, Any]:
    value = decode(await body(request, limit_bytes))
    if not isinstance(value, dict):
        raise InputError("expected a JSON object", "")
    return value


async def lines(request: Request, limit_bytes: int) -> AsyncIterator[list[bytes]]:
    """The complete lines of a body as they arrive; memory holds one line and one network chunk."""
    rest = b""
    async for part in request.stream():
        *whole, rest = (rest + part).split(b"\n")
        if len(rest) > limit_bytes:
            raise TooLargeError(f"a line is longer than {_size(limit_bytes)}")
        if whole:
            yield whole
    if rest:
        yield [rest]
