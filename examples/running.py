"""What the examples share: a server of their own, pages for a browser, and an end at Ctrl-C or after some seconds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mimetypes
import shutil
import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from api.commands.process import free_port, start_server, wait_ready

CLIENT = Path(__file__).parents[1] / "clients" / "js" / "src"
STOP_S = 40.0


def say(text: str) -> None:
    """A line at once, also into a file."""
    print(text, flush=True)


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """A folder for data that is removed at the end; the user that PostgreSQL runs as can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="prosem-example-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def own_server(folder: Path, *options: str) -> Iterator[str]:
    """A server with an embedded PostgreSQL in this folder; its address. It ends with the example."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    say(f"starting a server at {url}/ …")
    process = start_server(port, folder / "data", folder / "server.log", *options)
    try:
        if not wait_ready(url, process):
            raise SystemExit(f"the server did not start:\n{(folder / 'server.log').read_text()[-2000:]}")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)


class Pages:
    """A web server for one page: the files of a folder, the JavaScript client, and where ProSem is (`config.json`).

    A page that is not served by ProSem itself is of another origin: start the server with `--origins` and this address.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.config: dict[str, str] = {}
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages._answer(self, folder)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Pages:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _answer(self, request: BaseHTTPRequestHandler, folder: Path) -> None:
        name = request.path.partition("?")[0].removeprefix("/") or "index.html"
        if name == "config.json":
            return _send(request, json.dumps(self.config).encode(), "application/json")
        home, name = (CLIENT, name.removeprefix("client/")) if name.startswith("client/") else (folder, name)
        file = home / name
        if "/" in name or not file.is_file():
            return request.send_error(404)
        _send(request, file.read_bytes(), mimetypes.guess_type(name)[0] or "application/octet-stream")


def _send(request: BaseHTTPRequestHandler, body: bytes, type: str) -> None:
    request.send_response(200)
    request.send_header("Content-Type", type)
    request.send_header("Content-Length", str(len(body)))
    request.send_header("Cache-Control", "no-cache")
    request.end_headers()
    request.wfile.write(body)


def run(main: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Run a coroutine until it ends, Ctrl-C, SIGTERM, or so many seconds have passed (0: no limit)."""

    async def bounded() -> None:
        task = asyncio.ensure_future(main())
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError, TimeoutError):
            await asyncio.wait_for(task, seconds or None)

    asyncio.run(bounded())
