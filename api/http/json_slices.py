"""Large JSON documents, decoded in slices on the loop.

The decoder holds the interpreter's lock for a whole document, so a thread would stall the loop just as well. Instead a
large array is cut between members, at places that are guessed: a piece that decodes as an array by itself ends between two
members, whatever it holds. Where no guess is right, and in a large object, members are split without decoding them (a scan,
2 ms per MiB, and 70 bytes of memory per member), and then decoded a few at a time.
Measured on a busy machine: 60 MB of `1,1,1,…` take 3.2 s and at most 0.7 s at once (the scan of the object around them), in
place of 69 s and 9 s by splitting alone. It loses on arrays with a member larger than `MOST_GUESSED_BYTES`: the others after
it are split.
"""

from __future__ import annotations

from typing import Any

import msgspec

from prosem.runtime.slices import TimeSlice
from prosem.values.errors import MalformedError
from prosem.values.wire import decode_exact

SMALL_BYTES = 256 << 10
LEVELS = 4  # that are split; each is a scan of its own
MOST_GUESSED_BYTES = 4 << 20  # of a piece
CUTS = (b"},{", b"],[", b"}, {", b"], [", b",")  # what may stand between two members, the most likely first
NEAR_BYTES = 32 << 10  # a cut is looked for within so many bytes before the end of a piece
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
    if first == b"[":
        return await _array_members(bytes(text), levels, small_bytes, turn)
    parts = _members(_object, text)
    await turn.over()
    return {name: await _part(part, levels - 1, small_bytes, turn) for name, part in parts.items()}


async def _array_members(text: bytes, levels: int, small_bytes: int, turn: TimeSlice) -> list[Any]:
    found: list[Any] = []
    start, size = text.index(b"[") + 1, small_bytes
    while len(text) - start > size and size <= MOST_GUESSED_BYTES:
        piece, end = _piece(text, start, size)
        await turn.over()
        if piece is None:
            size *= 2
            continue
        found += piece
        start, size = end + 1, small_bytes
    try:
        rest = _array.decode(b"[" + memoryview(text)[start:])
    except (RecursionError, msgspec.DecodeError, ValueError):
        _members(_array, text)  # the error says where it is in the whole
        raise MalformedError("the body is not valid JSON") from None
    if found and not rest:
        raise MalformedError("the body is not valid JSON: an array ends with a comma")
    await turn.over()
    return found + [await _part(part, levels - 1, small_bytes, turn) for part in rest]


def _piece(text: bytes, start: int, size: int) -> tuple[list[Any] | None, int]:
    """The members from `start` to a cut before `start + size`, and where that is; None if no cut was found."""
    for cut in CUTS:
        at = text.rfind(cut, max(start, start + size - NEAR_BYTES), start + size)
        if at < 0:
            continue
        end = at + cut.index(b",")
        try:
            members = decode_exact(b"[" + memoryview(text)[start:end] + b"]")
        except (RecursionError, msgspec.DecodeError, ValueError, ArithmeticError):
            continue
        if members:
            return members, end
    return None, start


def _members(decoder: msgspec.json.Decoder[Any], text: Any) -> Any:
    try:
        return decoder.decode(text)
    except RecursionError:
        raise MalformedError("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise MalformedError(f"the body is not valid JSON: {error}") from None


async def _part(part: msgspec.Raw, levels: int, small_bytes: int, turn: TimeSlice) -> Any:
    if len(memoryview(part)) > small_bytes:
        return await _split(part, levels, small_bytes, turn)
    await turn.over()
    return decode(part)
