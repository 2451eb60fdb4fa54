"""Streams of a real server with small queues: slow readers, ends of streams, event streams."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.live import LOWEST, Api, delete, in_any_order, insert, lowest, update, upsert
from tests.support.processes import ServerProcess
from tests.support.waiting import until

QUEUE = 40
COLUMNS = {"k": "integer", "x": "integer", "y": "integer", "note": "text"}
RANGE = {"lo": 0, "hi": 100}
LONG = "n" * 20_000


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    made = ServerProcess("--queue", str(QUEUE))
    with Api(made.start()) as api:
        yield api
    made.remove()


@pytest.fixture
def table(api: Api) -> str:
    return api.table(COLUMNS, ["k"])


# -- slow readers ------------------------------------------------------------------------------------------
def test_a_slow_reader_gets_everything_once_and_delays_nobody(api: Api, table: str) -> None:
    id = api.subscribe(f"SELECT * FROM {table}")["id"]
    late_id = lowest(api, table, hi=1000)
    before = api.metric("prosem_lagging_total")
    with api.socket(receive_buffer=4096) as slow, api.socket() as quick:
        for listener in (slow, quick):
            listener.attach(id)
            listener.pong()
        delays = []
        for number in range(300):
            last = api.publish(table, [upsert(k=number % 7, x=number, y=-number, note=LONG)])["last_seq"]
            start = time.monotonic()
            quick.until(lambda frame, last=last: frame.get("seq") == last)
            delays.append(time.monotonic() - start)
        assert api.metric("prosem_lagging_total") > before, (
            "the queue did not overflow; the test shows nothing"
        )
        assert sorted(delays)[290] < 1.0, "others wait for the slow one"
        slow.attach(late_id)  # asked for while the queue is full
        last = api.publish(table, [delete(3)])["last_seq"]
        slow.progress(last)
        quick.progress(last)
        assert slow.seqs(id) == quick.seqs(id)
        assert len(slow.seqs(id)) == 301
        assert in_any_order(slow.answer(id, "k")) == in_any_order(api.result(id)["result"])
        assert [frame["snapshot"]["value"] for frame in slow.of(late_id, "snapshot")] == [-299]


def test_more_attachments_at_once_than_the_queue_holds(api: Api, table: str) -> None:
    api.publish(table, [insert(k=k, x=k, y=k) for k in range(50)])
    rows = [{"params": {"lo": at % 50, "hi": 99}} for at in range(12 * QUEUE)]
    ids = api.call("POST", "/v1/subscriptions/batch", json={"sql": LOWEST.format(table), "rows": rows})["ids"]
    with api.socket() as listener:
        for id in ids:
            listener.attach(id)
        listener.pong()
        for at, id in enumerate(ids):
            (snapshot,) = listener.of(id, "snapshot")
            assert snapshot["snapshot"]["value"] == at % 50
        last = api.publish(table, [update(0, y=-5), update(49, y=-7)])["last_seq"]
        listener.progress(last)
        for at, id in enumerate(ids):
            assert listener.seqs(id) == ([last - 1, last] if at % 50 == 0 else [last])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bursts_to_many_streams_of_one_lazy_socket(api: Api, table: str, seed: int) -> None:
    """Queues overflow again and again, in the middle of replays too; streams come and go; nothing is lost."""
    chance = random.Random(seed)
    ids = [lowest(api, table, at, at + 30) for at in range(0, 60, 6)]
    ids += [api.subscribe(f"SELECT k, y FROM {table} WHERE y < :y", {"y": y})["id"] for y in (20, 50)]
    with api.socket(receive_buffer=4096) as lazy, api.socket() as eager:
        for id in ids:
            lazy.attach(id)
            eager.attach(id)
        lazy.pong()
        last = 0
        for _ in range(12):
            events = [
                upsert(k=chance.randrange(15), x=chance.randrange(90), y=chance.randrange(90), note="")
                for _ in range(chance.choice([1, 20, 150]))
            ]
            last = api.publish(table, events)["last_seq"]
            if chance.random() < 0.4:
                api.patch(
                    chance.choice(ids[:10]),
                    params={"lo": chance.randrange(40), "hi": 40 + chance.randrange(40)},
                )
            eager.progress(last)
            if chance.random() < 0.3:
                lazy.progress(last)
        last = api.publish(table, [insert(k=99, x=500, y=500)])["last_seq"]
        lazy.progress(last)
        eager.progress(last)
        for id in ids:
            assert lazy.seqs(id) == eager.seqs(id)
            expected = in_any_order(api.result(id)["result"])
            assert in_any_order(lazy.answer(id, "k")) == in_any_order(eager.answer(id, "k"))
            answer = in_any_order(lazy.answer(id, "k"))
            assert answer == expected or answer["value"] == expected["value"]


# -- the end of a stream -----------------------------------------------------------------------------------
def wait_gone(api: Api, id: str) -> None:
    path = f"/v1/subscriptions/{id}/result"
    until(lambda: api.http.get(path).status_code == 404, what=f"{id} is still there")


def test_an_ephemeral_subscription_ends_with_its_last_stream(api: Api, table: str) -> None:
    id = lowest(api, table, durable=False)
    durable = lowest(api, table)
    one, two = api.socket(), api.socket()
    for listener in (one, two):
        listener.attach(id)
        listener.attach(durable)
        listener.pong()
    one.close()
    last = api.publish(table, [insert(k=1, x=1, y=1)])["last_seq"]
    two.progress(last)
    assert two.seqs(id) == [last]
    two.send({"op": "detach", "id": id})
    wait_gone(api, id)
    assert api.result(durable)["result"]["value"] == 1
    two.close()


def test_detach(api: Api, table: str) -> None:
    a, b = lowest(api, table), lowest(api, table)
    with api.socket() as listener:
        listener.attach(a)
        listener.attach(b)
        listener.pong()
        listener.send({"op": "detach", "id": a})
        listener.pong()
        first = api.publish(table, [insert(k=1, x=1, y=1)])["last_seq"]
        listener.progress(first)
        assert (listener.seqs(a), listener.seqs(b)) == ([], [first])
        listener.attach(a, first - 1)
        listener.pong()
        assert listener.seqs(a) == [first]
        listener.send({"op": "detach", "id": "nobody"})
        listener.pong()


def test_deleted_while_attached(api: Api, table: str) -> None:
    id = lowest(api, table, id=f"chosen-{table}")
    with api.socket() as listener:
        listener.attach(id)
        listener.pong()
        api.delete(id)
        listener.until(lambda frame: "error" in frame)
        (frame,) = listener.of(id, "error")
        assert frame["error"]["status"] == 404
        assert (
            lowest(api, table, id=id) == id
        )  # the name is free again, and the old stream is no stream of it
        last = api.publish(table, [insert(k=1, x=1, y=1)])["last_seq"]
        listener.progress(last)
        assert listener.seqs(id) == []


def test_wrong_frames_do_not_end_the_socket(api: Api, table: str) -> None:
    id = lowest(api, table)
    wrong: list[Any] = ["no json", [], {"op": "sing"}, {"op": "attach"}, {"op": "attach", "id": 5}]
    wrong += [{"op": "attach", "id": id, "after": after} for after in ("x", -1, 1.5, 2**63, True)]
    with api.socket() as listener:
        for frame in wrong:
            listener.send(frame)
        listener.attach("nobody")
        listener.attach(id)
        listener.pong()
        errors = [frame["error"] for frame in listener.frames if "error" in frame]
        assert [error["status"] for error in errors] == [400, *[422] * 9, 404]
        assert all(error.keys() >= {"type", "title", "status", "detail"} for error in errors)
        assert len(listener.of(id, "snapshot")) == 1


# -- pongs and progress ------------------------------------------------------------------------------------
def test_a_pong_follows_what_came_before_the_ping(api: Api, table: str) -> None:
    ids = [lowest(api, table, at) for at in range(30)]
    with api.socket() as listener:
        for id in ids:
            listener.attach(id)
            listener.send({"op": "ping"})
        for at in range(len(ids)):
            listener.until(lambda frame: "pong" in frame)
            assert all(listener.of(id, "snapshot") for id in ids[: at + 1])
        for y in range(5):
            last = api.publish(table, [upsert(k=1, x=50, y=-y)])["last_seq"]
            assert listener.pong() >= last, "what was acknowledged before the ping comes before the pong"
            assert all(last in listener.seqs(id) for id in ids)


def test_progress_advances_for_events_that_concern_nobody(api: Api, table: str) -> None:
    id = lowest(api, table)
    other = api.table(COLUMNS, ["k"])
    with api.socket() as listener, api.socket() as idle:
        listener.attach(id)
        last = api.publish(other, [insert(k=k, x=1, y=1) for k in range(5)])["last_seq"]
        listener.progress(last)
        idle.progress(last)
        marks = [frame["progress"] for frame in listener.frames if "progress" in frame]
        assert marks == sorted(set(marks))
        assert listener.seqs(id) == []


# -- event streams -----------------------------------------------------------------------------------------
def read_events(api: Api, id: str, count: int, last: int | None = None) -> list[tuple[str, int, Any]]:
    """So many events of the stream: kind, seq, data."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    found: list[tuple[str, int, Any]] = []
    with api.http.stream("GET", f"/v1/subscriptions/{id}/stream", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            assert line != ": alive", f"nothing comes after {found[-1:]}"
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                found.append((fields["event"], int(fields.get("id", -1)), json.loads(fields["data"])))
                fields = {}
                if len(found) == count:
                    break
    return found


def test_server_sent_events(api: Api, table: str) -> None:
    id = lowest(api, table)
    seqs = [api.publish(table, [upsert(k=1, x=1, y=-y)])["last_seq"] for y in range(2 * QUEUE)]
    kind, seq, data = read_events(api, id, 1)[0]
    assert (kind, seq, data["value"]) == ("snapshot", seqs[-1], 1 - 2 * QUEUE)
    for last in (seqs[0], seqs[QUEUE], seqs[-3]):
        rest = [seq for seq in seqs if seq > last]
        found = read_events(api, id, len(rest), last)
        assert [(kind, seq) for kind, seq, _ in found] == [("change", seq) for seq in rest]
        assert [data["value"] for _, _, data in found] == [-seqs.index(seq) for seq in rest]
    for wrong in ("x", "-1", "1.5", "9" * 30):
        answer = api.http.get(f"/v1/subscriptions/{id}/stream", headers={"Last-Event-ID": wrong})
        assert answer.status_code == 422
    assert api.http.get("/v1/subscriptions/nobody/stream").status_code == 404


def test_an_event_stream_ends_when_its_subscription_does(api: Api, table: str) -> None:
    id = lowest(api, table)
    client = httpx.Client(base_url=api.url, timeout=20, trust_env=False)
    with client, client.stream("GET", f"/v1/subscriptions/{id}/stream") as answer:
        lines = answer.iter_lines()
        assert "event: snapshot" in itertools.islice(lines, 3)
        api.delete(id)
        assert "event: error" in list(lines)
