"""Webhooks of a running server, with a real receiver: order, signatures, retries, dead letters, a server that is killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from api.http.models import operation_responses as o
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.schema import migrate
from tests.support.database import empty_database
from tests.support.live import WAIT_S, Api, Json, Refused, lowest, upsert
from tests.support.processes import ServerProcess
from tests.support.receiver import Receiver, Request
from tests.support.secured import refused
from tests.support.waiting import until

SECRET = "a-secret-of-these-tests"
QUICK = ("--webhook-attempts", "3", "--webhook-wait-ms", "30", "--webhook-timeout-s", "5")
COLUMNS = {"k": "integer", "x": "integer", "y": "integer"}
ROWS = "SELECT * FROM {} WHERE y < :y"


@pytest.fixture(scope="module")
def hooked(postgres: EmbeddedPostgres) -> Iterator[ServerProcess]:
    url = empty_database(postgres)
    migrate(url)
    made = ServerProcess(*QUICK, "--database", url)
    made.start()
    yield made
    made.remove()


@pytest.fixture
def api(hooked: ServerProcess) -> Iterator[Api]:
    with Api(hooked.url) as made:
        yield made


@pytest.fixture
def table(api: Api) -> str:
    return api.table(COLUMNS, ["k"])


def hook(api: Api, receiver: Receiver, *ids: str, secret: str | None = SECRET) -> Json:
    body: Json = {"url": receiver.url + "/hook", "subscriptions": list(ids)}
    made: Json = api.call("POST", "/v1/webhooks", json=body | ({"secret": secret} if secret else {}))
    msgspec.convert(made, o.WebhookDetails)  # as the OpenAPI document says
    receiver.secret = secret or made["secret"]
    return made


def letters(api: Api, id: str) -> list[Json]:
    shown = api.call("GET", f"/v1/webhooks/{id}/dead-letters")
    msgspec.convert(shown, o.DeadLetterList)
    found: list[Json] = shown["dead_letters"]
    return found


# -- what arrives --------------------------------------------------------------------------------------------------
def test_the_snapshot_and_every_change_arrive_in_order_and_signed(api: Api, table: str) -> None:
    api.publish(table, [upsert(k=0, x=50, y=500)])
    least, rows = lowest(api, table), api.subscribe(ROWS.format(table), {"y": 300})["id"]
    with Receiver() as receiver:
        made = hook(api, receiver, least, rows, secret=None)
        for k in range(1, 40):
            api.publish(table, [upsert(k=k, x=k, y=400 - k), upsert(k=k - 1, x=k, y=600)])
        receiver.until(lambda: receiver.answer(least) == api.result(least)["result"])
        receiver.until(lambda: len(receiver.seqs(rows)) == len(set(receiver.seqs(rows))) > 0)
        assert not receiver.faults
        first = receiver.requests[0]
        assert first.path == "/hook"
        assert first.headers["content-type"] == "application/json"
        assert first.headers["x-prosem-webhook"] == first.delivery["webhook"] == made["id"]
        assert first.headers["x-prosem-delivery"] == first.delivery["delivery"]
        assert [frame["id"] for frame in receiver.frames if "snapshot" in frame] == [least, rows] or [
            frame["id"] for frame in receiver.frames if "snapshot" in frame
        ] == [rows, least]
        for request in receiver.requests:
            seqs = [frame["seq"] for frame in request.delivery["frames"]]
            assert seqs == sorted(seqs)
        shown = api.call("GET", f"/v1/webhooks/{made['id']}")
        assert shown.keys() >= {"id", "url", "subscriptions", "pending", "dead_letters", "active"}
        assert "secret" not in shown
        assert {each["id"] for each in shown["subscriptions"]} == {least, rows}
        assert made["id"] in {each["id"] for each in api.call("GET", "/v1/webhooks")["webhooks"]}
        api.call("DELETE", f"/v1/webhooks/{made['id']}")


def test_a_failed_attempt_is_repeated_with_the_same_delivery(api: Api, table: str) -> None:
    """A refusal, an answer that does not come in time, a redirect: each is tried again, and nothing overtakes it."""
    id = lowest(api, table)
    released = threading.Event()

    def behave(number: int, request: Request) -> int:
        if number == 2:
            released.wait(30)  # longer than the time-out
        return {1: 500, 2: 200, 5: 302}.get(number, 204)

    with Receiver(behave=behave) as receiver:
        made = hook(api, receiver, id)
        receiver.until(lambda: len(receiver.deliveries) == 1)
        before = api.metric("prosem_webhook_failed_total")
        api.publish(table, [upsert(k=1, x=1, y=9)])
        receiver.until(lambda: len(receiver.requests) >= 4 and receiver.requests[3].status)
        released.set()
        tried = receiver.requests[1:4]
        assert len({request.body for request in tried}) == 1
        assert len({request.headers["x-prosem-delivery"] for request in tried}) == 1
        assert [request.headers["x-prosem-attempt"] for request in tried] == ["1", "2", "3"]
        api.publish(table, [upsert(k=1, x=1, y=8)])
        receiver.until(lambda: receiver.answer(id) == {"value": 8, "row": {"k": 1, "x": 1, "y": 8}})
        api.publish(table, [upsert(k=1, x=1, y=7)])
        receiver.until(lambda: receiver.answer(id) == {"value": 7, "row": {"k": 1, "x": 1, "y": 7}})
        assert {request.path for request in receiver.requests} == {"/hook"}, "a redirect was followed"
        assert api.metric("prosem_webhook_failed_total") == before + 3
        assert letters(api, made["id"]) == []
        api.call("DELETE", f"/v1/webhooks/{made['id']}")


def test_what_cannot_be_delivered_is_a_dead_letter_and_can_be_delivered_again(api: Api, table: str) -> None:
    id = lowest(api, table)
    is_down = threading.Event()
    with Receiver(behave=lambda number, request: 503 if is_down.is_set() else 200) as receiver:
        made = hook(api, receiver, id)
        receiver.until(lambda: receiver.deliveries)
        is_down.set()
        seqs = [api.publish(table, [upsert(k=1, x=1, y=9)])["last_seq"]]
        until(lambda: len(letters(api, made["id"])) == 1)
        seqs.append(api.publish(table, [upsert(k=1, x=1, y=8)])["last_seq"])
        until(lambda: len(letters(api, made["id"])) == 2)
        first, second = letters(api, made["id"])
        assert (first["first_seq"], second["last_seq"]) == (seqs[0], seqs[1])
        assert (first["attempts"], first["error"]) == (3, "the answer was 503")
        whole = api.call("GET", f"/v1/webhooks/{made['id']}/dead-letters/{first['delivery']}")
        msgspec.convert(whole, o.DeadLetter)
        msgspec.convert(api.call("GET", "/v1/webhooks"), o.WebhookList)
        assert whole["body"]["frames"][0]["change"]["value"] == 9
        shown = api.call("GET", f"/v1/webhooks/{made['id']}")
        msgspec.convert(shown, o.WebhookDetails)
        assert (shown["dead_letters"], shown["problem"]) == (2, "the answer was 503")

        is_down.clear()
        path = f"/v1/webhooks/{made['id']}/dead-letters"
        discarded = api.call("DELETE", f"{path}/{second['delivery']}")
        assert msgspec.convert(discarded, o.DiscardedDelivery).discarded
        assert refused(api.call, "DELETE", f"{path}/{second['delivery']}").status == 404
        assert msgspec.convert(api.call("POST", f"{path}/redeliver", json={}), o.Redelivered).count == 1
        receiver.until(lambda: first["delivery"] in receiver.deliveries)
        until(lambda: letters(api, made["id"]) == [])
        assert receiver.seqs(id)[1:] == seqs[:1]
        seqs.append(api.publish(table, [upsert(k=1, x=1, y=7)])["last_seq"])
        receiver.until(lambda: receiver.seqs(id)[1:] == [seqs[0], seqs[2]])
        assert api.call("POST", f"{path}/redeliver", json={"deliveries": [first["delivery"]]})["count"] == 0
        api.call("DELETE", f"/v1/webhooks/{made['id']}")


def test_a_slow_receiver_delays_nobody(api: Api, table: str) -> None:
    id = lowest(api, table)
    free = threading.Event()

    def behave(number: int, request: Request) -> int:
        if number:
            free.wait(2)
        return 200

    with Receiver(behave=behave) as slow, Receiver() as quick, api.socket() as socket:
        hooks = [hook(api, slow, id), hook(api, quick, id)]
        for receiver in (slow, quick):
            receiver.until(lambda receiver=receiver: receiver.frames)  # type: ignore[misc]
        socket.attach(id)
        socket.pong()
        last = 0
        for y in range(160, 100, -1):
            last = api.publish(table, [upsert(k=1, x=1, y=y)])["last_seq"]
        socket.progress(last)
        quick.until(lambda: quick.seqs(id)[-1] == last)
        assert slow.seqs(id)[-1] < last
        assert api.metric("prosem_webhook_lag") > 0
        free.set()
        slow.until(lambda: slow.seqs(id)[-1] == last)
        assert slow.seqs(id) == quick.seqs(id)
        for made in hooks:
            api.call("DELETE", f"/v1/webhooks/{made['id']}")


# -- ends ----------------------------------------------------------------------------------------------------------
def test_nothing_is_sent_after_a_webhook_is_deleted(api: Api, table: str) -> None:
    id = lowest(api, table)
    with Receiver() as receiver, Receiver() as other:
        made, kept = hook(api, receiver, id), hook(api, other, id)
        receiver.until(lambda: receiver.deliveries)
        assert msgspec.convert(api.call("DELETE", f"/v1/webhooks/{made['id']}"), o.DeletedWebhook).deleted
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/dead-letters")):
            assert refused(api.call, method, f"/v1/webhooks/{made['id']}{path}").status == 404
        last = api.publish(table, [upsert(k=1, x=1, y=1)])["last_seq"]
        other.until(lambda: other.seqs(id)[-1:] == [last])
        assert len(receiver.requests) == 1
        api.call("DELETE", f"/v1/webhooks/{kept['id']}")


def test_a_deleted_subscription_is_notified_and_leaves(api: Api, table: str) -> None:
    gone, stays = lowest(api, table), lowest(api, table)
    with Receiver() as receiver:
        made = hook(api, receiver, gone, stays)
        receiver.until(lambda: len(receiver.frames) == 2)
        api.delete(gone)
        receiver.until(lambda: len(receiver.frames) == 3)
        assert receiver.frames[-1]["id"] == gone
        assert receiver.frames[-1]["error"]["status"] == 404
        shown = api.call("GET", f"/v1/webhooks/{made['id']}")
        assert [each["id"] for each in shown["subscriptions"]] == [stays]
        last = api.publish(table, [upsert(k=1, x=1, y=1)])["last_seq"]
        receiver.until(lambda: receiver.seqs(stays)[-1] == last)
        api.call("DELETE", f"/v1/webhooks/{made['id']}")


# -- a server that ends in the middle ------------------------------------------------------------------------------
def test_a_killed_server_loses_nothing(own_server: ServerProcess) -> None:
    """Killed with its database while a delivery is under way; the receiver drops what it has seen."""
    own_server.options = QUICK
    url = own_server.start()
    reached, free = threading.Event(), threading.Event()

    def behave(number: int, request: Request) -> int:
        if number and not free.is_set():
            reached.set()
            free.wait(20)
        return 200

    with Receiver(SECRET, behave) as receiver, Api(url) as api:
        table = api.table(COLUMNS, ["k"])
        id = lowest(api, table)
        made = hook(api, receiver, id)
        receiver.until(lambda: receiver.deliveries)
        for y in range(100, 90, -1):
            api.publish(table, [upsert(k=1, x=1, y=y)])
        assert reached.wait(WAIT_S)
        own_server.kill()
        free.set()
        cut = receiver.requests[1].headers["x-prosem-delivery"]
        receiver.until(lambda: cut in receiver.deliveries)  # it has it, but the server does not know
        with Api(own_server.start()) as again:
            last = again.publish(table, [upsert(k=1, x=1, y=1)])["last_seq"]
            receiver.until(lambda: receiver.seqs(id)[-1] == last)
            sent = [request.headers["x-prosem-delivery"] for request in receiver.requests]
            assert sent.count(cut) >= 2, "it was sent again under the same id"
            assert len(receiver.seqs(id)) == len(set(receiver.seqs(id))) == 12
            until(lambda: not again.call("GET", f"/v1/webhooks/{made['id']}")["pending"])


# -- bad input -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "status", "at", "says"),
    [
        ({"url": None}, 422, "/url", "https://"),
        ({"url": "ftp://example.org"}, 422, "/url", "begins with"),
        ({"url": "http://"}, 422, "/url", "names a host"),
        ({"url": "http://[::1"}, 422, "/url", "no address"),
        ({"url": "https://me:word@example.org/"}, 422, "/url", "signed"),
        ({"url": "https://example.org/#a"}, 422, "/url", "fragment"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, 422, "/url", "--webhook-hosts"),
        ({"url": "http://no-such-host.invalid/"}, 422, "/url", "cannot be found"),
        ({"url": "http://" + "a" * 3_000}, 422, "/url", "2000"),
        ({"subscriptions": []}, 422, "/subscriptions", "at least one"),
        ({"subscriptions": None}, 422, "", "subscriptions"),
        ({"subscriptions": ["{id}", "nobody"]}, 404, "/subscriptions/1", "nobody"),
        ({"subscriptions": ["{id}", "{id}"]}, 422, "/subscriptions", "twice"),
        ({"subscriptions": ["{id}", 7]}, 422, "/subscriptions/1", "id"),
        ({"subscriptions": ["a\0b"]}, 422, "/subscriptions/0", "id"),
        ({"subscriptions": ["{short}"]}, 422, "/subscriptions/0", "durable"),
        ({"subscriptions": None, "id": "nobody"}, 404, "/id", "nobody"),
        ({"id": "{id}"}, 422, "", "subscriptions"),
        ({"secret": "short"}, 422, "/secret", "16"),
        ({"secret": "with spaces, and long enough"}, 422, "/secret", "ASCII"),
        ({"more": 1}, 422, "/more", "unknown"),
    ],
)
def test_a_bad_webhook_is_refused_with_a_reason(
    api: Api, table: str, changes: Json, status: int, at: str, says: str
) -> None:
    ids = {"{id}": lowest(api, table), "{short}": lowest(api, table, durable=False)}
    body: Json = {"url": "http://127.0.0.1:9/", "subscriptions": ["{id}"]} | changes
    if body.get("subscriptions"):
        body["subscriptions"] = [ids.get(id, id) for id in body["subscriptions"]]
    body = {name: value for name, value in body.items() if value is not None}
    before = api.call("GET", "/v1/webhooks")["webhooks"]
    error = refused(api.call, "POST", "/v1/webhooks", json=body)
    assert error.status == status, error
    assert error.problem["errors"][0]["at"] == at
    assert says in error.problem["detail"]
    assert api.call("GET", "/v1/webhooks")["webhooks"] == before


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/webhooks?limit=0", None, 422),
        ("GET", "/v1/webhooks?after=%00", None, 422),
        ("GET", "/v1/webhooks/hook_0", None, 404),
        ("GET", "/v1/webhooks/a%00b", None, 404),
        ("GET", "/v1/webhooks/hook_0/dead-letters", None, 404),
        ("POST", "/v1/webhooks/hook_0/dead-letters/redeliver", {"deliveries": [1]}, 422),
        ("POST", "/v1/webhooks/hook_0/dead-letters/redeliver", {"all": True}, 422),
        ("POST", "/v1/webhooks/hook_0/dead-letters/redeliver", {}, 404),
        ("DELETE", "/v1/webhooks/hook_0/dead-letters/x", None, 404),
    ],
)
def test_bad_requests_have_their_status(api: Api, method: str, path: str, body: Any, status: int) -> None:
    error: Refused = refused(api.call, method, path, **({} if body is None else {"json": body}))
    assert error.status == status


def test_no_secret_is_logged(hooked: ServerProcess) -> None:
    assert SECRET not in hooked.log
    assert "whsec_" not in hooked.log
