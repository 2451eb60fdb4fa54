"""Timelines: a subscriber that resumes after the database was restored is never left with a silent gap."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from prosem_client import Client

from prosem.engine import commands as c
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.timeline import begin, establish
from tests.support.database import empty_database
from tests.support.deployed import Deployed
from tests.support.live import Api, Json, Socket, insert, lowest, update
from tests.support.node import FOLDER, tool
from tests.support.processes import ServerProcess, open_folder
from tests.support.receiver import Receiver
from tests.support.restored import dump, restore
from tests.support.running import ROWS, TABLE, Listener, again, outcome, publish, running, subscribe
from tests.support.waiting import until

COLUMNS = {"k": "integer", "x": "integer", "y": "integer"}
FOLLOW = """
import { Client } from "./src/index.js";
const followed = await new Client(process.argv[1]).attach("low", { snapshot: true });
for await (const update of followed) console.log(JSON.stringify({ ...update, at: followed.timeline }));
"""
SECRET = "a-secret-of-a-webhook-of-a-test"


def new_database(postgres: EmbeddedPostgres) -> str:
    url = empty_database(postgres)
    schema.migrate(url)
    return url


class Restored:
    """A server whose database was restored, and what was known of it before.

    Up to `parted` both timelines have the same events. The first one went on to `last`, the second went further, with other
    events.
    """

    def __init__(self, database: str) -> None:
        self.process = ServerProcess("--database", database, folder=open_folder("prosem-timeline-"))
        self.receiver = Receiver(SECRET)
        with Api(self.process.start()) as api:
            api.table(COLUMNS, ["k"], "t")
            api.publish("t", [insert(k=k, x=k, y=100) for k in range(10)])
            lowest(api, "t", id="low")
            hook = {"url": self.receiver.url, "id": "low", "secret": SECRET}
            api.call("POST", "/v1/webhooks", json=hook)
            self.parted: int = api.publish("t", [update(1, y=90)])["last_seq"]
            self.receiver.until(lambda: self.receiver.seqs("low")[-1:] == [self.parted])
            self.dumped = dump(database)
            self.client = Client(self.process.url)
            self.followed = self.client.attach("low")
            self.script = subprocess.Popen(
                [tool("node"), "--input-type=module", "-e", FOLLOW, self.process.url],
                cwd=FOLDER,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._limit = threading.Timer(300, self.script.kill)
            self._limit.start()
            assert self.printed()["snapshot"]
            self.given = lowest(api, "t")
            self.last: int = api.publish("t", [update(2, y=y) for y in (50, 40, 30)])["last_seq"]
            self.before: str = api.call("GET", "/v1/status").get("timeline", "")
            while self.followed.seq < self.last:
                self.followed.next(20)
            while self.printed()["seq"] < self.last:
                pass
            self.receiver.until(lambda: self.receiver.seqs("low")[-1:] == [self.last])
        self.process.stop()
        restore(database, self.dumped)
        self.process.port = int(self.process.url.rsplit(":", 1)[1])
        self.api = Api(self.process.start())
        self.given_again = lowest(self.api, "t", 3, 4)
        self.api.publish("t", [update(3, y=y) for y in (80, 79, 78, 77, 76, 75)])
        self.now: str = self.api.call("GET", "/v1/status").get("timeline", "")

    def printed(self) -> Json:
        """The next item of the JavaScript client."""
        assert self.script.stdout is not None
        found: Json = json.loads(self.script.stdout.readline())
        return found

    def close(self) -> None:
        self._limit.cancel()
        self.script.kill()
        self.script.communicate()
        self.client.close()
        self.api.http.close()
        self.process.remove()
        self.receiver.__exit__()

    def attach(self, after: int | None = None, timeline: Any = None, id: str = "low") -> list[Json]:
        """What a stream begins with."""
        with self.api.socket() as socket:
            named = {} if timeline is None else {"timeline": timeline}
            socket.send({"op": "attach", "id": id, "after": after, **named})
            socket.pong()
            return [frame for frame in socket.frames if "pong" not in frame and "progress" not in frame]

    def events(self, last: str | None = None, query: str = "") -> list[tuple[str, str, Json]]:
        """What a stream of events begins with: until the present answer has come."""
        headers = {} if last is None else {"Last-Event-ID": last}
        found, event = list[tuple[str, str, Json]](), dict[str, str]()
        path = f"{self.process.url}/v1/subscriptions/low/stream{query}"
        with httpx.stream("GET", path, headers=headers, trust_env=False, timeout=30) as answer:
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if line and name:
                    event[name] = value
                elif event:
                    found.append((event["event"], event["id"], json.loads(event["data"])))
                    event = {}
                    if found[-1][2]["value"] == 75:
                        return found
        raise AssertionError(f"the stream ended: {found}")


@pytest.fixture(scope="module")
def restored(postgres: EmbeddedPostgres) -> Iterator[Restored]:
    made = Restored(new_database(postgres))
    yield made
    made.close()


# -- a client that was connected all the time ----------------------------------------------------------------
def test_a_client_notices_the_restore_by_itself(restored: Restored) -> None:
    """It had seen seqs that are other events now: it is given the present answer, and goes on from there."""
    followed = restored.followed
    item = followed.next(30)
    while not item.snapshot:  # what was under way when the server stopped
        item = followed.next(30)
    while followed.result["value"] != 75:
        item = followed.next(30)
    assert followed.result == restored.api.result("low")["result"]
    assert item.timeline == followed.timeline == restored.now


def test_the_client_in_javascript_notices_it_too(restored: Restored) -> None:
    item = restored.printed()
    assert item["snapshot"], "nothing was under way when the server stopped"
    while item["result"]["value"] != 75:
        item = restored.printed()
    assert item["timeline"] == item["at"] == restored.now


def test_a_saved_seq_and_timeline_resume_or_begin_anew(restored: Restored) -> None:
    with Client(restored.process.url) as client:
        saved = client.attach("low", after=restored.parted, timeline=restored.before)
        assert not saved.next(20).snapshot
        saved.close()
        undone = client.attach("low", after=restored.last, timeline=restored.before)
        first = undone.next(20)
    assert first.snapshot
    assert first.result == restored.api.result("low")["result"]


def test_a_webhook_is_sent_a_snapshot_of_the_new_timeline(restored: Restored) -> None:
    def of_now() -> list[Json]:
        return [frame for frame in restored.receiver.frames if frame.get("timeline") == restored.now]

    restored.receiver.until(lambda: bool(of_now()))
    assert "snapshot" in of_now()[0]

    def value() -> Any:
        last = restored.receiver.frames[-1]
        return (last.get("snapshot") or last["change"])["value"]

    restored.receiver.until(lambda: value() == 75)


# -- attach --------------------------------------------------------------------------------------------------------
def test_every_answer_names_the_timeline(restored: Restored) -> None:
    api, now = restored.api, restored.now
    assert now
    assert now != restored.before
    made = api.subscribe("SELECT MAX(y) FROM t", id="max")
    rows = [{"id": "max-2", "params": {}}]
    many = api.call("POST", "/v1/subscriptions/batch", json={"sql": "SELECT MAX(y) FROM t", "rows": rows})
    assert {made["timeline"], many["timeline"], api.result("max")["timeline"]} == {now}
    assert api.patch("max", active=True)["timeline"] == now
    with api.socket() as socket:
        socket.attach("max")
        seq = api.publish("t", [insert(k=90, x=90, y=1000)])["last_seq"]
        socket.progress(seq)
        socket.pong()
        assert socket.of("max", "snapshot")[0]["timeline"] == now
        marks = [frame for frame in socket.frames if "progress" in frame or "pong" in frame]
        assert {frame["timeline"] for frame in marks} == {now}


def test_before_the_parting_point_a_stream_resumes(restored: Restored) -> None:
    for after in (restored.parted - 1, restored.parted):
        replayed = restored.attach(after, restored.before)
        assert [frame["seq"] for frame in replayed if "change" in frame] == [
            frame["seq"] for frame in replayed
        ]
        assert replayed[0]["seq"] == after + 1
        assert replayed == restored.attach(after, restored.now) == restored.attach(after)


def test_beyond_the_parting_point_a_stream_begins_anew(restored: Restored) -> None:
    for after in (restored.parted + 1, restored.last):
        (only,) = restored.attach(after, restored.before)
        assert only["snapshot"]["value"] == 75
        assert only["timeline"] == restored.now


def test_an_unknown_timeline_begins_anew(restored: Restored) -> None:
    for timeline in ("elsewhere", "", "é\0" * 200):
        for after in (restored.parted, restored.last, 10**15):
            (only,) = restored.attach(after, timeline)
            assert only["snapshot"]["value"] == 75


def test_without_a_timeline_the_present_one_is_meant(restored: Restored) -> None:
    assert restored.attach(restored.last)[0]["seq"] == restored.last + 1
    (only,) = restored.attach(10**15)
    assert "snapshot" in only


def test_what_is_no_timeline_is_refused(restored: Restored) -> None:
    for timeline in (17, True, ["a"], {}):
        (only,) = restored.attach(restored.parted, timeline)
        assert only["error"]["status"] == 422
        assert only["error"]["errors"][0]["at"] == "/timeline"


def test_a_given_id_that_means_another_subscription_is_not_found(restored: Restored) -> None:
    """It was made after the backup; its number has been given again since."""
    assert restored.given_again == restored.given
    (only,) = restored.attach(restored.last, restored.before, restored.given)
    assert only["error"]["status"] == 404
    (only,) = restored.attach(None, restored.now, restored.given)
    assert "snapshot" in only


# -- Server-Sent Events ----------------------------------------------------------------------------------------
def test_event_ids_name_the_timeline_if_asked(restored: Restored) -> None:
    now, before = restored.now, restored.before
    ((kind, id, _),) = restored.events(query="?timeline=")
    seq = id.removesuffix(f"@{now}")
    assert (kind, seq.isdigit()) == ("snapshot", True)
    assert restored.events() == [("snapshot", seq, restored.events()[0][2])]
    for query, suffix in (("", ""), ("?timeline=", f"@{now}"), (f"?timeline={now}", f"@{now}")):
        shared = restored.events(f"{restored.parted}@{before}", query)
        assert [kind for kind, _, _ in shared] == ["change"] * len(shared)
        assert shared[0][1] == f"{restored.parted + 1}{suffix}"
        ((kind, id, _),) = restored.events(f"{restored.last}@{before}", query)
        assert (kind, id) == ("snapshot", f"{seq}{suffix}")
        ((kind, _, _),) = restored.events(f"{restored.parted}@elsewhere", query)
        assert kind == "snapshot"
        plain = restored.events(f"{restored.last}", query)
        assert plain[0][:2] == ("change", f"{restored.last + 1}{suffix}"), "of the present timeline"
    ((kind, _, _),) = restored.events(f"{restored.last}", f"?timeline={before}")
    assert kind == "snapshot", "a plain seq is of the timeline in the address"


def test_a_last_event_id_that_is_none_is_refused(restored: Restored) -> None:
    path = "/v1/subscriptions/low/stream"
    for last in ("@x", "x@y", "-1", "1 @x", "9" * 19):
        answer = restored.api.http.get(path, headers={"Last-Event-ID": last})
        assert answer.status_code == 422, last


# -- how a timeline begins ---------------------------------------------------------------------------------------
def test_a_restart_keeps_the_timeline_and_an_option_begins_one(postgres: EmbeddedPostgres) -> None:
    database = new_database(postgres)
    first = establish(database)
    assert establish(database).current == first.current
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE prosem.engine_state SET last_seq = 17")
    second = establish(database, new=True)
    assert second.current != first.current
    assert second.shares(first.current, 17)
    assert not second.shares(first.current, 18)
    third = establish(database, seen=18)
    assert third.current != second.current
    assert third.shares(first.current, 17)
    with psycopg.connect(database) as connection:
        fourth = begin(connection)
    assert establish(database).current == fourth.id


def test_a_restored_database_is_noticed(postgres: EmbeddedPostgres) -> None:
    database = new_database(postgres)
    first = establish(database)
    restore(database, dump(database))
    second = establish(database)
    assert second.current != first.current
    assert establish(database).current == second.current
    clone = empty_database(postgres)
    restore(clone, dump(database))
    assert establish(clone).current not in (first.current, second.current)


def test_a_copied_data_folder_is_noticed() -> None:
    """`cp --archive` of a stopped server's folder, put back in its place."""
    made = ServerProcess()
    try:
        first = httpx.get(made.start() + "/v1/status", trust_env=False).json()["timeline"]
        made.stop()
        assert httpx.get(made.start() + "/v1/status", trust_env=False).json()["timeline"] == first
        made.stop()
        data = made.folder / "data"
        subprocess.run(["cp", "--archive", str(data), str(made.folder / "copy")], check=True)
        shutil.rmtree(data)
        (made.folder / "copy").rename(data)
        assert httpx.get(made.start() + "/v1/status", trust_env=False).json()["timeline"] != first
    finally:
        made.remove()


async def test_streams_of_a_server_whose_database_is_set_back_begin_anew(postgres: EmbeddedPostgres) -> None:
    """As after a failover to a replica that lacks the last commits."""
    database = new_database(postgres)
    async with running(database) as made:
        await again(made, c.CreateTable(TABLE))
        await again(made, publish(insert(k=1, x=1, y=9)))
        await again(made, subscribe(0, 10, "low"))
        await again(made, c.Subscribe(ROWS, None, [("rows", {"y": 100})]))
        first, dumped = made.state.timelines.current, dump(database)
        listener = await Listener(made, "low").attached()
        last = (await again(made, publish(update(1, y=5), update(1, y=4))))["last_seq"]
        await listener.progress(last)
        await asyncio.to_thread(restore, database, dumped)  # transactions of the loop may have to end before
        made.writer.fail_after = 0
        await outcome(made, publish(update(1, y=8)))
        listener.answers.clear()
        listener.seqs["low"].clear()
        reply = await again(made, publish(update(1, y=7)))
        assert reply["last_seq"] <= last, "the seqs are given again"
        assert made.state.timelines.current != first
        await listener._until(lambda: listener.answers.get("low", {}).get("value") == 7)
        snapshots = [item for item in listener.seen if item.kind == "snapshot"]
        assert snapshots[-1].timeline == made.state.timelines.current
        assert [item.timeline for item in listener.seen if item.kind == "progress"][-1] == snapshots[
            -1
        ].timeline
        await listener.close()


# -- brokers -------------------------------------------------------------------------------------------------------
def test_a_socket_of_a_broker_notices_the_restore(postgres: EmbeddedPostgres) -> None:
    database = new_database(postgres)
    with Deployed(1, options=("--database", database)) as deployed, Api(deployed.server.url) as api:
        api.table(COLUMNS, ["k"], "t")
        lowest(api, "t", id="low")
        parted = api.publish("t", [insert(k=1, x=1, y=9)])["last_seq"]
        before, dumped = api.call("GET", "/v1/status")["timeline"], dump(database)
        with Socket(deployed.brokers[0].url) as socket:
            socket.attach("low")
            socket.progress(api.publish("t", [update(1, y=y) for y in (5, 4, 3)])["last_seq"])
            assert socket.of("low", "snapshot")[0]["timeline"] == before
            deployed.server.stop()
            restore(database, dumped)
            deployed.server.start()
            api.publish("t", [update(1, y=y) for y in (20, 19, 18, 17, 16)])
            now = api.call("GET", "/v1/status")["timeline"]
            found = socket.until(lambda frame: "snapshot" in frame, 60)
            assert found["timeline"] == now
            socket.until(lambda frame: "progress" in frame and frame["timeline"] == now)
        until(lambda: api.http.get("/readyz").status_code == 200)
        with Socket(deployed.brokers[0].url) as socket:
            socket.send({"op": "attach", "id": "low", "after": parted, "timeline": before})
            socket.pong()
            assert [frame["change"]["value"] for frame in socket.of("low")] == [20, 19, 18, 17, 16]
            socket.send({"op": "attach", "id": "low", "after": parted + 1, "timeline": before})
            assert socket.until(lambda frame: "snapshot" in frame)["snapshot"]["value"] == 16
