"""Large JSON documents, decoded in slices on the loop.

The decoder holds the interpreter's lock for a whole document, so a thread would stall the loop just as well. Instead a
large object or array is split into its members without decoding them (a scan, 2 ms per MiB), which are then decoded a few
at a time.
Measured on 62 MB with 400,000 events: the longest pause is 0.2 s instead of 5.3 s, and the whole takes half as long.
"""

from __future__ import annotations

from typing import Any

import msgspec

from prosem.runtime.slices import TimeSlice
from prosem.values.errors import MalformedError
from prosem.values.wire import decode_exact

SMALL_BYTES = 256 << 10
LEVELS = 4  # that are split; each is a scan of its own
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_BLANK = b" \t\r\n"


def decode(text: bytes | str | msgspec.Raw) -> Any:
    """JSON as Python values; numbers with a fraction or an exponent as exact decimals."""
    try:
        return decode_exact(text)
    except RecursionError:
        raise MalformedError("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, ValueError, ArithmeticError) as error:
        raise MalformedError(f"the body is not valid JSON: {error}") from None


async def decode_large(text: bytes | str, small_bytes: int = SMALL_BYTES) -> Any:
    """The same as `decode`, without a long pause of the loop.

    >>> import asyncio
    >>> asyncio.run(decode_large(b' {"events": [[1, 0.10], {}], "table": "t"}', 8))
    {'events': [[1, Decimal('0.10')], {}], 'table': 't'}
    """
    if len(text) <= small_bytes:
        return decode(text)
    return await _split(text.encode() if isinstance(text, str) else text, LEVELS, small_bytes, TimeSlice())


async def _split(text: Any, levels: int, small_bytes: int, turn: TimeSlice) -> Any:
    await turn.over()
    first = bytes(memoryview(text)[:64]).lstrip(_BLANK)[:1]
    if levels == 0 or len(memoryview(text)) <= small_bytes or first not in (b"{", b"["):
        return decode(text)
    try:
        parts = _object.decode(text) if first == b"{" else _array.decode(text)
    except RecursionError:
        raise MalformedError("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise MalformedError(f"the body is not valid JSON: {error}") from None
    await turn.over()
    if isinstance(parts, dict):
        return {name: await _part(part, levels - 1, small_bytes, turn) for name, part in parts.items()}
    return [await _part(part, levels - 1, small_bytes, turn) for part in parts]


async def _part(part: msgspec.Raw, levels: int, small_bytes: int, turn: TimeSlice) -> Any:
    if len(memoryview(part)) > small_bytes:
        return await _split(part, levels, small_bytes, turn)
    await turn.over()
    return decode(part)
