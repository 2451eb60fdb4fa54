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


async def body(request: Request, limit_bytes: int) -> bytes:
    """The whole body, refused as soon as it grows beyond the limit."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit_bytes:
            raise TooLargeError(
                f"the body is larger than {limit_bytes >> 20} MiB; send less at a time, or events as application/x-ndjson"
            )
        parts.append(part)
    return b"".join(parts)


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
            raise TooLargeError(f"a line is longer than {limit_bytes >> 20} MiB")
        if whole:
            yield whole
    if rest:
        yield [rest]
