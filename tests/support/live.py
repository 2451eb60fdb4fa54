"""What tests of a running server share: calls, a socket that remembers its frames, the fold of a stream."""

from __future__ import annotations

import itertools
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from websockets.sync.client import ClientConnection, connect

WAIT_S = 20.0
Json = dict[str, Any]
_numbers = itertools.count(1)


class Refused(AssertionError):
    """The server answered with a problem document."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(f"{answer.status_code} {answer.text[:1000]}")
        self.status, self.headers = answer.status_code, answer.headers
        self.problem = answer.json() if "json" in answer.headers.get("content-type", "") else {}


class Api:
    """The HTTP side; any 4xx or 5xx raises `Refused`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def call(self, method: str, path: str, **options: Any) -> Any:
        answer = self.http.request(method, path, **options)
        if not answer.is_success:
            raise Refused(answer)
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    def table(self, columns: dict[str, str], key: Iterable[str], name: str = "") -> str:
        """A new table, by default with a name nobody has."""
        name = name or f"t{os.getpid()}_{next(_numbers)}"
        described = [{"name": column, "type": kind} for column, kind in columns.items()]
        self.call("POST", "/v1/tables", json={"name": name, "columns": described, "primary_key": list(key)})
        return name

    def publish(self, table: str, events: list[Json], **headers: str) -> Json:
        path = f"/v1/tables/{quote(table, safe='')}/events"
        answer: Json = self.call("POST", path, json={"events": events}, headers=headers)
        return answer

    def subscribe(self, sql: str, params: Json | None = None, **rest: Any) -> Json:
        answer: Json = self.call(
            "POST", "/v1/subscriptions", json={"sql": sql, "params": params or {}, **rest}
        )
        return answer

    def patch(self, id: str, **body: Any) -> Json:
        answer: Json = self.call("PATCH", f"/v1/subscriptions/{quote(id, safe='')}", json=body)
        return answer

    def delete(self, id: str) -> Json:
        answer: Json = self.call("DELETE", f"/v1/subscriptions/{quote(id, safe='')}")
        return answer

    def result(self, id: str) -> Json:
        answer: Json = self.call("GET", f"/v1/subscriptions/{quote(id, safe='')}/result")
        return answer

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.call("GET", "/metrics").splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name
        )

    def socket(self, receive_buffer: int | None = None) -> Socket:
        return Socket(self.url, receive_buffer)


class Socket:
    """A WebSocket on /v1/stream. Only `until` and what uses it reads; `frames` keeps everything."""

    def __init__(self, url: str, receive_buffer: int | None = None) -> None:
        address = urlsplit(url)
        raw = socket.socket()
        if receive_buffer is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        raw.connect((address.hostname, address.port))
        uri = f"ws://{address.netloc}/v1/stream"
        self._opening = connect(
            uri,
            sock=raw,
            compression=None,
            max_queue=None if receive_buffer is None else 1,
            max_size=None,
            proxy=None,
            ping_interval=None,
            close_timeout=0.5,
        )
        self.connection: ClientConnection = self._opening.__enter__()
        self.frames: list[Json] = []

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._opening.__exit__(None, None, None)

    def send(self, frame: Any) -> None:
        self.connection.send(frame if isinstance(frame, str) else json.dumps(frame))

    def attach(self, id: str, after: int | None = None) -> None:
        self.send({"op": "attach", "id": id} | ({} if after is None else {"after": after}))

    def until(self, is_last: Callable[[Json], bool], wait_s: float = WAIT_S) -> Json:
        """Read up to and with the frame of which this is true."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                text = self.connection.recv(timeout=max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise AssertionError(f"no such frame; the last ones were {self.frames[-5:]}") from None
            self.frames.append(json.loads(text))
            if is_last(self.frames[-1]):
                return self.frames[-1]

    def progress(self, seq: int) -> None:
        """Read until everything up to `seq` has come."""
        self.until(lambda frame: frame.get("progress", -1) >= seq)

    def pong(self) -> int:
        """Read everything that was asked for before now."""
        self.send({"op": "ping"})
        seq: int = self.until(lambda frame: "pong" in frame)["pong"]
        return seq

    def of(self, id: str, kind: str = "change") -> list[Json]:
        """The frames of a subscription that hold a change, a snapshot or an error."""
        return [frame for frame in self.frames if frame.get("id") == id and kind in frame]

    def seqs(self, id: str) -> list[int]:
        return [frame["seq"] for frame in self.of(id)]

    def answer(self, id: str, key: Iterable[str] = ()) -> Json | None:
        """The stream folded from its last snapshot; fails if a frame comes out of order or twice."""
        answer, last = None, -1
        for frame in self.frames:
            if frame.get("id") != id or "error" in frame:
                continue
            if "snapshot" in frame:
                assert frame["seq"] >= last, f"a snapshot of the past: {frame}"
                answer = frame["snapshot"]
            else:
                assert frame["seq"] > last, f"twice or out of order: {frame} after {last}"
                assert answer is not None, "a change without a snapshot"
                answer = fold(answer, frame["change"], tuple(key))
            last = frame["seq"]
        return answer


def attached(url: str, ids: Iterable[str]) -> Socket:
    """A socket that has the answers of these subscriptions."""
    made = Socket(url)
    for id in ids:
        made.attach(id)
    made.pong()
    return made


def fold(answer: Json, change: Json, key: tuple[str, ...]) -> Json:
    """The answer after a change; values in the order they came."""
    if "values" in answer:
        values = [value for value in answer["values"] if value not in change["remove"]]
        assert len(values) == len(answer["values"]) - len(change["remove"]), (
            f"{change} removes what is not there"
        )
        assert not [value for value in change["add"] if value in values], f"{change} adds what is there"
        return {"values": values + change["add"]}
    held = "groups" if "groups" in answer else "rows"
    if held not in answer:
        whole = "columns" if "columns" in answer else "value"
        assert change[whole] != answer[whole], f"notified although nothing changed: {change}"
        return change
    if "update" not in change:
        return _fold_joined(answer, change)
    rows = {tuple(row[name] for name in key): row for row in answer[held]}
    for gone in change["remove"]:
        assert gone.keys() == set(key)
        del rows[tuple(gone[name] for name in key)]
    for row in change["update"]:
        at = tuple(row[name] for name in key)
        assert rows[at] != row, f"notified although nothing changed: {row}"
        rows[at] = row
    for row in change["add"]:
        at = tuple(row[name] for name in key)
        assert at not in rows, f"added twice: {row}"
        rows[at] = row
    return {held: list(rows.values())}


def _fold_joined(answer: Json, change: Json) -> Json:
    """Joined rows come and go as a whole."""
    assert change["add"] or change["remove"], "notified although nothing changed"
    rows = {json.dumps(row, sort_keys=True): row for row in answer["rows"]}
    for row in change["remove"]:
        del rows[json.dumps(row, sort_keys=True)]
    for row in change["add"]:
        at = json.dumps(row, sort_keys=True)
        assert at not in rows, f"added twice: {row}"
        rows[at] = row
    return {"rows": list(rows.values())}


def in_any_order(answer: Json | None) -> Any:
    """An answer whose rows may come in any order, to be compared."""
    if answer is None or "rows" not in answer:
        return answer
    return sorted(json.dumps(row, sort_keys=True) for row in answer["rows"])


LOWEST = "SELECT MIN(y) FROM {} WHERE x BETWEEN :lo AND :hi"


def lowest(api: Api, table: str, lo: int = 0, hi: int = 100, **rest: Any) -> str:
    """The id of a new range-min subscription."""
    id: str = api.subscribe(LOWEST.format(table), {"lo": lo, "hi": hi}, **rest)["id"]
    return id


def insert(**row: Any) -> Json:
    return {"op": "insert", "row": row}


def upsert(**row: Any) -> Json:
    return {"op": "upsert", "row": row}


def update(k: Any, **cells: Any) -> Json:
    return {"op": "update", "key": {"k": k}, "set": cells}


def delete(k: Any) -> Json:
    return {"op": "delete", "key": {"k": k}}
