"""Which certificates this process trusts as a client of others."""

from __future__ import annotations

import ssl


def tls_for(urls: str) -> ssl.SSLContext | None:
    """A context that trusts the system's authorities, if one of these addresses needs it."""
    return ssl.create_default_context() if "https:" in urls else None


def verified(tls: ssl.SSLContext | None) -> ssl.SSLContext:
    """The same for httpx, which without a context reads a list of authorities, 40 ms of a core, also for http alone."""
    return tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
