"""The server's side: tables, rows and the position up to which the source was applied.

The position is a row of an ordinary table, `prosem_attached`, and part of that row's key. Each request takes the row of the
position it continues to its own, in the transaction of the rows themselves. So a request counts once: sent again, late by a
process that was thought dead, or before the one it continues, it finds no such row and is refused as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from api.attach.source import SourceTable
from prosem.runtime.tls import tls_for, verified
from prosem.values.columns import column_type
from prosem.values.errors import ProsemError, SetupError
from prosem.values.wire import decode_exact

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
TIMEOUT = httpx.Timeout(10.0, read=300.0, write=60.0)  # a large transaction takes its time
Event = dict[str, Any]
Key = tuple[Any, ...]
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0)


class DivergedError(SetupError):
    """The server refuses what the source has done: the table was changed there by another client."""


@dataclass(slots=True)
class Transaction:
    """One transaction of the source, or none at all: then only the position moves on to `end`."""

    before: int | None
    """the position that it continues; None after a copy"""
    end: int
    at: datetime | None = None
    events: list[bytes] = field(default_factory=list)
    size: int = 0
    """bytes of its events"""
    definition: str | None = None
    """facts about the tables, where they are others than before"""


class Target:
    """`waiting` is called with the reason while the server cannot be reached; it may raise to end that."""

    def __init__(self, url: str, source: str, api_key: str = "") -> None:
        self.headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.tls = tls_for(url)
        self._http = httpx.Client(
            base_url=url,
            timeout=TIMEOUT,
            trust_env=False,
            headers=self.headers,
            verify=verified(self.tls),
        )
        self.url, self.source = url, source
        self.waiting: Callable[[str], None] = lambda reason: None
        self.position: int | None = None
        self.definition = ""
        self._asked: set[int] = set()  # the ends of transactions that were sent and not answered

    def close(self) -> None:
        self._http.close()

    def prepare(self, tables: Sequence[SourceTable]) -> tuple[list[SourceTable], list[str]]:
        """Make the tables where they are missing: the tables as the server has them, and the names of those made."""
        self._call("POST", "/v1/tables", POSITIONS)
        found, made = [], []
        for table in tables:
            there = self._call("GET", f"/v1/tables/{quote(table.target, safe='')}", may_miss=True)
            if there:
                table = table.adapted(there["columns"])
            else:
                made.append(table.target)
            try:
                self._call("POST", "/v1/tables", table.definition())
            except Refused as error:
                raise self._other_definition(table, error) if error.http_status == 409 else error from None
            found.append(table)
        return found, made

    def _other_definition(self, table: SourceTable, error: Refused) -> SetupError:
        return SetupError(
            f"the server's table {table.target!r} does not fit {table.schema}.{table.name} of the source: {error.detail}."
            f" Leave columns out that are new in the source (--leave-out {table.target}.…), or drop the table on the server"
            " and start again with --again"
        )

    def refresh(self) -> None:
        """Find out how far this source was applied, and as of which facts about its tables."""
        rows = self._select("SELECT * FROM prosem_attached WHERE source = :source", {"source": self.source})[
            "rows"
        ]
        last = max(rows, key=lambda row: row["position"], default=None)
        self.position, self.definition = (
            (None, "") if last is None else (last["position"], last["definition"])
        )

    def keys(self, table: SourceTable) -> set[Key]:
        """The keys of all rows that the server has."""
        name = '"' + table.target.replace('"', '""') + '"'
        rows = self._select(f"SELECT * FROM {name}", {})["rows"]
        return {key_of(table, row) for row in rows}

    def _select(self, query: str, params: dict[str, Any]) -> dict[str, Any]:
        made = self._call("POST", "/v1/subscriptions", {"sql": query, "params": params, "durable": False})
        self._call("DELETE", f"/v1/subscriptions/{made['id']}", may_miss=True)
        found: dict[str, Any] = made["result"]
        return found

    # -- applying ------------------------------------------------------------------------------------------------
    def load(self, events: Sequence[bytes]) -> None:
        """Some rows of the snapshot."""
        if events:
            self._call("POST", "/v1/events", b'{"events":[' + b",".join(events) + b"]}")

    def forget(self) -> None:
        """The tables are about to be copied anew: until that is done there is no position."""
        if self.position is not None:
            key = {"source": self.source, "position": self.position}
            event = {"table": POSITIONS["name"], "op": "delete", "key": key}
            self._call("POST", "/v1/events", {"events": [event]})
        self.position = None

    def request(self, transaction: Transaction) -> bytes:
        """Its body: the position first, so that nothing else of it is looked at if it does not come next."""
        self._asked.add(transaction.end)
        row: dict[str, Any] = {"position": transaction.end, "committed": transaction.at}
        if transaction.definition is not None:
            row["definition"] = transaction.definition
        event: Event = {"table": POSITIONS["name"]}
        if transaction.before is None:
            event |= {"op": "insert", "row": {"source": self.source, **row}}
        else:
            key = {"source": self.source, "position": transaction.before}
            event |= {"op": "update", "key": key, "set": row}
        return b'{"events":[' + b",".join((msgspec.json.encode(event), *transaction.events)) + b"]}"

    def applied(self, transaction: Transaction) -> None:
        """The server has it."""
        self.position = transaction.end
        self._asked.discard(transaction.end)
        if transaction.definition is not None:
            self.definition = transaction.definition

    def was_asked(self, position: int | None) -> bool:
        """Whether this process sent a transaction with that end: a stream may end while the server works on it."""
        return position in self._asked

    def apply(self, transaction: Transaction) -> None:
        """Send it and wait for the answer; what the server refuses is explained."""
        try:
            self._call("POST", "/v1/events", self.request(transaction))
        except Refused as error:
            if error.http_status == 409:
                self.refresh()
                if self.was_asked(self.position) and (self.position or 0) < transaction.end:
                    transaction.before = self.position
                    return self.apply(transaction)
            if error.http_status != 409 or self.position != transaction.end:  # else only the answer was lost
                raise self._explained(error, transaction) from None
        self.applied(transaction)

    def _explained(self, error: Refused, transaction: Transaction) -> ProsemError:
        if error.http_status == 409 and self.position != transaction.before:
            return SetupError("another prosem attach has gone on with this slot; only one may run")
        number = (error.number or 0) - 1  # the first is the position
        about = ""
        if 0 <= number < len(transaction.events):
            event = msgspec.json.decode(transaction.events[number])
            about = f" ({event['op']} in {event['table']}, {_shown(event)})"
        if error.http_status == 409:
            return DivergedError(
                f"the server refuses a change of the source{about}: {error.detail}. Its table was changed by another "
                "publisher; copy the tables anew with --again"
            )
        if error.http_status == 413:
            return SetupError(
                f"a transaction of the source is larger than the server takes ({len(transaction.events):,} events, "
                f"{transaction.size / 2**20:.1f} MiB): {error.detail}. Start the server with a larger limit (for the "
                "size of a body: --max-body-mb), then this command again, which goes on at this transaction; or copy the "
                "tables anew with --again, as they are after it"
            )
        return SetupError(
            f"the server refuses a change of the source{about}: {error.detail}. Leave the column out with --leave-out"
        )

    def _call(self, method: str, path: str, body: Any = None, may_miss: bool = False) -> Any:
        """The JSON of a 2xx answer, asked again as long as the server is away or busy. `may_miss`: {} for 404."""
        content = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        for pause_s in _pauses():
            try:
                response = self._http.request(
                    method, path, content=content, headers={"Content-Type": "application/json"}
                )
                if response.status_code not in (429, 502, 503):
                    break
                reason = f"it answers {response.status_code}"
            except httpx.TransportError as error:
                reason = str(error) or type(error).__name__
            self.waiting(reason)
            time.sleep(pause_s)
        if response.is_success:
            return msgspec.json.decode(response.content) if response.content else {}
        if may_miss and response.status_code == 404:
            return {}
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
