"""A database that release 0.1.0 made: migrated by the present code, it gives the same answers and goes on.

`tests/fixtures/release_0_1/make.py` made the dump and recorded the answers.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from tests.support.database import empty_database
from tests.support.live import Json, in_any_order
from tests.support.processes import ServerProcess, open_folder
from tests.support.receiver import Receiver
from tests.support.secured import Keyed, frames

FIXTURES = Path(__file__).parents[1] / "fixtures" / "release_0_1"
EXPECTED: Json = json.loads(gzip.decompress((FIXTURES / "expected.json.gz").read_bytes()))
SUBSCRIPTIONS: dict[str, Json] = EXPECTED["subscriptions"]


def load_release(postgres: EmbeddedPostgres) -> str:
    """The address of a new database with the release's dump."""
    url = empty_database(postgres)
    with psycopg.connect(url) as connection:
        connection.execute(gzip.decompress((FIXTURES / "dump.sql.gz").read_bytes()))
        connection.execute("UPDATE prosem.idempotency SET at = now()")
    return url


class Release:
    """A server of today on the release's database, and callers with the keys of then."""

    def __init__(self, database: str) -> None:
        self.receivers = {hook["id"]: Receiver(EXPECTED["webhook_secret"]) for hook in EXPECTED["webhooks"]}
        with psycopg.connect(database) as connection:
            for id, receiver in self.receivers.items():
                connection.execute("UPDATE prosem.webhook SET url = %s WHERE id = %s", [receiver.url, id])
        options = ("--database", database, "--webhook-hosts", "127.0.0.1")
        self.process = ServerProcess(*options, folder=open_folder("prosem-release-"))
        url = self.process.start()
        self.callers = {name: Keyed(url, key["secret"]) for name, key in EXPECTED["keys"].items()}
        self.admin = self.callers["admin"]

    def close(self) -> None:
        for caller in self.callers.values():
            caller.http.close()
        self.process.remove()
        for receiver in self.receivers.values():
            receiver.__exit__()

    def attach(self, name: str, **rest: Any) -> list[Json]:
        """The first frames of a subscription's stream."""
        with self.callers[SUBSCRIPTIONS[name]["key"]].listen() as socket:
            found: list[Json] = frames(socket, {"op": "attach", "id": id_of(name), **rest})
        return found

    def receiver(self, name: str) -> Receiver:
        return self.receivers[next(hook["id"] for hook in EXPECTED["webhooks"] if hook["name"] == name)]


@pytest.fixture(scope="module")
def release(postgres: EmbeddedPostgres) -> Iterator[Release]:
    database = load_release(postgres)
    assert schema.migrate(database) == "0006"
    made = Release(database)
    yield made
    made.close()


def id_of(name: str) -> str:
    return name.removeprefix("acme-")


def plain(answer: Any) -> Any:
    """What is promised of an answer or a change: the row of a MIN or MAX may be another one."""
    if isinstance(answer, dict) and answer.keys() == {"value", "row"}:
        return answer["value"]
    if isinstance(answer, dict) and answer.keys() == {"items"}:
        return sorted(map(json.dumps, answer["items"]))
    if isinstance(answer, dict) and "rows" in answer:
        return in_any_order(answer)
    if isinstance(answer, dict):
        return {name: plain(value) for name, value in answer.items()}
    if isinstance(answer, list) and all(isinstance(item, dict) for item in answer):
        return sorted(json.dumps(item, sort_keys=True) for item in answer)
    return answer


def test_tables_groups_and_the_order_stand_where_they_stood(release: Release) -> None:
    status = release.admin.call("GET", "/v1/status")
    assert status["seq"] == EXPECTED["seq"]
    assert status["tables"] == EXPECTED["status"]["tables"]
    assert status["subscriptions"]["by_type"] == {
        **EXPECTED["status"]["subscriptions"]["by_type"],
        "range-min": EXPECTED["status"]["subscriptions"]["by_type"]["range-min"] - 1,  # not durable: ended
    }
    for name, tables in EXPECTED["tables"].items():
        assert release.callers[name].call("GET", "/v1/tables") == tables
    templates = {group["template"] for group in release.admin.call("GET", "/v1/groups")["groups"]}
    assert templates == {group["template"] for group in EXPECTED["groups"]["groups"]}


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_every_subscription_has_the_answer_it_had(release: Release, name: str) -> None:
    expected = SUBSCRIPTIONS[name]
    caller = release.callers[expected["key"]]
    shown = caller.call("GET", f"/v1/subscriptions/{id_of(name)}")
    assert {member: shown[member] for member in expected["shown"] if member != "group"} == {
        member: value for member, value in expected["shown"].items() if member != "group"
    }
    # The release gave a suspended value notification its present value; its answer is the one notified last.
    is_suspended_value = shown["type"] == "value" and not shown["active"]
    answer = expected["snapshot" if is_suspended_value else "result"]
    assert plain(caller.result(id_of(name))["result"]) == plain(answer)
    first, *rest = release.attach(name)
    assert not rest
    assert plain(first["snapshot"]) == plain(expected["snapshot"])


@pytest.mark.parametrize("name", [name for name, one in SUBSCRIPTIONS.items() if one["changes"] is not None])
def test_streams_resume_with_the_changes_that_the_release_sent(release: Release, name: str) -> None:
    expected = SUBSCRIPTIONS[name]
    replayed = release.attach(name, after=expected["after"])
    assert [(frame["seq"], plain(frame["change"])) for frame in replayed] == [
        (frame["seq"], plain(frame["change"])) for frame in expected["changes"]
    ]


def test_what_the_release_no_longer_retained_begins_with_a_snapshot(release: Release) -> None:
    (only,) = release.attach("min", after=5)
    assert plain(only["snapshot"]) == plain(SUBSCRIPTIONS["min"]["snapshot"])


def test_keys_weights_and_statistics_are_kept(release: Release) -> None:
    for name, key in EXPECTED["keys"].items():
        answer = release.callers[name].http.get("/v1/whoami")
        assert (answer.json() if answer.is_success else answer.status_code) == key["whoami"]
    assert release.callers["publisher"].status("POST", "/v1/subscriptions", json={"sql": "x"}) == 403
    assert release.callers["acme subscriber"].status("GET", "/v1/subscriptions/max") == 404
    assert release.admin.call("GET", "/v1/optimizer/weights") == EXPECTED["weights"]
    assert release.admin.call("GET", "/v1/optimizer/statistics")["run"] == EXPECTED["statistics"]["run"]


def test_repeated_requests_get_the_answers_they_got(release: Release) -> None:
    seq = release.admin.call("GET", "/v1/status")["seq"]
    for request in EXPECTED["repeated"]:
        answer = release.admin.call(
            "POST", request["path"], content=request["body"], headers=request["headers"]
        )
        assert answer == request["answer"]
    assert release.admin.call("GET", "/v1/status")["seq"] == seq


def test_webhooks_go_on_and_dead_letters_are_kept(release: Release) -> None:
    failing = next(hook for hook in EXPECTED["webhooks"] if hook["name"] == "failing")
    path = f"/v1/webhooks/{failing['id']}/dead-letters"
    assert [one["delivery"] for one in release.admin.call("GET", path)["dead_letters"]] == [
        one["delivery"] for one in failing["dead"]
    ]
    release.admin.call("POST", f"{path}/redeliver", json={})
    receiver = release.receiver("failing")
    receiver.until(lambda: {one["delivery"] for one in failing["dead"]} <= receiver.deliveries.keys())
    silent = release.receiver("silent")
    silent.until(lambda: EXPECTED["silent"][0]["delivery"] in silent.deliveries)
    for id in ("sum-bigint", "distinct"):
        silent.until(lambda id=id: frame_of(silent, id, "change") or frame_of(silent, id, "snapshot"))


def frame_of(receiver: Receiver, id: str, kind: str) -> list[Json]:
    return [frame for frame in receiver.frames if frame["id"] == id and kind in frame]


def test_publishing_goes_on(release: Release) -> None:
    """Events of every table, in new partitions, change answers as PostgreSQL says; webhooks and tenants too."""
    admin, good = release.admin, release.receiver("good")
    before = admin.call("GET", "/v1/status")["seq"]
    row = {"symbol": "S1", "sector": "tech", "risk": 30, "per": 0.25, "price": "0.01", "volume": 2_000}
    published = admin.publish("stocks", [{"op": "upsert", "row": row}])
    assert published["first_seq"] == before + 1
    assert admin.result("min")["result"]["value"] == 0.25
    assert admin.result("value")["result"] == {"value": 0.25}
    good.until(
        lambda: any(frame["seq"] == published["last_seq"] for frame in frame_of(good, "min", "change"))
    )
    assert release.callers["tech desk"].result("desk-min")["result"]["value"] == 0.25
    with admin.listen() as socket:
        frames(socket, *({"op": "attach", "id": id} for id in ("join", "many-join-0")))
        admin.publish("users", [{"op": "upsert", "row": {"user_id": 77, "age": 30, "city": "Bern"}}])
        order = {"id": 501, "user_id": 77, "amount": 30, "note": ""}
        admin.publish("orders", [{"op": "upsert", "row": order}])
        changes = {frame["id"]: frame["change"]["add"] for frame in frames(socket)}
    assert changes["join"] == changes["many-join-0"] != []
    made = admin.subscribe("SELECT COUNT(*) FROM stocks WHERE risk BETWEEN 0 AND 100", id="made-today")
    assert made["result"]["value"] > 0
    acme = release.callers["acme publisher"].publish(
        "stocks", [{"op": "upsert", "row": {**row, "per": 0.125}}]
    )
    assert release.callers["acme subscriber"].result("min")["result"]["value"] == 0.125
    assert acme["last_seq"] > published["last_seq"]
