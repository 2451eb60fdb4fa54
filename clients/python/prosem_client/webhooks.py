"""The receiver's side of webhooks: is this request from the server, and new?

    delivery = verify(body, headers["X-ProSem-Signature"], secret)
    for frame in delivery["frames"]: ...

The signature is `t=<seconds>,v1=<hex>`, where the hex is HMAC-SHA256 of `<seconds>.<body>` with the webhook's secret. A
receiver refuses what is signed otherwise or too long ago, and answers 2xx to a delivery that it has dealt with before:
`delivery["delivery"]` is the same whenever it is sent again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any

from prosem_client.errors import ProsemError

TOLERANCE_S = 300.0


class BadSignature(ProsemError):
    """The request was not signed with this secret, or too long ago."""

    def __init__(self, detail: str) -> None:
        super().__init__(0, "bad-signature", detail)


def sign(body: bytes, secret: str, at: int) -> str:
    """The header for a body that is sent at this moment (seconds of the epoch).

    >>> sign(b"{}", "s", 1)
    't=1,v1=b253639bcd705ed1cda3073f66104f16988bd40272584dea7d0d345ae93e61cc'
    """
    digest = hmac.new(secret.encode(), b"%d.%b" % (at, body), hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def verify(
    body: bytes, signature: str, secret: str, tolerance_s: float = TOLERANCE_S, now: float | None = None
) -> dict[str, Any]:
    """The delivery in a body, as it came over the wire. BadSignature if it must not be believed."""
    parts = [part.strip().partition("=") for part in signature.split(",")]
    moments = [value for name, _, value in parts if name == "t"]
    if len(moments) != 1 or not (moments[0].isascii() and moments[0].isdigit() and len(moments[0]) < 15):
        raise BadSignature("the signature must look like t=<seconds>,v1=<hex>")
    at = int(moments[0])
    expected = sign(body, secret, at).partition("v1=")[2].encode()
    given = [value.encode() for name, _, value in parts if name == "v1"]
    if not sum(hmac.compare_digest(expected, each) for each in given):
        raise BadSignature("the body was not signed with this secret")
    if abs((time.time() if now is None else now) - at) > tolerance_s:
        raise BadSignature(f"it was signed more than {tolerance_s:g} s ago, or ahead of this clock")
    delivery: dict[str, Any] = json.loads(body)
    return delivery
