"""What happens in one run: requests and faults with their times, made from a seed, and readable as JSON.

A plan is a list of steps that mean the same when others are left out: that is how a failure is shrunk.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

POISON = 13  # a value of y that a trigger in the database refuses
KEYS, VALUES = 6, 10
TABLES: dict[str, dict[str, Any]] = {
    name: {
        "name": name,
        "columns": [{"name": column, "type": "integer"} for column in ("k", "x", value, "tag")],
        "primary_key": ["k"],
    }
    for name, value in (("t", "y"), ("u", "z"))
}
VIEWS = {
    "v": "SELECT x, COUNT(*) AS n, SUM(y) AS total FROM t GROUP BY x",
    "w": "SELECT t.k AS k, u.k AS other, y, z FROM t JOIN u ON t.x = u.x WHERE z >= 3",
}
NETWORKS = ("unicast", "cbn", "can", "multicast", "bloom", "stages")


@dataclass(frozen=True)
class Query:
    sql: str
    parameters: tuple[str, ...]
    notify: dict[str, Any] | None = None
    per: str = "event"
    key: tuple[str, ...] = ("k",)
    order: tuple[str, ...] = ()
    view: str = ""


_RANGE = ("a", "b")
QUERIES = (
    Query("SELECT MIN(y) FROM t WHERE x BETWEEN :a AND :b", _RANGE),
    Query("SELECT MAX(y) FROM t WHERE x BETWEEN :a AND :b AND k >= :c", (*_RANGE, "c")),
    Query("SELECT SUM(y) FROM t WHERE x BETWEEN :a AND :b", _RANGE),
    Query("SELECT COUNT(*) FROM t WHERE x >= :a AND y < :c", ("a", "c")),
    Query("SELECT DISTINCT y FROM t WHERE x BETWEEN :a AND :b", _RANGE),
    Query("SELECT * FROM t WHERE y < :c OR x = :a", ("a", "c")),
    Query("SELECT * FROM u WHERE z >= :c", ("c",)),
    Query("SELECT y FROM t WHERE k = :k", ("k",)),
    Query("SELECT y FROM t WHERE k = :k", ("k",), {"change": 3}),
    Query("SELECT k, y FROM t WHERE x BETWEEN :a AND :b ORDER BY y DESC LIMIT 2", _RANGE, order=("y", "k")),
    Query("SELECT x, COUNT(*) AS n, MIN(y) AS low FROM t WHERE y >= :c GROUP BY x", ("c",), key=("x",)),
    Query("SELECT MIN(y) AS low, MAX(y) AS high, COUNT(*) AS n FROM t WHERE x BETWEEN :a AND :b", _RANGE),
    Query("SELECT * FROM t JOIN u USING (x) WHERE y BETWEEN :a AND :b AND z < :c", (*_RANGE, "c"), key=()),
    Query("SELECT COUNT(*), SUM(t.y) AS total FROM t JOIN u ON t.x = u.x WHERE u.z >= :c", ("c",)),
    Query("SELECT SUM(y) FROM t WHERE x BETWEEN :a AND :b", _RANGE, per="transaction"),
    Query("SELECT * FROM t WHERE y < :c", ("c",), per="transaction"),
    Query("SELECT * FROM v WHERE total >= :c", ("c",), key=("x",), view="v"),
    Query("SELECT MAX(total) FROM v WHERE x BETWEEN :a AND :b", _RANGE, view="v"),
    Query("SELECT MAX(total) FROM v WHERE x BETWEEN :a AND :b", _RANGE, per="transaction", view="v"),
    Query("SELECT * FROM w WHERE y < :c", ("c",), key=("k", "other"), view="w"),
    Query("SELECT COUNT(*) FROM w WHERE y BETWEEN :a AND :b", _RANGE, view="w"),
)


@dataclass(frozen=True)
class Step:
    """`at`: seconds since the beginning; `kind`: a method of `World`, which is called with `args`."""

    at: float
    kind: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    seed: int
    servers: int
    brokers: int
    network: str
    retention: int
    is_calm: bool
    """no fault that a publisher may notice: a request fails for its own data alone"""
    steps: tuple[Step, ...]

    def without(self, left_out: set[int]) -> Plan:
        return replace(self, steps=tuple(step for at, step in enumerate(self.steps) if at not in left_out))

    def encode(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self), indent=0).decode()


decode_plan = msgspec.json.Decoder(Plan).decode


def make_plan(seed: int) -> Plan:
    chance = random.Random(seed)
    kind = chance.choices(("calm", "one", "two", "brokers"), (2, 3, 3, 4))[0]
    duration = chance.choice((1.0, 5.0, 20.0))
    brokers = chance.choice((1, 1, 2, 3)) if kind == "brokers" else 0
    maker = _Maker(chance, duration, brokers)
    steps = [*maker.subscriptions(), *maker.requests()]
    faults = {"calm": _CALM, "one": _STORE, "two": _STORE, "brokers": (*_STORE[:4], *_NETWORK, *_NETWORK)}[
        kind
    ]
    for _ in range(chance.choice((0, 1, 2, 4, 8, 12))):
        steps += maker.fault(chance.choice(faults))
    steps.sort(key=lambda step: step.at)
    return Plan(
        seed,
        2 if kind == "two" or (kind == "brokers" and chance.random() < 0.3) else 1,
        brokers,
        chance.choice(NETWORKS),
        chance.choice((15, 10_000)),
        kind == "calm",
        tuple(steps),
    )


_CALM = ("stall", "hang_up")
_STORE = (
    "kill", "fail_commit", "kill_in", "terminate", "cut_database", "restart_database", "fill_disk", "stop_process",
    "close", "close_failing", "stall", "hang_up", "jump",
)  # fmt: skip
_NETWORK = (
    "kill_broker", "lose_packets", "cut_nats", "drop_consumers", "drop_stream", "restart_nats", "fail_packet",
    "stall", "hang_up",
)  # fmt: skip


class _Maker:
    def __init__(self, chance: random.Random, duration: float, brokers: int) -> None:
        self._chance, self._duration, self._brokers = chance, duration, brokers
        self._tag = 0
        self._moments = [chance.uniform(0.0, duration) for _ in range(4)]  # at which much happens at once
        self.ids: list[tuple[str, Query]] = []

    def _time(self) -> float:
        """Anywhere, or within the moments at which much happens."""
        if self._chance.random() < 0.3:
            return round(self._chance.uniform(0.0, self._duration), 4)
        return round(self._chance.choice(self._moments) + self._chance.uniform(0.0, 0.06), 4)

    def parameters(self, query: Query) -> dict[str, int]:
        low = self._chance.randrange(VALUES)
        made = {"a": low, "b": min(VALUES, low + self._chance.randrange(VALUES))}
        made |= {"c": self._chance.randrange(VALUES), "k": self._chance.randrange(KEYS)}
        return {name: made[name] for name in query.parameters}

    def subscriptions(self) -> list[Step]:
        made = []
        for number in range(self._chance.choice((1, 2, 4, 7))):
            query = self._chance.randrange(len(QUERIES))
            id = f"s{number}"
            self.ids.append((id, QUERIES[query]))
            args = {"id": id, "query": query, "params": self.parameters(QUERIES[query])}
            at = 0.0 if self._chance.random() < 0.6 else self._time()
            made.append(Step(at, "subscribe", args))
            for listener in range(self._chance.choice((1, 1, 2))):
                made.append(Step(at, "listen", {"id": id, "listener": (number + listener) % 3}))
        return made

    def requests(self) -> list[Step]:
        made = []
        for _ in range(self._chance.choice((5, 20, 40))):
            kind = self._chance.choices(("publish", "patch", "suspend", "read"), (12, 2, 1, 2))[0]
            id, query = self._chance.choice(self.ids)
            if kind == "publish":
                events: list[dict[str, Any]] = [
                    self.event() for _ in range(self._chance.choice((1, 1, 2, 4)))
                ]
                events[0]["op"] = "upsert"
                made.append(Step(self._time(), "publish", {"events": events}))
            elif kind == "patch":
                if query.notify is None:
                    made.append(Step(self._time(), "patch", {"id": id, "params": self.parameters(query)}))
            elif kind == "suspend":
                if query.notify is None:
                    made.append(
                        Step(self._time(), "suspend", {"id": id, "active": self._chance.random() < 0.6})
                    )
            else:
                made.append(Step(self._time(), "read", {"id": id}))
        return made

    def event(self) -> dict[str, Any]:
        """`tag` is of this event alone; an operation that has no row has none."""
        self._tag += 1
        table, value = self._chance.choice((("t", "y"), ("t", "y"), ("u", "z")))
        number = self._chance.randrange(VALUES)
        if table == "t" and self._chance.random() < 0.02:
            number = POISON
        op = self._chance.choices(("upsert", "update", "delete", "insert"), (14, 2, 2, 1))[0]
        row = {"k": self._chance.randrange(KEYS), "x": self._chance.randrange(VALUES), value: number}
        return {"table": table, "op": op, "row": {**row, "tag": self._tag}}

    def fault(self, kind: str) -> list[Step]:
        chance = self._chance
        args: dict[str, Any] = {}
        if kind in ("kill", "kill_in", "terminate", "cut_database", "stop_process", "close", "close_failing"):
            args["server"] = chance.randrange(2)
        if kind == "kill_in":
            args["steps"] = chance.randrange(1, 400)
        if kind in ("fail_commit", "close_failing"):
            args["how"] = chance.choice(("before", "before", "after", "late"))
        if kind in (
            "cut_database",
            "restart_database",
            "fill_disk",
            "stop_process",
            "cut_nats",
            "lose_packets",
        ):
            args["for_s"] = round(chance.choice((0.05, 0.5, 4.0, 12.0)) * chance.uniform(0.5, 1.5), 3)
        if kind == "restart_nats":
            args["for_s"] = round(chance.uniform(0.1, 6.0), 3)
        if kind in ("kill_broker", "fail_packet"):
            args["broker"] = chance.randrange(max(1, self._brokers))
        if kind == "cut_nats":
            args["node"] = chance.randrange(self._brokers + 1)
        if kind in ("stall", "hang_up"):
            args["listener"] = chance.randrange(3)
        if kind == "stall":
            args["for_s"] = round(chance.choice((0.1, 1.0, 8.0)), 3)
        if kind == "jump":
            args["for_s"] = round(chance.choice((1.0, 5.0, 60.0)), 3)
        made = Step(self._time(), kind, args)
        return [made, *self._around(made)]

    def _around(self, fault: Step) -> list[Step]:
        """Requests that are under way when it happens, or come while it lasts."""
        chance, at, made = self._chance, fault.at, []
        if fault.kind in ("close_failing", "kill_in"):
            for _ in range(chance.choice((3, 8))):
                events = [{**self.event(), "op": "upsert"}]
                made.append(Step(_rounded(at + chance.uniform(-0.015, 0.01)), "publish", {"events": events}))
        elif fault.kind in ("cut_database", "stop_process"):
            for _ in range(8 if fault.args["for_s"] > 3 else 2):
                later = _rounded(at + chance.uniform(0.0, 1.5 * fault.args["for_s"]))
                events = [{**self.event(), "op": "upsert"}]
                made.append(Step(later, "publish", {"events": events}))
                made.append(Step(later + 0.1, "read", {"id": chance.choice(self.ids)[0]}))
        return made


def _rounded(at: float) -> float:
    return round(max(0.0, at), 4)
