"""A receiver of webhooks: a real HTTP server that verifies signatures, remembers what came and fails on demand."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prosem_client.webhooks import verify

from tests.support import secrets
from tests.support.live import WAIT_S, Json, fold
from tests.support.waiting import until


@dataclass
class Request:
    """One attempt: where it went, its headers, and the delivery that was signed."""

    path: str
    headers: dict[str, str]
    body: bytes
    delivery: Json
    status: int


class Receiver:
    """`behave(number, request)` gives the status of the n-th attempt (from 0), after as long as it likes.

    A secret that the server makes is given later: what comes before waits for it.
    """

    def __init__(
        self,
        secret: str = "",
        behave: Callable[[int, Request], int] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.secret = secret
        secrets.note(secret)
        self.behave = behave or (lambda number, request: 204)
        self.requests: list[Request] = []
        self.deliveries: dict[str, Json] = {}
        self.faults: list[Exception] = []
        self._change = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver._receive(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass  # a server that was killed closes its connections

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
            self.url = f"https://localhost:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _receive(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers["Content-Length"])
        body = handler.rfile.read(length)
        if len(body) < length:
            return  # the server was killed while it sent this
        headers = {name.lower(): value for name, value in handler.headers.items()}
        until(lambda: self.secret)
        try:
            delivery = verify(body, headers["x-prosem-signature"], self.secret)
        except Exception as error:
            self.faults.append(error)
            raise
        request = Request(handler.path, headers, body, delivery, 0)
        with self._change:
            number = len(self.requests)
            self.requests.append(request)
        request.status = self.behave(number, request)
        with self._change:
            if 200 <= request.status < 300 and delivery:
                self.deliveries.setdefault(delivery["delivery"], delivery)
            self._change.notify_all()
        handler.send_response(request.status)
        if 300 <= request.status < 400:
            handler.send_header("Location", f"{self.url}/elsewhere")
        if request.status != 204:
            handler.send_header("Content-Length", "0")
        handler.end_headers()

    @property
    def frames(self) -> list[Json]:
        """The frames of all deliveries, each taken once, in the order they were first taken."""
        return [frame for delivery in list(self.deliveries.values()) for frame in delivery["frames"]]

    def until(self, is_enough: Callable[[], Any], wait_s: float = WAIT_S) -> None:
        """Wait until something is true of what came."""
        deadline = time.monotonic() + wait_s
        with self._change:
            while not is_enough():
                left = deadline - time.monotonic()
                assert left > 0, f"{self.faults} {[(r.status, r.delivery) for r in self.requests[-3:]]}"
                self._change.wait(min(left, 0.2))

    def seqs(self, id: str) -> list[int]:
        return [frame["seq"] for frame in self.frames if frame["id"] == id and "seq" in frame]

    def answer(self, id: str, key: Iterable[str] = ()) -> Any:
        """The frames of a subscription folded; fails if one comes out of order or twice."""
        answer, last = None, -1
        for frame in self.frames:
            if frame["id"] != id or "error" in frame:
                continue
            if "snapshot" in frame:
                assert frame["seq"] >= last
                answer = frame["snapshot"]
            else:
                assert frame["seq"] > last, f"twice or out of order: {frame} after {last}"
                answer = fold(answer, frame["change"], tuple(key))
            last = frame["seq"]
        return answer
