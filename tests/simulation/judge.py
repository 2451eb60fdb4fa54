"""The contract as the judge: what was acknowledged is stored, what was refused is not, and every subscriber was notified of
exactly the changes of its answer.

The oracle is brute force: the stored events one by one into SQLite, and after each of them every query from scratch.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prosem.values.wire import decode
from tests.simulation.listener import Attached
from tests.simulation.plan import TABLES, VIEWS, Query
from tests.simulation.postgres import Data

NAMES = {name: [column["name"] for column in table["columns"]] for name, table in TABLES.items()}


@dataclass
class Request:
    """One publish: its events, and what the publisher was answered (None: the connection was lost)."""

    events: list[dict[str, Any]]
    outcome: str = "unknown"  # or "acknowledged", "refused"
    answer: Any = None

    @property
    def tags(self) -> list[int]:
        return [event["row"]["tag"] for event in self.events if event["op"] != "delete"]


@dataclass
class Read:
    """GET …/result: `known` is the greatest seq that was acknowledged to any publisher before it was asked."""

    id: str
    known: int
    seq: int
    result: Any


@dataclass
class Patched:
    """An acknowledged PATCH."""

    id: str
    seq: int
    result: Any


@dataclass
class Record:
    """All that was seen from outside."""

    requests: list[Request] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    patches: list[Patched] = field(default_factory=list)
    attached: list[Attached] = field(default_factory=list)
    queries: dict[str, Query] = field(default_factory=dict)
    created: dict[str, tuple[int, Any]] = field(default_factory=dict)  # acknowledged: seq and result
    problems: list[str] = field(default_factory=list)
    """what was wrong while it happened"""


class Oracle:
    """The answer of every subscription at every seq."""

    def __init__(self, data: Data, queries: dict[str, Query]) -> None:
        self.problems: list[str] = []
        self.last_seq = data.last_seq
        self.tags: dict[int, int] = {}  # → seq
        self.events: dict[int, tuple[str, str, Any, Any]] = {}
        self.answers: dict[str, dict[int, Any]] = {}
        self._database = sqlite3.connect(":memory:")
        for name, columns in NAMES.items():
            self._database.execute(f"CREATE TABLE {name} ({', '.join(columns)}, PRIMARY KEY (k))")
        for name, sql in VIEWS.items():
            self._database.execute(f"CREATE VIEW {name} AS {sql}")
        self._rows: dict[str, dict[int, list[Any]]] = {name: {} for name in NAMES}
        names = {number: table.name for number, table in data.tables.items()}
        found = {one.id: one for one in data.subscriptions.values()}
        self._sids = {one.sid: id for id, one in found.items()}
        self._params: dict[str, dict[str, Any]] = {}
        self._active: dict[str, bool] = {}
        self.suspended: set[tuple[str, int]] = set()
        moves: dict[int, list[tuple[str, str, Any]]] = {}
        first: dict[str, Any] = {id: one.params for id, one in found.items()}
        unique: dict[tuple[int, int, int], Any] = {}
        for sid, seq, part, kind, params, *_ in data.all_history:
            if sid in self._sids:
                unique.setdefault((seq, part, sid), (kind, params))  # ON CONFLICT DO NOTHING
        for (seq, _, sid), (kind, params) in sorted(unique.items()):
            if kind == "created":
                first[self._sids[sid]] = params
            elif kind in ("suspended", "patched", "resumed"):
                moves.setdefault(seq, []).append((self._sids[sid], kind, params))
        starts: dict[int, list[tuple[str, Any]]] = {}
        for id, one in found.items():
            starts.setdefault(one.created_seq, []).append((id, json.loads(first[id])))
        self._queries = {id: queries[id] for id in found}
        self._request_end = 0
        self._step(0, starts, moves)
        for seq in range(1, data.last_seq + 1):
            event = data.all_events.get(seq)
            if event is not None:
                self._apply(seq, names[event[1]], *event[2:])
            elif seq not in moves:
                self.problems.append(f"seq {seq} is neither an event nor a move")
            self._step(seq, starts, moves)
        stored = {names[number]: [*map(list, rows.values())] for number, rows in data.rows.items()}
        for name, rows in self._rows.items():
            if sorted(stored.get(name, [])) != sorted(rows.values()):
                self.problems.append(f"the rows of {name} are not what the event log says")

    def _apply(self, seq: int, table: str, op: str, old: Any, new: Any, end: int | None) -> None:
        self._request_end = end or seq
        before, after = (None if body is None else decode(body) for body in (old, new))
        row = after or before
        assert row is not None
        rows = self._rows[table]
        if rows.get(row[0]) != before:
            self.problems.append(
                f"seq {seq} changes the row {before} of {table}, which is {rows.get(row[0])} by the log"
            )
        self.events[seq] = table, op, before, after
        if before is not None and (after is None or after[0] != before[0]):
            rows.pop(before[0], None)
            self._database.execute(f"DELETE FROM {table} WHERE k = ?", [before[0]])
        if after is not None:
            rows[after[0]] = after
            marks = ", ".join("?" * len(after))
            self._database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", after)
            if before is None or before[-1] != after[-1]:
                if after[-1] in self.tags:
                    self.problems.append(
                        f"the event {after[-1]} is stored twice: {self.tags[after[-1]]}, {seq}"
                    )
                self.tags[after[-1]] = seq

    def _step(
        self,
        seq: int,
        starts: dict[int, list[tuple[str, Any]]],
        moves: dict[int, list[tuple[str, str, Any]]],
    ) -> None:
        """The event of this seq, if there is one, then what was registered and moved after it."""
        for id, answers in self.answers.items():
            answers[seq] = self._answer(id, seq, answers[seq - 1])
        for id, params in starts.get(seq, ()):
            self._params[id], self._active[id] = params, True
            self.answers[id] = {seq: self._asked(id)}
        self._note_suspended(seq)
        for id, kind, params in moves.get(seq, ()):
            if params is not None:
                self._params[id] = json.loads(params)
            self._active[id] = kind != "suspended"
            if self._active[id]:
                self.answers[id][seq] = self._asked(id)
            self._note_suspended(seq)

    def _note_suspended(self, seq: int) -> None:
        """Those that are not notified at some time of this seq: several moves may share one, and each has another answer."""
        self.suspended |= {(id, seq) for id, active in self._active.items() if not active}

    def _answer(self, id: str, seq: int, before: Any) -> Any:
        query = self._queries[id]
        if not self._active[id] or (query.per == "transaction" and self._request_end > seq):
            return before
        answer = self._asked(id)
        return answer if query.notify is None else _notified(before, answer, query.notify["change"])

    def _asked(self, id: str) -> Any:
        query = self._queries[id]
        # ties of a top-k are in the order of the key, which SQLite must be given
        cursor = self._database.execute(query.sql.replace("y DESC", "y DESC, k"), self._params[id])
        return _shaped(query, [column[0] for column in cursor.description], cursor.fetchall())


def _shaped(query: Query, columns: list[str], rows: list[Any]) -> Any:
    """An answer as it compares."""
    sql = query.sql
    if sql.startswith("SELECT DISTINCT"):
        return sorted(value for (value,) in rows)
    if "GROUP BY" in sql or "JOIN u ON" in sql or "AS low" in sql:
        found = [json.dumps(dict(zip(columns, row, strict=True)), sort_keys=True) for row in rows]
        return sorted(found) if "GROUP BY" in sql else found[0]
    if "JOIN u USING" in sql:
        return sorted(rows)
    if "(" in sql or "WHERE k = :k" in sql:
        return rows[0][0] if rows else None
    found = [json.dumps(dict(zip(columns, row, strict=True)), sort_keys=True) for row in rows]
    return found if query.order else sorted(found)


def plain(query: Query, answer: Any) -> Any:
    """The server's answer in the same shape."""
    if "values" in answer:
        return answer["values"]
    if "columns" in answer:
        named = {name.replace("count(*)", "count"): value for name, value in answer["columns"].items()}
        return json.dumps(
            {"COUNT(*)" if name == "count" else name: v for name, v in named.items()}, sort_keys=True
        )
    if "groups" in answer:
        return sorted(json.dumps(group, sort_keys=True) for group in answer["groups"])
    if "rows" in answer:
        if "JOIN" in query.sql:
            return sorted(
                (
                    *(row["t"][name] for name in ("k", "x", "y", "tag")),
                    *(row["u"][name] for name in ("k", "z", "tag")),
                )
                for row in answer["rows"]
            )
        found = [json.dumps(row, sort_keys=True) for row in answer["rows"]]
        return found if query.order else sorted(found)
    return answer["value"]


def _notified(last: Any, value: Any, radius: int) -> Any:
    """What was last notified after this value: a change of at least the radius, or from or to nothing."""
    if last is None or value is None:
        return value
    return value if abs(value - last) >= radius else last


# -- verdicts ------------------------------------------------------------------------------------------------------
def judge(record: Record, data: Data) -> list[str]:
    """All that contradicts the contract; empty if nothing does."""
    oracle = Oracle(data, record.queries)
    found = [*record.problems, *oracle.problems]
    for request in record.requests:
        found += _judge_request(request, oracle)
    known = set(oracle.answers)
    for id in record.created.keys() - known:
        found.append(f"the subscription {id} was acknowledged and is not stored")
    looks: list[tuple[str, str, int, Any]] = [
        (id, "the answer of a registration", seq, result) for id, (seq, result) in record.created.items()
    ]
    looks += [(one.id, "the answer of a PATCH", one.seq, one.result) for one in record.patches]
    looks += [(one.id, "a result", one.seq, one.result) for one in record.reads]
    for id, what, seq, result in looks:
        if (
            id in known
            and (id, seq) not in oracle.suspended
            and plain(record.queries[id], result) != oracle.answers[id].get(seq)
        ):
            found.append(f"{what} of {id} at {seq} is {result}, not {oracle.answers[id].get(seq)}")
    for read in record.reads:
        if read.seq < read.known:
            found.append(
                f"a result of {read.id} is as of {read.seq}, and {read.known} was acknowledged before"
            )
    for attached in record.attached:
        if attached.id in known:
            found += _judge_stream(attached, record.queries[attached.id], oracle)
    return found


def _judge_request(request: Request, oracle: Oracle) -> Iterator[str]:
    stored = [tag for tag in request.tags if tag in oracle.tags]
    if request.outcome == "acknowledged":
        first, last = request.answer["first_seq"], request.answer["last_seq"]
        if last - first + 1 != len(request.events):
            yield f"{len(request.events)} events were acknowledged as {first} to {last}"
        for seq, event in enumerate(request.events, first):
            table, op, before, after = oracle.events.get(seq, ("", "", None, None))
            row = event["row"]
            if op == "delete" == event["op"] and before is not None and before[0] == row["k"]:
                continue
            if event["op"] == "delete" or after is None or table != event["table"]:
                yield f"the acknowledged event {event} is not at {seq}"
            elif after[-1] != row["tag"] or after[0] != row["k"]:
                yield f"the acknowledged event {event} is not at {seq}, but {after}"
    elif request.outcome == "refused" and stored:
        yield f"a request was answered {request.answer!r} and its events {stored} are stored"
    elif stored and len(stored) != len(request.tags):
        yield f"of the events {request.tags} of one request only {stored} are stored"


def _judge_stream(attached: Attached, query: Query, oracle: Oracle) -> Iterator[str]:
    answers = oracle.answers[attached.id]
    where = f"{attached.id} ({query.sql})"
    seq, is_attached = (0, False) if attached.base is None else (attached.base[0], True)
    for kind, at, answer, body in attached.items:
        if kind == "stray":
            yield f"{where}: a change at {at} before a snapshot"
            return
        if kind == "unfoldable":
            yield f"{where}: the change {body} at {at} cannot be folded: {answer}"
            return
        if at > oracle.last_seq:
            yield f"{where}: {kind} at {at}, and the log ends at {oracle.last_seq}"
            return
        if kind == "snapshot":
            if (
                attached.base is not None
                and attached.retained_after <= attached.base[0]
                and query.per != "transaction"
            ):
                yield f"{where}: a snapshot, although everything after {attached.base[0]} was retained"
        elif kind == "change":
            if at <= seq:
                yield f"{where}: a change at {at} after one at {seq}"
            elif answers.get(at) == answers.get(at - 1):
                yield f"{where}: a change at {at} where the answer stays {answers.get(at)}: {body}"
        elif at < seq:
            continue
        if is_attached and kind != "snapshot":
            upto = at if kind == "change" else at + 1
            missed = [one for one in range(seq + 1, upto) if answers.get(one) != answers.get(one - 1)]
            if missed:
                yield f"{where}: received {kind} {at} after {seq} without the changes at {missed}"
                return
        if plain(query, answer) != answers.get(at):
            yield f"{where}: the folded answer at {at} is {answer}, not {answers.get(at)}"
            return
        seq, is_attached = at, True
