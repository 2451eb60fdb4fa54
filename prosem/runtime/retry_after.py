"""How long a server asks to be left alone."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

import httpx


def retry_after_s(answer: httpx.Response) -> float:
    """What Retry-After says, as a span or a moment; 0 if it says nothing that can be read.

    >>> retry_after_s(httpx.Response(503, headers={"Retry-After": "7"})), retry_after_s(httpx.Response(503))
    (7.0, 0.0)
    """
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text else 0.0
    except ValueError:
        return 0.0
