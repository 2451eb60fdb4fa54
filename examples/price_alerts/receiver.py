"""The receiver of the webhook: what your own service does with a delivery."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prosem_client.webhooks import BadSignature, verify

Notify = Callable[[str, dict[str, Any]], None]


class Receiver:
    """Calls `notify(subscription, change)` once per change. A request that the secret has not signed is answered 401.

    Deliveries are sent again until they are answered with 2xx, so their ids are remembered. A service of your own stores the
    id in the transaction that stores what it makes of the delivery.
    """

    def __init__(self, secret: str, notify: Notify) -> None:
        self.rejected = 0
        self._secret, self._notify = secret, notify
        self._seen: set[str] = set()
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver.take(body, self.headers.get("X-ProSem-Signature", "")))
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/alerts"

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def take(self, body: bytes, signature: str) -> int:
        """The status of the response."""
        try:
            delivery = verify(body, signature, self._secret)
        except BadSignature:
            self.rejected += 1
            return 401
        with self._lock:
            if delivery["delivery"] not in self._seen:
                self._seen.add(delivery["delivery"])
                for frame in delivery["frames"]:
                    if "change" in frame:  # the first frame of a subscription is its snapshot
                        self._notify(frame["id"], frame["change"])
        return 204
