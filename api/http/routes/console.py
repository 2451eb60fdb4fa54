"""The console at `/` and the page of the HTTP interface at `/docs`: files in memory, under an address made of their content.

A page itself is asked for anew each time (it is small, and names the address of the rest); everything else may be kept for
ever, because another version has another address. Nothing comes from another host, and the policy forbids it.
"""

from __future__ import annotations

from hashlib import blake2s
from pathlib import Path

from fastapi import APIRouter, Request, Response

from prosem.values.errors import NotFoundError

FOLDER = Path(__file__).parents[2] / "console"
PAGES = {"/": "index.html", "/docs": "reference.html"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class Console:
    """The files by name, and a digest of them all. `client/` is the JavaScript client as it is published."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted([*folder.glob("*"), *folder.glob("client/*")])
            if path.suffix in _TYPES and path.is_file()
        }
        digest = blake2s(digest_size=8)
        for name, content in self.files.items():
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        self.digest = digest.hexdigest()
        self.pages = {path: self._page(name) for path, name in PAGES.items()}

    def _page(self, name: str) -> bytes:
        return self.files.pop(name).replace(b"{{console}}", f"/console/{self.digest}".encode())


def make_router() -> APIRouter:
    """The routes over the files as they are now."""
    router = APIRouter(include_in_schema=False)
    console = Console()

    async def page(request: Request) -> Response:
        tag = f'"{console.digest}"'
        headers = _SAFE | {"Cache-Control": "no-cache", "ETag": tag, "Content-Security-Policy": POLICY}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(console.pages[request.url.path], headers=headers, media_type=_TYPES[".html"])

    for path in PAGES:
        router.add_api_route(path, page)

    @router.get("/console/{digest}/{name:path}")
    async def file(digest: str, name: str) -> Response:
        content = console.files.get(name)
        if content is None or digest != console.digest:
            raise NotFoundError("the console has no such file; load the page / again")
        headers = _SAFE | {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content, headers=headers, media_type=_TYPES[Path(name).suffix])

    return router
