"""Values that Python finds equal and JSON does not: true and 1, 0.0 and -0.0. They are stored and notified."""

from __future__ import annotations

import httpx
import pytest

JSON_TABLE = {
    "name": "written_alike",
    "columns": [{"name": "k", "type": "integer"}, {"name": "j", "type": "jsonb"}],
    "primary_key": ["k"],
}


@pytest.mark.parametrize(("before", "after"), [(True, 1), ([0, {"a": False}], [0, {"a": 0}])])
def test_a_change_that_python_does_not_see(server: str, before: object, after: object) -> None:
    with httpx.Client(base_url=server, trust_env=False) as http:
        http.post("/v1/tables", json=JSON_TABLE).raise_for_status()
        events = "/v1/tables/written_alike/events"
        http.post(
            events, json={"events": [{"op": "upsert", "row": {"k": 1, "j": before}}]}
        ).raise_for_status()
        made = http.post("/v1/subscriptions", json={"sql": "SELECT * FROM written_alike WHERE k = 1"}).json()
        stored = {"op": "update", "key": {"k": 1}, "set": {"j": after}}
        seq = http.post(events, json={"events": [stored]}).json()["last_seq"]
        with http.stream(
            "GET", f"/v1/subscriptions/{made['id']}/stream", headers={"Last-Event-ID": str(seq - 1)}
        ) as stream:
            lines = (line for line in stream.iter_lines() if line.startswith("data:"))
            change = httpx.Response(200, text=next(lines).removeprefix("data:")).json()
        assert repr(change["update"]) == repr([{"k": 1, "j": after}])
        http.delete(f"/v1/subscriptions/{made['id']}").raise_for_status()
