"""The address that a process listens on, taken with a sentence instead of a traceback where that cannot be."""

from __future__ import annotations

import errno
import os
import socket

from prosem.values.errors import SetupError


def bound(host: str, port: int) -> socket.socket:
    """A socket with this address that does not listen yet; SetupError if nothing can listen there."""
    if not 0 <= port <= 65_535:
        raise SetupError(f"a port is a number up to 65535, not {port}; give another --port")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except OSError:
            made.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SetupError(
                f"port {port} of {host} is in use: stop the program that listens there, or give another --port"
            ) from None
        raise SetupError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return made
