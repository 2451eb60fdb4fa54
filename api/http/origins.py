"""Cross-origin requests: which pages of other addresses may call the server (`--origins`).

A browser lets a page read the responses of its own address alone, unless the server names the page's origin. A page that is
served elsewhere (an application's own server, a development server) therefore needs its origin in the list. Keys are not
cookies: a listed origin has no rights by itself, and a server without keys still refuses pages of other hosts.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from prosem.values.errors import SetupError

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
SENT = ("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID")
READ = ("Retry-After",)
AGE_S = 600  # that a browser may remember the response to its preflight request


def origins(text: str) -> list[str]:
    """The origins of a setting; SetupError for what is none.

    >>> origins("http://127.0.0.1:5173, https://app.example.org/")
    ['http://127.0.0.1:5173', 'https://app.example.org']
    """
    found = [one.strip().removesuffix("/") for one in text.split(",") if one.strip()]
    for one in found:
        parts = urlsplit(one)
        is_origin = (
            parts.scheme in ("http", "https") and parts.netloc and one == f"{parts.scheme}://{parts.netloc}"
        )
        if one != "*" and not is_origin:
            raise SetupError(f"--origins lists origins like https://app.example.org, or *, not {one!r}")
    return found


def allow_origins(app: FastAPI, text: str) -> None:
    """Added last: the middleware that answers preflight requests, before a key is asked for."""
    if allowed := origins(text):
        app.add_middleware(
            CORSMiddleware,
            allow_origins=allowed,
            allow_methods=METHODS,
            allow_headers=SENT,
            expose_headers=READ,
            max_age=AGE_S,
        )
