"""POST /v1/describe and /v1/geometry: what they say is what happens, and asking changes nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.live import Api, Json, Refused


def described(api: Api, sql: str, params: Json | None = None, **rest: Any) -> Json:
    body = {"sql": sql, "params": params or {}, **rest}
    answer: Json = api.call("POST", "/v1/describe", json=body)
    return answer


def test_a_description_is_what_the_subscription_becomes(api: Api) -> None:
    table = api.table({"k": "integer", "x": "double precision", "y": "numeric(8,2)", "s": "text"}, ["k"])
    cases: list[tuple[str, Json, Json]] = [
        (f"SELECT MIN(y) FROM {table} WHERE x BETWEEN :lo AND :hi", {"lo": 1.5, "hi": 7}, {}),
        (f"SELECT MAX(x) FROM {table} WHERE y >= 2 AND s = :s", {"s": "a"}, {}),
        (f"SELECT COUNT(*) FROM {table}", {}, {}),
        (f"SELECT * FROM {table} WHERE x < 5 OR s IN ('a', 'b')", {}, {}),
        (f"SELECT y FROM {table} WHERE k = :k", {"k": 3}, {"notify": {"percent": 5}}),
        (f"SELECT DISTINCT s FROM {table} WHERE x > 0", {}, {}),
    ]
    for sql, params, rest in cases:
        before = described(api, sql, params, **rest)
        made = api.subscribe(sql, params, **rest)
        assert (before["type"], before["group"], before["subscriptions"]) == (made["type"], made["group"], 0)
        assert described(api, sql, params, **rest)["subscriptions"] == 1
        assert before["plans"]
        assert before["messages"]
        assert before["missing"] == []


def test_the_place_is_shown_in_the_columns_values(api: Api) -> None:
    table = api.table({"k": "integer", "x": "double precision", "d": "date", "s": "text"}, ["k"])
    sql = f"SELECT MIN(k) FROM {table} WHERE x BETWEEN :lo AND :hi AND s = 'é'"
    found = described(api, sql, {"lo": -0.5, "hi": 2})
    assert found["place"] == {"equal": {"s": "é"}, "point": {"x": [-0.5, 2.0]}}
    assert found["parameters"] == ["lo", "hi"]
    assert described(api, sql)["missing"] == ["lo", "hi"]
    assert described(api, sql)["place"] is None
    assert described(api, f"SELECT SUM(k) FROM {table} WHERE d > '2024-02-29'")["place"]["point"] == {
        "d": ["2024-03-01", None]
    }
    rows = described(api, f"SELECT * FROM {table} WHERE (k > 3 AND k <= 9) OR s IN ('a', 'b') OR d IS NULL")
    assert rows["place"]["any"] == [{"k": "4 ≤ … ≤ 9"}, {"s": "= 'a' or = 'b'"}, {"d": "NULL"}]
    value = described(api, f"SELECT x FROM {table} WHERE k = 7", notify={"change": 1})
    assert value["place"] == {"equal": {"k": 7}}
    other = api.table({"k": "integer", "z": "numeric(4,1)"}, ["k"])
    joined = described(api, f"SELECT * FROM {table} JOIN {other} USING (k) WHERE z < 5 AND x >= 2 AND z > 1")
    assert joined["place"]["point"] == {f"{table}.x": [2.0, None], f"{other}.z": ["1.1", "4.9"]}
    assert described(api, f"SELECT MIN(k) FROM {table} WHERE x BETWEEN 2 AND 1")["place"] == {"nowhere": True}


def test_bad_questions_say_what_is_wrong(api: Api) -> None:
    table = api.table({"k": "integer", "x": "integer", "y": "integer"}, ["k"])
    group = api.subscribe(f"SELECT COUNT(*) FROM {table}")["group"]
    lowest = api.subscribe(f"SELECT MIN(y) FROM {table} WHERE x < 5")["group"]
    bad: list[tuple[str, Json, int, str]] = [
        ("/v1/describe", {"sql": "SELECT"}, 422, "/sql"),
        ("/v1/describe", {}, 422, "/sql"),
        ("/v1/describe", {"sql": f"SELECT * FROM {table}", "params": {"a": 1}}, 422, "/params/a"),
        ("/v1/geometry", {"event": {}}, 422, "/group"),
        ("/v1/geometry", {"group": group, "event": {}}, 422, "/group"),
        (
            "/v1/geometry",
            {"group": lowest, "event": {"op": "insert", "row": {"k": "x"}}},
            422,
            "/event/row/k",
        ),
        ("/v1/geometry", {"group": lowest, "event": None}, 422, "/event"),
        ("/v1/geometry", {"group": lowest, "event": {"op": "delete", "key": {"k": 1}}}, 409, "/event"),
    ]
    for path, body, status, at in bad:
        with pytest.raises(Refused) as refused:
            api.call("POST", path, json=body)
        assert (refused.value.status, refused.value.problem["errors"][0]["at"]) == (status, at), body
    with pytest.raises(Refused, match="no group"):
        api.call("POST", "/v1/geometry", json={"group": "none", "event": {}})


EXTREMES: dict[str, list[Any]] = {
    "integer": [-(2**31), 2**31 - 1, 2**63, -(2**70), "1e300", 1.5],
    "bigint": [-(2**63), 2**63 - 1, 2**64],
    "double precision": [1.7976931348623157e308, -1.7976931348623157e308, "1e400", "-1e400", 5e-324],
    "numeric(4,2)": ["99.99", "1e30", "-1e30"],
    "numeric(40,2)": ["9" * 38, "-1e60"],
    "text": ["", "\uffff", "\U0010ffff"],
    "date": ["0001-01-01", "9999-12-31"],
    "timestamptz": ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"],
    "boolean": [True, False],
    "bytea": ["", "/w=="],
}


@pytest.mark.parametrize("kind", EXTREMES)
def test_no_constant_is_too_extreme_to_be_described(api: Api, kind: str) -> None:
    table = api.table({"k": "integer", "x": kind}, ["k"])
    group = api.subscribe(f"SELECT MIN(k) FROM {table} WHERE x >= :a", {"a": EXTREMES[kind][0]})["group"]
    for select in ("MIN(k)", "COUNT(*)", "*"):
        for op in ("<", "<=", ">", ">=", "=", "<>"):
            for constant in EXTREMES[kind]:
                body = {"sql": f"SELECT {select} FROM {table} WHERE x {op} :a", "params": {"a": constant}}
                answer = api.http.post("/v1/describe", json=body)
                assert answer.status_code in (200, 422), (body, answer.text)
    for k, constant in enumerate(EXTREMES[kind]):
        event = {"op": "upsert", "row": {"k": k, "x": constant}}
        answer = api.http.post("/v1/geometry", json={"group": group, "event": event})
        assert answer.status_code in (200, 422), (event, answer.text)


@pytest.mark.parametrize("function", ["MIN", "MAX"])
def test_the_picture_of_an_event_is_what_it_does(api: Api, function: str) -> None:
    """The coloured points of the picture are those that are notified when the event is published, with that value."""
    chance = random.Random(function)
    table = api.table({"k": "integer", "x": "integer", "y": "integer", "s": "text"}, ["k"])
    api.publish(table, [{"op": "upsert", "row": row_of(k, chance)} for k in range(40)])
    ranges = [sorted(chance.choices(range(-2, 24), k=2)) for _ in range(40)]
    batch = {
        "sql": f"SELECT {function}(y) FROM {table} WHERE x BETWEEN :lo AND :hi AND s = :s",
        "rows": [{"params": {"lo": lo, "hi": hi, "s": chance.choice("ab")}} for lo, hi in ranges],
    }
    made = api.call("POST", "/v1/subscriptions/batch", json=batch)
    notified = pictured = 0
    with api.socket() as socket:
        for id in made["ids"]:
            socket.attach(id)
        socket.pong()
        for _ in range(60):
            wanted = event_of(chance)
            answer = api.http.post("/v1/geometry", json={"group": made["group"], "event": wanted})
            if answer.status_code == 409:  # of a row that is not there
                continue
            picture = answer.json()
            again = api.call("POST", "/v1/geometry", json={"group": made["group"], "event": wanted})
            assert again == picture, "asking changes nothing"
            expected = {
                id: panel["pieces"][piece]["value"]
                for panel in picture["panels"]
                for _, _, id, piece in panel["points"]
                if piece is not None
            }
            for panel in picture["panels"]:
                counted = [0] * len(panel["pieces"])
                for _, _, _, piece in panel["points"]:
                    if piece is not None:
                        counted[piece] += 1
                assert counted == [piece["affected"] for piece in panel["pieces"]]
            seq = api.publish(table, [wanted])["last_seq"]
            socket.progress(seq)
            happened = {
                frame["id"]: frame["change"]["value"]
                for frame in socket.frames
                if "change" in frame and frame["seq"] == seq
            }
            assert happened == expected, wanted
            notified += len(happened)
            pictured += len(picture["panels"])
    assert notified > 20
    assert pictured > 40


def row_of(k: int, chance: random.Random) -> Json:
    return {
        "k": k,
        "x": chance.randint(0, 20),
        "y": chance.choice([None, *range(12)]),
        "s": chance.choice("ab"),
    }


def event_of(chance: random.Random) -> Json:
    k = chance.randrange(45)
    kind = chance.random()
    if kind < 0.2:
        return {"op": "delete", "key": {"k": k}}
    if kind < 0.6:
        return {"op": "update", "key": {"k": k}, "set": {"y": chance.randint(0, 11)}}
    return {"op": "upsert", "row": row_of(k, chance)}
