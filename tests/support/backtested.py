"""A real server with subscriptions of every type, and what it notified them of: what a backtest must find again."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.support.live import Api, Json, Socket
from tests.support.processes import ServerProcess

T = {
    "k": "integer",
    "x": "integer",
    "y": "integer",
    "s": "text",
    "n": "numeric(8,2)",
    "f": "double precision",
}
U = {"k": "integer", "x": "integer", "z": "integer"}
VIEW = "SELECT x, COUNT(*) AS n, MIN(y) AS low FROM t GROUP BY x"
KEYS, SYMBOLS = 40, ("a", "b", 'quo"te', "é", "5", "null", None)
RANGES: tuple[Json, ...] = tuple({"a": low, "b": low + 12} for low in range(0, 30, 7))
ITEMS: tuple[Json, ...] = tuple({"a": key} for key in (1, 2, 3, 3, 7))
RADII: tuple[Json, ...] = tuple(one | {"r": r} for one in ITEMS for r in (3, 15))
LISTS: tuple[Json, ...] = ({"list": [1, 2, 3]}, {"list": [3, 9]})
NAMED: tuple[Json, ...] = tuple({"s": name} for name in (*filter(None, SYMBOLS), "a", "None"))


class Case(NamedTuple):
    """A statement with its population; `per` as in the API."""

    sql: str
    population: Sequence[Json]
    notify: Json | None = None
    per: str = "event"


CASES: dict[str, Case] = {
    "minimum": Case("SELECT MIN(y) FROM t WHERE x BETWEEN :a AND :b", RANGES),
    "maximum of two ranges": Case("SELECT MAX(y) FROM t WHERE x BETWEEN :a AND :b AND k >= :a", RANGES),
    "minimum by symbol": Case("SELECT MIN(n) FROM t WHERE s = :s AND x < 20", NAMED),
    "minimum of symbols": Case(
        "SELECT MIN(f) FROM t WHERE x < 25 AND s IN :list", [{"list": ["a", "b"]}, {"list": ["b", "é"]}, {"list": []}]
    ),
    "sum": Case("SELECT SUM(n) FROM t WHERE x >= :a", [{"a": a} for a in range(0, 40, 9)]),
    "count": Case("SELECT COUNT(*) FROM t WHERE x >= :a AND y < :b", RANGES),
    "average": Case("SELECT AVG(f) FROM t WHERE s = :s", NAMED),
    "aggregates": Case("SELECT MIN(y), MAX(y), COUNT(*) FROM t WHERE x BETWEEN :a AND :b", RANGES),
    "groups": Case(
        "SELECT s, COUNT(*) AS c, MIN(y) AS low FROM t WHERE x >= :a GROUP BY s HAVING COUNT(*) >= :h",
        [{"a": 5, "h": 2}, {"a": 0, "h": 4}],
    ),
    "distinct": Case("SELECT DISTINCT s FROM t WHERE x BETWEEN :a AND :b", RANGES),
    "first rows": Case("SELECT k, y FROM t WHERE s = :s ORDER BY y DESC LIMIT 3", NAMED),
    "filter": Case("SELECT * FROM t WHERE y < :a OR x = :b", RANGES),
    "filter by symbol": Case("SELECT k, n FROM t WHERE s = :s AND y > 30", NAMED),
    "value": Case("SELECT y FROM t WHERE k = :a", ITEMS),
    "value by change": Case("SELECT n FROM t WHERE k = :a", RADII, {"change": ":r"}),
    "value by percent": Case("SELECT f FROM t WHERE k = :a", ITEMS, {"percent": 40}),
    "value by may and must": Case("SELECT y FROM t WHERE k = :a", ITEMS, {"may": 5, "must": 25}),
    "values of all items": Case("SELECT y FROM t", [{"r": 12}, {"r": 40}], {"change": ":r"}),
    "values of many items": Case("SELECT n FROM t WHERE k IN :list", LISTS, {"factor": 2}),
    "many by may and must": Case("SELECT y FROM t WHERE k IN :list", LISTS, {"may": 4, "must": 30}),
    "notified aggregate": Case("SELECT MAX(y) FROM t WHERE x BETWEEN :a AND :b", RANGES, {"change": 6}),
    "notified sum": Case("SELECT SUM(y) FROM t WHERE s = :s", NAMED, {"percent": 20}),
    "join": Case("SELECT * FROM t JOIN u USING (x) WHERE y BETWEEN :a AND :b AND z < :b", RANGES),
    "aggregate over a join": Case("SELECT COUNT(*) FROM t JOIN u ON t.x = u.x WHERE u.z >= :a", [{"a": 0}, {"a": 20}]),
    "view": Case("SELECT MIN(low) FROM v WHERE x BETWEEN :a AND :b", RANGES),
    "per transaction": Case("SELECT SUM(y) FROM t WHERE x >= :a", [{"a": 0}, {"a": 20}], per="transaction"),
    "filter per transaction": Case("SELECT * FROM t WHERE y < :a", [{"a": 20}, {"a": 60}], per="transaction"),
    "view per transaction": Case("SELECT SUM(low) FROM v WHERE x < :a", [{"a": 9}, {"a": 30}], per="transaction"),
}  # fmt: skip
Notified = dict[str, list[tuple[int, int, Any]]]  # case → number of the subscription, seq, change


class Recorded(NamedTuple):
    """`start`: the seq at which all subscriptions were made; the events after it led to `notified`."""

    start: int
    end: int
    notified: Notified


def row(random: random.Random, k: int) -> Json:
    return {
        "k": k,
        "x": random.randrange(40),
        "y": random.choice([None, *range(0, 100, 3)]),
        "s": random.choice(SYMBOLS),
        "n": f"{random.randrange(-3000, 9000) / 100:.2f}",
        "f": random.choice([-0.0, 0.5, 1e300, -12.25, 40.0, random.random() * 50]),
    }


def requests(random: random.Random, count: int) -> list[list[Json]]:
    """Valid requests of one to six events on both tables; rows come, change and go."""
    made: list[list[Json]] = []
    present: dict[str, set[int]] = {"t": set(), "u": set()}
    for _ in range(count):
        request: list[Json] = []
        for _ in range(random.choice((1, 1, 2, 6))):
            table = random.choice(("t", "t", "t", "u"))
            k = random.randrange(KEYS)
            if k in present[table] and random.random() < 0.25:
                present[table].discard(k)
                request.append({"table": table, "op": "delete", "key": {"k": k}})
                continue
            present[table].add(k)
            cells = (
                row(random, k)
                if table == "t"
                else {"k": k, "x": random.randrange(40), "z": random.randrange(50)}
            )
            request.append({"table": table, "op": "upsert", "row": cells})
        made.append(request)
    return made


def prepare(api: Api) -> None:
    """The tables and the view, with rows."""
    api.table(T, ["k"], "t")
    api.table(U, ["k"], "u")
    api.call("POST", "/v1/views", json={"name": "v", "sql": VIEW})


def publish(api: Api, made: Sequence[list[Json]]) -> int:
    """The last seq."""
    seq = 0
    for request in made:
        seq = api.call("POST", "/v1/events", json={"events": request})["last_seq"]
    return seq


def record(api: Api, server: ServerProcess, made: Sequence[list[Json]], cases: dict[str, Case]) -> Recorded:
    """Subscribe all cases, publish, and keep what their streams are sent."""
    places: dict[str, tuple[str, int]] = {}
    start = 0
    for name, case in cases.items():
        for number, params in enumerate(case.population):
            rest = {} if case.notify is None else {"notify": case.notify}
            answer = api.subscribe(case.sql, params, per=case.per, **rest)
            places[answer["id"]] = name, number
            start = answer["seq"]
    with Socket(server.url) as socket:
        for id in places:
            socket.attach(id)
        socket.pong()
        end = publish(api, made)
        socket.progress(end)
        notified: Notified = {name: [] for name in cases}
        for frame in socket.frames:
            if "change" in frame:
                name, number = places[frame["id"]]
                notified[name].append((number, frame["seq"], frame["change"]))
    return Recorded(start, end, notified)


def ordered(notified: Sequence[tuple[int, int, Any]]) -> list[str]:
    """To be compared: by subscription and seq; rows and values of a change in any order.

    Of several rows with the lowest or highest value any may be shown: the value of the one shown stands for it.
    """
    return sorted(
        json.dumps([number, seq, alike(change)], sort_keys=True) for number, seq, change in notified
    )


def alike(change: Any) -> Any:
    if isinstance(change, dict) and isinstance(change.get("row"), dict):
        assert change["value"] in change["row"].values()
        change = {name: value for name, value in change.items() if name != "row"}
    if isinstance(change, dict):
        return {name: alike(value) for name, value in change.items()}
    if isinstance(change, list):
        return sorted(change, key=lambda one: json.dumps(one, sort_keys=True))
    return change
