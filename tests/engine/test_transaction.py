"""POST /v1/events: events of any tables, all or none."""

from __future__ import annotations

import copy
import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.sync.client import connect

from prosem.engine.tables import Tables
from prosem.engine.transaction import transaction
from prosem.engine.validate import table_definition
from prosem.values.errors import ConflictError, InputError, NotFoundError, ProsemError

NAMES = ("a", "b")


def definition(name: str) -> dict[str, Any]:
    columns = [{"name": "k", "type": "integer"}, {"name": "x", "type": "integer"}]
    return {"name": name, "columns": columns, "primary_key": ["k"]}


def made() -> Tables:
    store = Tables()
    for number, name in enumerate(NAMES, 1):
        store.add(table_definition(definition(name), number))
    return store


SMALL = st.integers(0, 3)
EVENT = st.one_of(
    st.builds(lambda t, op, k, x: {"table": t, "op": op, "row": {"k": k, "x": x}},
              st.sampled_from(NAMES), st.sampled_from(["insert", "upsert"]), SMALL, SMALL),
    st.builds(lambda t, k, cells: {"table": t, "op": "update", "key": {"k": k}, "set": cells},
              st.sampled_from(NAMES), SMALL, st.fixed_dictionaries({}, optional={"k": SMALL, "x": SMALL})),
    st.builds(lambda t, k: {"table": t, "op": "delete", "key": {"k": k}}, st.sampled_from(NAMES), SMALL),
    st.builds(lambda t: {"table": t, "op": "truncate"}, st.sampled_from(NAMES)),
)  # fmt: skip


def model(rows: dict[str, dict[int, int]], events: list[Any]) -> dict[str, dict[int, int]] | int:
    """The tables after the events by plain dictionaries, or the number of the first that is refused."""
    rows = copy.deepcopy(rows)
    for number, event in enumerate(events):
        table, op = rows[event["table"]], event["op"]
        if op in ("insert", "upsert"):
            key = event["row"]["k"]
            if op == "insert" and key in table:
                return number
            table[key] = event["row"]["x"]
        elif op == "truncate":
            table.clear()
        else:
            key = event["key"]["k"]
            if key not in table:
                return number
            value = table.pop(key)
            if op == "update":
                target = event["set"].get("k", key)
                if target in table:
                    return number
                table[target] = event["set"].get("x", value)
    return rows


@given(st.lists(st.lists(EVENT, min_size=1, max_size=6), max_size=6))
def test_a_transaction_does_what_its_events_do_one_after_the_other(requests: list[list[Any]]) -> None:
    store = made()
    rows: dict[str, dict[int, int]] = {name: {} for name in NAMES}
    for events in requests:
        expected = model(rows, events)
        if isinstance(expected, int):
            with pytest.raises(ProsemError) as caught:
                transaction(store, store.of("default"), events)
            assert (caught.value.at or "").split("/")[:3] == ["", "events", str(expected)]
            continue
        runs = transaction(store, store.of("default"), events)
        for table, found, _ in runs:
            for _, key, old, new in found:
                assert store.rows[table.id].get(key) == old
                store.put(table, key, new)
        rows = expected
        for name, table in store.of("default").items():
            assert store.rows[table.id] == {(k,): (k, x) for k, x in rows[name].items()}


def test_bad_events_are_refused_with_a_pointer() -> None:
    store = made()
    heir = {"name": "heir", "extends": "a", "columns": [{"name": "y", "type": "integer"}]}
    store.add(table_definition(heir, 3, store.of("default")))
    row = {"k": 1, "x": 1}
    for event, kind, at in (
        (7, InputError, "/events/1"),
        ({"op": "insert", "row": row}, InputError, "/events/1/table"),
        ({"table": "none", "op": "insert", "row": row}, NotFoundError, "/events/1/table"),
        ({"table": "a", "op": "insert", "row": row}, ConflictError, "/events/1"),
        ({"table": "a", "op": "update", "key": {"k": 1}, "set": {"k": "2"}}, InputError, "/events/1/set/k"),
        ({"table": "a", "op": "update", "key": {"k": 1}, "set": {"k": None}}, InputError, "/events/1/set/k"),
        ({"table": "a", "op": "truncate", "row": {}}, InputError, "/events/1"),
        ({"table": "heir", "op": "insert", "row": {**row, "y": 1}}, InputError, "/events/1/table"),
    ):
        with pytest.raises(kind) as caught:
            transaction(store, store.of("default"), [{"table": "a", "op": "insert", "row": row}, event])
        assert caught.value.at == at


def test_all_or_none_over_http(server: str) -> None:
    with httpx.Client(base_url=server, trust_env=False) as http:
        for name in ("transact_a", "transact_b"):
            assert http.post("/v1/tables", json=definition(name)).status_code == 201

        def rows(name: str) -> Any:
            body = {"sql": f"SELECT * FROM {name}", "durable": False}
            return http.post("/v1/subscriptions", json=body).json()["result"]["rows"]

        good = {"table": "transact_a", "op": "insert", "row": {"k": 1, "x": 10}}
        missing = {"table": "transact_b", "op": "delete", "key": {"k": 1}}
        refused = http.post("/v1/events", json={"events": [good, missing]})
        assert refused.status_code == 409
        assert refused.json()["errors"][0]["at"] == "/events/1"
        assert rows("transact_a") == []
        other = {"table": "transact_b", "op": "upsert", "row": {"k": 1, "x": 20}}
        moved = {"table": "transact_a", "op": "update", "key": {"k": 1}, "set": {"k": 2}}
        answers = [
            http.post(
                "/v1/events", json={"events": [good, other, moved]}, headers={"Idempotency-Key": "transact"}
            )
            for _ in range(2)
        ]
        assert answers[0].status_code == 200, answers[0].text
        assert answers[0].json()["count"] == 4
        assert answers[0].json() == answers[1].json()
        assert rows("transact_a") == [{"k": 2, "x": 10}]
        assert rows("transact_b") == [{"k": 1, "x": 20}]
        wiped = http.post("/v1/events", json={"events": [{"table": "transact_a", "op": "truncate"}]}).json()
        assert wiped["count"] == 1
        assert rows("transact_a") == []
        again = http.post("/v1/events", json={"events": [{"table": "transact_a", "op": "truncate"}]}).json()
        assert again["count"] == 0


def test_transactions_of_several_tables_over_a_publisher_stream(server: str) -> None:
    names = ("stream_a", "stream_b")
    for name in names:
        assert httpx.post(server + "/v1/tables", json=definition(name), trust_env=False).status_code in (
            200,
            201,
        )
    with connect("ws" + server.removeprefix("http") + "/v1/publish", proxy=None) as socket:
        both = [{"table": name, "op": "upsert", "row": {"k": 1, "x": 1}} for name in names]
        missing = {"table": names[0], "op": "delete", "key": {"k": 9}}
        for tag, events in enumerate((both, [both[0], missing], [*both, {"op": "insert", "row": {"k": 2}}])):
            socket.send(json.dumps({"events": events, "tag": tag}))
        answers = [json.loads(socket.recv(20)) for _ in range(3)]
    assert [answer["tag"] for answer in answers] == [0, 1, 2]
    assert answers[0]["last_seq"] == answers[0]["first_seq"] + 1
    assert (answers[1]["error"]["status"], answers[1]["error"]["errors"][0]["at"]) == (409, "/events/1")
    assert (answers[2]["error"]["status"], answers[2]["error"]["errors"][0]["at"]) == (422, "/events/2/table")
