"""How values travel. Exactly: decimals are never turned into floats on the way."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

encode = msgspec.json.encode  # Decimal as text, dates in ISO 8601, bytes in base64
decode = msgspec.json.decode
encode_exact = msgspec.json.Encoder(decimal_format="number").encode  # Decimal as the number that was sent
pack = msgspec.msgpack.encode  # messages in the outbox: less than half the size and the time of JSON
_exact = msgspec.json.Decoder(float_hook=Decimal)
_PLAIN = frozenset({int, str, bytes, type(None)})  # equal values of these types are written alike


def decode_exact(text: bytes | str) -> Any:
    """JSON in which a number with a fraction or an exponent becomes a Decimal.

    >>> decode_exact(b'[1, 0.10, 1e2]')
    [1, Decimal('0.10'), Decimal('1E+2')]
    """
    return _exact.decode(text)


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are written alike. For Python True is 1 and -0.0 is 0.0; a reader sees the difference.

    >>> is_same((1, "a"), (1, "a")), is_same([True], [1]), is_same(0.0, -0.0)
    (True, False, False)
    """
    return bool(one == other) and encode(one) == encode(other)


def changed_columns(old: Sequence[Any], new: Sequence[Any]) -> tuple[int, ...]:
    """The positions at which two rows are not written alike.

    >>> changed_columns((1, 2.0, True), (1, -0.0, 1))
    (1, 2)
    """
    return tuple(
        [
            at
            for at, (was, now) in enumerate(zip(old, new, strict=True))
            if was is not now
            and not (type(was) is type(now) and type(was) in _PLAIN and was == now)
            and not is_same(was, now)
        ]
    )
