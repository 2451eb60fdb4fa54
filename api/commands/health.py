"""`prosem health`: asks `/readyz` of a server or broker on this machine, for the health checks of containers.

Nothing is imported that takes time. The certificate is not verified: it is for the name that clients use, not for loopback.
"""

from __future__ import annotations

import http.client
import ssl
import sys

TIMEOUT_S = 4.0
_OWN = {
    "": "127.0.0.1",
    "0.0.0.0": "127.0.0.1",
    "::": "::1",
}  # where a server that listens everywhere is asked


def check(host: str, port: int, tls: bool) -> int:
    """Exit code 0 if it is ready; else 1, and why on standard error."""
    asked = _OWN.get(host.strip("[]"), host.strip("[]"))
    connection: http.client.HTTPConnection
    if tls:
        connection = http.client.HTTPSConnection(
            asked, port, timeout=TIMEOUT_S, context=ssl._create_unverified_context()
        )
    else:
        connection = http.client.HTTPConnection(asked, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        said = answer.read(1_000).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        print(f"nothing answers at {asked}:{port}: {error}", file=sys.stderr)
        return 1
    finally:
        connection.close()
    if answer.status != 200:
        print(f"not ready: {answer.status} {said}", file=sys.stderr)
        return 1
    return 0
