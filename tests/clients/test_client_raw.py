"""Raw mode: the rules of GET /v1/types on a local SQLite give the answer that the server folds, for every type."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prosem_client import Client, LocalState, ProsemError, RawSubscription
from prosem_client.exact import decimal_add, exact_average, exact_sum
from prosem_client.folding import answer_of
from prosem_client.query import Shape

from prosem.types.registry import TYPES
from prosem.types.shared.exact import average_value, exact_text, sum_value, units, written
from prosem.values.columns import column_type
from prosem.values.wire import decode, encode
from tests.support.deployed import Deployed
from tests.support.live import Api, Json, Refused, Socket
from tests.support.processes import ServerProcess
from tests.support.waiting import until

COLUMNS = {
    "k": "integer",
    "x": "integer",
    "z": "double precision",
    "e": "text",
    "i": "integer",
    "b": "bigint",
    "n": "numeric(8,2)",
    "w": "numeric(30,4)",
    "d": "double precision",
    "s": "text",
    "day": "date",
    "at": "timestamptz",
    "raw": "bytea",
    "is_on": "boolean",
    "j": "jsonb",
}
LEFT = {"k": "integer", "b": "integer", "a": "integer", "f": "double precision", "note": "text"}
RIGHT = {"k": "bigint", "b": "numeric(6,1)", "c": "integer", "f": "double precision", "body": "jsonb"}
THIRD = {"k": "text", "c": "integer", "v": "numeric(5,2)"}
RANGE = "x BETWEEN :lo AND :hi"
Query = tuple[str, Json, Json | None]


def queries(t: str, left: str, right: str, third: str) -> list[Query]:
    """At least two of every type."""
    window = {"lo": 2, "hi": 7}
    found: list[Query] = [
        (f"SELECT {function}({y}) FROM {t} WHERE {RANGE}", window, None)
        for function, columns in (
            ("MIN", ("n", "at", "s")),
            ("MAX", ("d", "day")),
            ("COUNT", ("*", "i")),
            ("SUM", ("i", "b", "n", "w", "d")),
            ("AVG", ("i", "b", "n", "w", "d")),
            ("DISTINCT", ()),
        )
        for y in columns
    ]
    distinct = [y for y, kind in COLUMNS.items() if kind != "jsonb"]
    found += [(f"SELECT DISTINCT {y} FROM {t} WHERE {RANGE}", window, None) for y in distinct]
    found += [
        (f"SELECT SUM(d) FROM {t} WHERE {RANGE} AND z > :z AND e = 'p'", {**window, "z": 0}, None),
        (f"SELECT MIN(i) FROM {t} WHERE {RANGE} AND z <= :z", {**window, "z": 3}, None),
        (f"SELECT MAX(at) FROM {t} WHERE {RANGE} AND e IN :some", {**window, "some": ["p", "q"]}, None),
        (f"SELECT MIN(s), MAX(w) AS w, SUM(d), COUNT(*) FROM {t} WHERE {RANGE}", window, None),
        (f"SELECT AVG(d), COUNT(j), MIN(raw) FROM {t} WHERE {RANGE} AND e IN ('p', 'q')", window, None),
        (
            f"SELECT n, COUNT(*) AS c, MAX(day) FROM {t} WHERE {RANGE} GROUP BY n HAVING COUNT(*) < 3",
            window,
            None,
        ),
        (f"SELECT SUM(w), at AS moment, e FROM {t} WHERE {RANGE} GROUP BY e, at", window, None),
        (f"SELECT k, n FROM {t} WHERE {RANGE} ORDER BY n DESC LIMIT 3", window, None),
        (f"SELECT s, k, j FROM {t} WHERE {RANGE} AND e = 'p' ORDER BY s LIMIT 2", window, None),
        (f"SELECT k, raw FROM {t} ORDER BY raw DESC NULLS LAST LIMIT 4", {}, None),
        (f"SELECT * FROM {t} WHERE {RANGE} OR e = 'q'", window, None),
        (f"SELECT k, j, e FROM {t} WHERE s LIKE 'a%' OR x > :lo", {"lo": 6}, None),
        (f"SELECT n FROM {t} WHERE k = :k", {"k": 3}, {"change": 2}),
        (f"SELECT d FROM {t} WHERE k = :k", {"k": 4}, {"percent": 30}),
        (f"SELECT s FROM {t} WHERE k = :k", {"k": 5}, None),
        (f"SELECT i FROM {t} WHERE k = :k", {"k": 6}, {"may": 1, "must": 3}),
        (f"SELECT i FROM {t}", {}, {"change": 2}),
        (f"SELECT MIN(n) FROM {t} WHERE {RANGE}", window | {"r": 1}, {"change": ":r"}),
        (f"SELECT AVG(d) FROM {t} WHERE {RANGE}", window, {"percent": 30}),
        (f"SELECT day FROM {t} WHERE k IN (1, 2, 3)", {}, None),
        (f"SELECT * FROM {left} JOIN {right} USING (b) WHERE a BETWEEN :lo AND :hi", window, None),
        (f"SELECT * FROM {left} JOIN {right} USING (b, f)", {}, None),
        (
            f"SELECT * FROM {left} JOIN {right} USING (b) JOIN {third} USING (c) WHERE a >= :lo AND v < :v",
            {"lo": 1, "v": 4},
            None,
        ),
    ]
    return found


class Values:
    """Rows with few different values, so that they meet."""

    def __init__(self, random: random.Random) -> None:
        self.random = random

    def cell(self, kind: str) -> Any:
        few, base = self.random.randrange(6), kind.partition("(")[0]
        made: dict[str, Callable[[], Any]] = {
            "integer": lambda: self.random.randrange(10),
            "bigint": lambda: (few - 3) * 10**17 + few,
            "numeric": lambda: f"{few - 2}.{self.random.choice('05')}",
            "double precision": lambda: self.random.choice([0.1, -0.0, 0.0, 1e16, -1e16, 3.3, 5e-324]),
            "text": lambda: self.random.choice(["", "a", "aé", "ab\n", "ð", 'q"', "z"]),
            "date": lambda: f"2024-02-{20 + few}",
            "timestamptz": lambda: self.random.choice(
                ["2024-02-29T12:00:00Z", "2024-02-29T12:00:00.5Z", "2024-03-01T00:00:00+02:00"]
            ),
            "bytea": lambda: self.random.choice(["", "AA==", "AP8=", "/w=="]),
            "boolean": lambda: few > 2,
            "jsonb": lambda: self.random.choice([1, "é", [1, {"a": None}], {"b": 0.5}]),
        }
        return made[base]()

    def row(self, columns: dict[str, str], key: Any) -> Json:
        cells = {name: self.cell(kind) for name, kind in columns.items()}
        nulls = {name: None for name in columns if name not in ("k", "e") and self.random.random() < 0.15}
        return cells | nulls | {"k": key} | ({"e": self.random.choice("pq")} if "e" in columns else {})


class Both:
    """A subscription on two sockets: folded, and raw with rules on a local database."""

    def __init__(self, id: str, type: str, rules: Json, shape: Shape) -> None:
        self.id, self.type, self._shape = id, type, shape
        self.local, self.answer = LocalState(rules), answer_of({"value": None}, shape)
        self.frames = 0

    def take(self, frame: Json) -> None:
        if "raw" in frame:
            self.frames += 1
            self.local.apply(frame["raw"])
        elif "snapshot" in frame:
            self.answer = answer_of(frame["snapshot"], self._shape)
        else:
            self.answer.apply(frame["change"])

    def check(self, context: object) -> None:
        raw, folded = self.local.result(), self.answer.result()
        if self.type == "range-avg" and raw is not None:  # 1.50 after 1.5 is not told
            raw, folded = ({"value": one["value"] and Decimal(one["value"])} for one in (raw, folded))
        assert plain(raw) == plain(folded), (self.id, context)


def plain(result: Json | None) -> Any:
    """Rows and items in any order; of a MIN or MAX the value, since any row may attain it."""
    assert result is not None
    return {
        name: sorted(map(repr, part)) if name in ("rows", "items", "groups") else part
        for name, part in result.items()
        if name != "row"
    }


@pytest.fixture
def api(server: str) -> Iterator[Api]:
    with Api(server) as api:
        yield api


def run(api: Api, url: str, seed: int, steps: int) -> dict[str, Both]:
    """Random events and moves; after each, both streams of every subscription say the same."""
    chance = random.Random(seed)
    values = Values(chance)
    tables = [api.table(columns, ["k"]) for columns in (COLUMNS, LEFT, RIGHT, THIRD)]
    kinds = dict(zip(tables, (COLUMNS, LEFT, RIGHT, THIRD), strict=True))
    types = {one["name"]: one["rules"] for one in api.call("GET", "/v1/types")["types"]}
    held: dict[str, Both] = {}
    params: dict[str, Json] = {}
    for sql, wanted, notify in queries(*tables):
        made = api.subscribe(sql, wanted, **({} if notify is None else {"notify": notify}))
        held[made["id"]] = Both(made["id"], made["type"], types[made["type"]], Shape.of(made.get("fold", {})))
        params[made["id"]] = wanted
    with Socket(url) as folded, Socket(url) as raw:
        for id in held:
            folded.attach(id)
            raw.send({"op": "attach", "id": id, "raw": True})
        for step in range(steps):
            if chance.random() < 0.12:
                id = chance.choice(sorted(held))
                if "lo" in params[id] and chance.random() < 0.7:
                    seq = api.patch(id, params={"lo": chance.randrange(8)})["seq"]
                else:
                    api.patch(id, active=False)
                    seq = api.patch(id, active=True)["seq"]
            else:
                table = chance.choice(tables)
                name = chance.randrange(8)
                key = str(name) if kinds[table] is THIRD else name
                event: Json = {"op": "upsert", "row": values.row(kinds[table], key)}
                if chance.random() < 0.25:
                    event = {"op": "delete", "key": {"k": key}}
                try:
                    seq = api.publish(table, [event])["last_seq"]
                except Refused:
                    continue  # nothing to delete
            for socket in (folded, raw):
                # through a broker it may come later
                until(lambda socket=socket, seq=seq: socket.pong() >= seq)  # type: ignore[misc]
                for frame in socket.frames:
                    if "id" in frame:
                        held[frame["id"]].take(frame)
                socket.frames.clear()
            for both in held.values():
                both.check((seed, step))
        for both in held.values():
            raw_answer, answer = both.local.result(), api.result(both.id)["result"]
            assert plain(raw_answer) == plain(answer)
            assert both.type != "top-k" or raw_answer == answer, "in order"
    return held


@pytest.mark.parametrize("seed", [1, 2])
def test_the_rules_give_the_answer_the_server_folds(api: Api, server: str, seed: int) -> None:
    held = run(api, server, seed, 60)
    assert {both.type for both in held.values() if both.frames > 1} == {kind.name for kind in TYPES}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 13))
def test_the_rules_long(api: Api, server: str, seed: int) -> None:
    run(api, server, seed, 400)


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["ref-j", "rel-sel", "enum-sj", "random:5"])
def test_the_rules_with_other_plans(plan: str) -> None:
    own = ServerProcess("--plan", plan)
    try:
        with Api(own.start()) as api:
            run(api, own.url, 7, 150)
    finally:
        own.remove()


@pytest.mark.slow
def test_the_rules_through_a_broker() -> None:
    with Deployed(brokers=2) as deployed, Api(deployed.urls[0]) as api:
        run(api, deployed.urls[0], 11, 150)


def test_the_client(server: str, api: Api, tmp_path: Path) -> None:
    file = tmp_path / "state.sqlite"
    table = api.table({"k": "integer", "y": "numeric(6,2)"}, ["k"])
    with Client(server) as client:
        sums = client.subscribe(f"SELECT SUM(y) FROM {table}", raw=str(file))
        rows = client.subscribe(f"SELECT * FROM {table} WHERE k < :hi", {"hi": 5}, raw=True)
        assert isinstance(rows._subscription, RawSubscription)
        client.publish(table, [{"op": "insert", "row": {"k": k, "y": "1.10"}} for k in (1, 7)])
        told = [sums.next(10), sums.next(10)]
        assert [one.result for one in told] == [{"value": "1.10"}, {"value": "2.20"}]
        assert {one.messages[0]["message"] for one in told} <= {"state", "delta"}
        assert sums.database.execute("SELECT count, sum FROM total").fetchall() == [(2, "2.20")]
        assert LocalState(_rules(api, "range-sum"), str(file)).result() is None, "a file begins anew"
        assert rows.next(10).result == {"rows": [{"k": 1, "y": "1.10"}]}
        moved = rows.patch(hi=10)
        assert rows.next(10).result == moved.result
        again = client.attach(rows.id, raw=True) if rows.close() is None else None
        assert again is not None
        client.publish(table, [{"op": "delete", "key": {"k": 1}}])
        assert again.next(10).result == {"rows": [{"k": 7, "y": "1.10"}]}
        with pytest.raises(ValueError, match="leave `after` out"):
            client.attach(rows.id, after=3, raw=True)
        with pytest.raises(ValueError, match="raw=True"):
            client.attach(sums.id).database.execute("SELECT 1") if sums.close() is None else None


def _rules(api: Api, name: str) -> Json:
    return next(one["rules"] for one in api.call("GET", "/v1/types")["types"] if one["name"] == name)


def test_bad_raw_frames(api: Api, server: str) -> None:
    table = api.table({"k": "integer"}, ["k"])
    id = api.subscribe(f"SELECT COUNT(*) FROM {table}")["id"]
    with Socket(server) as socket:
        socket.send({"op": "attach", "id": id, "raw": 1})
        socket.send({"op": "attach", "id": id, "raw": True, "after": 0})
        socket.pong()
        wrong = [frame["error"] for frame in socket.frames if "error" in frame]
        assert [one["errors"][0]["at"] for one in wrong] == ["/raw", "/after"]
        socket.send({"op": "attach", "id": id, "raw": True})
        socket.pong()
        socket.attach(id)  # not raw any more
        api.publish(table, [{"op": "insert", "row": {"k": 1}}])
        socket.until(lambda frame: "change" in frame)
        assert [
            name for frame in socket.frames for name in ("raw", "snapshot", "change") if name in frame
        ] == [
            "raw",
            "snapshot",
            "change",
        ]


def test_every_type_has_rules_that_sqlite_takes() -> None:
    for kind in TYPES:
        described = kind.describe()
        local = LocalState(described["rules"])
        assert "state" in described["rules"]["update"]
        assert local.result() in (None, {"rows": []}, {"values": []}, {"groups": []})
        with pytest.raises(ProsemError, match="no update rule"):
            local.apply([{"message": "unheard of"}])


number = st.integers(-(10**9), 10**9)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=1, max_size=8))
def test_sums_of_doubles_are_exact(values: list[float]) -> None:
    check_sums("double precision", values)


@given(st.sampled_from(["integer", "bigint", "numeric(13,3)"]), st.lists(number, min_size=1, max_size=8))
def test_sums_of_decimals_are_exact(kind: str, values: list[int]) -> None:
    check_sums(kind, values)


def check_sums(name: str, values: list[Any]) -> None:
    kind, total, text = column_type(name), 0, "0"
    for value in values:
        more = units(kind, kind.read(value))
        total, text = total + more, decimal_add(text, exact_text(kind, more))
    assert decode(exact_sum(text, name)) == decode(encode(written(sum_value(kind, total))))
    count = len(values)
    assert decode(exact_average(text, count, name)) == decode(
        encode(written(average_value(kind, total, count)))
    )
