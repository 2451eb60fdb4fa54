"""The server's side: tables, rows and the position up to which the source was applied.

The position is a row of an ordinary table, `prosem_attached`, and part of that row's key. Each request deletes the row of
the position it continues and inserts its own, in the transaction of the rows themselves. So a request counts once: sent
again, or late by a process that was thought dead, it finds no row to delete and is refused as a whole.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import httpx
import msgspec

from api.attach.source import SourceTable
from prosem.columns import column_type
from prosem.errors import ProsemError, SetupError
from prosem.wire import decode_exact

POSITIONS = {
    "name": "prosem_attached",
    "columns": [
        {"name": "source", "type": "text", "nullable": False},
        {"name": "position", "type": "bigint", "nullable": False},
        {"name": "definition", "type": "text"},
        {"name": "committed", "type": "timestamptz"},
    ],
    "primary_key": ["source", "position"],
}
Event = dict[str, Any]
Key = tuple[Any, ...]
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0)


class DivergedError(SetupError):
    """The server refuses what the source has done: the table was changed there by somebody else."""


class Target:
    """`alive` is called while the server cannot be reached, so that the source does not give us up meanwhile."""

    def __init__(self, url: str, source: str, api_key: str = "") -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else None
        tls = ssl.create_default_context() if url.startswith("https:") else True
        self._http = httpx.Client(base_url=url, timeout=60.0, trust_env=False, headers=headers, verify=tls)
        self._url, self._source = url, source
        self.alive: Callable[[], None] = lambda: None
        self.position: int | None = None
        self.definition = ""

    def close(self) -> None:
        self._http.close()

    def prepare(self, tables: Sequence[SourceTable]) -> None:
        """Make the tables where they are missing."""
        for definition in (POSITIONS, *(table.definition() for table in tables)):
            self._call("POST", "/v1/tables", definition)

    def refresh(self) -> None:
        """Find out how far this source was applied."""
        self.position, self.definition = self._stored()

    def _stored(self) -> tuple[int | None, str]:
        """The position up to which this source was applied, and what its tables looked like."""
        rows = self._select("SELECT * FROM prosem_attached WHERE source = :source", {"source": self._source})[
            "rows"
        ]
        last = max(rows, key=lambda row: row["position"], default=None)
        return (None, "") if last is None else (last["position"], last["definition"])

    def keys(self, table: SourceTable) -> set[Key]:
        """The keys of all rows that the server has."""
        name = '"' + table.target.replace('"', '""') + '"'
        rows = self._select(f"SELECT * FROM {name}", {})["rows"]
        return {key_of(table, row) for row in rows}

    def _select(self, query: str, params: dict[str, Any]) -> dict[str, Any]:
        made = self._call("POST", "/v1/subscriptions", {"sql": query, "params": params, "durable": False})
        self._call("DELETE", f"/v1/subscriptions/{made['id']}")
        found: dict[str, Any] = made["result"]
        return found

    # -- applying ------------------------------------------------------------------------------------------------
    def load(self, events: Sequence[Event]) -> None:
        """Some rows of the snapshot."""
        if events:
            self._call("POST", "/v1/events", {"events": events})

    def forget(self) -> None:
        """The tables are about to be copied anew: until that is done there is no position."""
        if self.position is not None:
            self._call("POST", "/v1/events", {"events": [self._leaving()]})
        self.position = None

    def apply(self, events: Sequence[Event], position: int, definition: str, at: datetime | None) -> None:
        """Whole transactions of the source, up to this position."""
        row = {"source": self._source, "position": position, "definition": definition, "committed": at}
        head: list[Event] = [] if self.position is None else [self._leaving()]
        head.append({"table": POSITIONS["name"], "op": "insert", "row": row})
        body = {"events": [*head, *events]}
        try:
            self._call("POST", "/v1/events", body)
        except Refused as error:
            stored, _ = self._stored() if error.http_status == 409 else (None, "")
            if stored != position:  # else it was applied, and only the answer was lost
                raise self._explained(error, body["events"], stored) from None
        self.position, self.definition = position, definition

    def _leaving(self) -> Event:
        key = {"source": self._source, "position": self.position}
        return {"table": POSITIONS["name"], "op": "delete", "key": key}

    def _explained(self, error: Refused, events: Sequence[Event], stored: int | None) -> ProsemError:
        if error.http_status == 409 and stored != self.position:
            return SetupError("another prosem attach has gone on with this slot; only one may run")
        event = events[error.number] if error.number is not None and error.number < len(events) else None
        about = "" if event is None else f" ({event['op']} in {event['table']}, {_shown(event)})"
        if error.http_status == 409:
            return DivergedError(
                f"the server refuses a change of the source{about}: {error.detail}. Its table was changed by somebody "
                "else; copy the tables anew with --again"
            )
        if error.http_status == 413:
            return SetupError(
                f"a transaction of {len(events)} events is larger than the server takes: start it with a larger "
                "--max-body-mb"
            )
        return SetupError(
            f"the server refuses a change of the source{about}: {error.detail}. Leave the column out with --leave-out"
        )

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a 2xx answer, asked again as long as the server is away or busy."""
        content = None if body is None else msgspec.json.encode(body)
        for pause_s in _pauses():
            try:
                response = self._http.request(
                    method, path, content=content, headers={"Content-Type": "application/json"}
                )
                if response.status_code not in (429, 502, 503):
                    break
            except httpx.TransportError:
                if self.position is None and path == "/v1/tables":
                    raise SetupError(
                        f"no server answers at {self._url}; start it with prosem serve"
                    ) from None
            self.alive()
            time.sleep(pause_s)
        if response.is_success or (method == "DELETE" and response.status_code == 404):
            return msgspec.json.decode(response.content) if response.is_success else {}
        raise Refused.of(response)


class Refused(SetupError):
    """An answer of 4xx; `http_status` is the answer's, `number` that of the event it points at."""

    def __init__(self, detail: str, http_status: int, number: int | None) -> None:
        super().__init__(detail)
        self.http_status, self.number = http_status, number

    @classmethod
    def of(cls, response: httpx.Response) -> Refused:
        try:
            problem = response.json()
        except ValueError:
            problem = {"detail": response.text[:300]}
        at = ((problem.get("errors") or [{}])[0].get("at") or "").split("/")
        number = int(at[2]) if len(at) > 2 and at[1] == "events" and at[2].isdigit() else None
        return cls(str(problem.get("detail")), response.status_code, number)


def _pauses() -> Iterator[float]:
    yield from _PAUSES_S
    while True:
        yield _PAUSES_S[-1]


def _shown(event: Event) -> str:
    text = msgspec.json.encode(event.get("key") or event.get("row") or {}).decode()
    return text if len(text) <= 200 else text[:197] + "..."


def key_of(table: SourceTable, row: dict[str, Any]) -> Key:
    """The key of a row, as a value that compares, whether the row comes from here or from there."""
    types = {column.name: column_type(column.type) for column in table.columns}
    key = decode_exact(msgspec.json.encode([row[name] for name in table.key]))
    return tuple(types[name].read(value) for name, value in zip(table.key, key, strict=True))
