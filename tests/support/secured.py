"""A server that needs keys, and callers with keys of all kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
from websockets.sync.client import ClientConnection, connect

from api.http.models.operation_responses import NewKeyResult
from tests.support import secrets
from tests.support.live import Api, Refused
from tests.support.processes import ServerProcess

ADMIN_KEY = "an-admin-key-that-is-long-enough"
STOCKS = {"symbol": "text", "sector": "text", "risk": "integer", "per": "integer"}


class Keyed(Api):
    """The HTTP side with a key."""

    def __init__(self, url: str, key: str = "") -> None:
        super().__init__(url)
        self.http.close()
        limits = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.Client(base_url=url, timeout=60, trust_env=False, limits=limits)
        self.key = key
        secrets.note(key)
        if key:
            self.http.headers["Authorization"] = f"Bearer {key}"

    def make_key(self, *roles: str, **rest: Any) -> Keyed:
        """A caller with a new key, made with this one."""
        made = self.call("POST", "/v1/keys", json={"name": "a key of a test", "roles": list(roles), **rest})
        msgspec.convert(made, NewKeyResult)  # as the OpenAPI document says
        caller = Keyed(self.url, made["secret"])
        caller.number = made["key"]
        return caller

    number = 0

    def status(self, method: str, path: str, **options: Any) -> int:
        """The status alone."""
        return self.http.request(method, path, **options).status_code

    @contextmanager
    def listen(self, path: str = "/v1/stream") -> Iterator[ClientConnection]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with connect(
            "ws" + self.url.removeprefix("http") + path,
            additional_headers=headers,
            proxy=None,
            close_timeout=1,
        ) as socket:
            yield socket

    def stocks(self, *rows: tuple[str, str, int, int]) -> None:
        """The table `stocks` with some rows."""
        self.table(STOCKS, ["symbol"], "stocks")
        if rows:
            self.publish("stocks", [stock(*row) for row in rows])


def stock(symbol: str, sector: str, risk: int, per: int) -> dict[str, Any]:
    row = {"symbol": symbol, "sector": sector, "risk": risk, "per": per}
    return {"op": "upsert", "row": row}


def frames(socket: ClientConnection, *sent: Any) -> list[Any]:
    """Send some frames and a ping; what comes until its pong."""
    for frame in (*sent, {"op": "ping"}):
        socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))
    found = []
    while "pong" not in (frame := json.loads(socket.recv(timeout=20))):
        if "progress" not in frame:
            found.append(frame)
    return found


def refused(call: Any, *arguments: Any, **options: Any) -> Refused:
    """The refusal that a call must meet."""
    try:
        answer = call(*arguments, **options)
    except Refused as error:
        return error
    raise AssertionError(f"it was let through: {answer}")


def start_secured(*options: str) -> tuple[ServerProcess, Keyed]:
    made = ServerProcess("--admin-key", ADMIN_KEY, *options)
    return made, Keyed(made.start(), ADMIN_KEY)
