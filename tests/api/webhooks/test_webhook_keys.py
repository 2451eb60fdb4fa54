"""Webhooks on a server with keys: who sees which, rows that a key must not see, revoked keys, and where they may lead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from prosem.store.embedded import EmbeddedPostgres
from prosem.store.schema import migrate
from tests.support.database import empty_database
from tests.support.processes import ServerProcess
from tests.support.receiver import Receiver
from tests.support.secured import Keyed, refused, start_secured, stock

SECRET = "a-secret-of-these-tests"
ROWS = "SELECT * FROM stocks WHERE risk < 100"


@pytest.fixture(scope="module")
def secured(postgres: EmbeddedPostgres) -> Iterator[tuple[ServerProcess, Keyed]]:
    url = empty_database(postgres)
    migrate(url)
    made, admin = start_secured("--webhook-hosts", "127.0.0.1, *.example.org", "--database", url)
    yield made, admin
    made.remove()


@pytest.fixture(scope="module")
def admin(secured: tuple[ServerProcess, Keyed]) -> Keyed:
    return secured[1]


def hook(caller: Keyed, receiver: Receiver, id: str) -> str:
    body = {"url": receiver.url, "id": id, "secret": SECRET}
    made: str = caller.call("POST", "/v1/webhooks", json=body)["id"]
    return made


def listed(caller: Keyed) -> set[str]:
    return {each["id"] for each in caller.call("GET", "/v1/webhooks")["webhooks"]}


def test_tenants_and_keys_cannot_reach_the_webhooks_of_others(admin: Keyed) -> None:
    red, blue = (admin.make_key("publisher", "subscriber", tenant=name) for name in ("red", "blue"))
    other, chief = (admin.make_key(role, tenant="red") for role in ("subscriber", "admin"))
    for tenant in (red, blue):
        tenant.stocks(("A", "tech", 1, 1))
        tenant.subscribe(ROWS, id=f"of-{tenant.number}")
    with Receiver(SECRET) as receiver, Receiver(SECRET) as second:
        mine, theirs = hook(red, receiver, f"of-{red.number}"), hook(blue, second, f"of-{blue.number}")
        assert (listed(red), listed(blue), listed(other), listed(chief)) == ({mine}, {theirs}, set(), {mine})
        for caller in (blue, other):
            for method, path in (
                ("GET", ""),
                ("DELETE", ""),
                ("GET", "/dead-letters"),
                ("POST", "/dead-letters/redeliver"),
            ):
                body = {"json": {}} if method == "POST" else {}
                assert refused(caller.call, method, f"/v1/webhooks/{mine}{path}", **body).status == 404
        error = refused(
            blue.call, "POST", "/v1/webhooks", json={"url": receiver.url, "id": f"of-{red.number}"}
        )
        assert error.status == 404, "a subscription of another tenant"
        publisher = admin.make_key("publisher", tenant="red")
        assert publisher.status("GET", "/v1/webhooks") == 403
        receiver.until(lambda: receiver.frames)
        second.until(lambda: second.frames)
        red.publish("stocks", [stock("B", "tech", 2, 2)])
        last = blue.publish("stocks", [stock("C", "tech", 3, 3)])["last_seq"]
        second.until(lambda: second.seqs(f"of-{blue.number}")[-1:] == [last])
        receiver.until(lambda: len(receiver.frames) == 2)
        assert {"A", "B"} == {
            row["symbol"] for row in receiver.answer(f"of-{red.number}", ["symbol"])["rows"]
        }
        assert {"A", "C"} == {row["symbol"] for row in second.answer(f"of-{blue.number}", ["symbol"])["rows"]}
        assert chief.call("GET", f"/v1/webhooks/{mine}")["key"] == red.number
        chief.call("DELETE", f"/v1/webhooks/{mine}")
        assert listed(red) == set()


def test_rows_that_a_key_must_not_see_are_not_posted(admin: Keyed) -> None:
    desk = admin.make_key("publisher", "subscriber", tenant="desk")
    held = admin.make_key("subscriber", tenant="desk", rows={"stocks": "sector = 'tech'"})
    desk.stocks(("T", "tech", 1, 1), ("B", "bio", 1, 1))
    whole, part = desk.subscribe(ROWS)["id"], held.subscribe(ROWS)["id"]
    with Receiver(SECRET) as receiver:
        assert refused(hook, held, receiver, whole).status == 404
        hook(held, receiver, part)
        receiver.until(lambda: receiver.frames)
        desk.publish("stocks", [stock("B", "bio", 2, 2), stock("T", "tech", 3, 3)])
        receiver.until(lambda: len(receiver.frames) == 2)
        assert b"bio" not in b"".join(request.body for request in receiver.requests)


def test_a_revoked_key_is_sent_nothing_more(admin: Keyed) -> None:
    staying, leaving = (admin.make_key("publisher", "subscriber", tenant="ends") for _ in range(2))
    staying.stocks(("A", "tech", 1, 1))
    id = staying.subscribe(ROWS)["id"]
    with Receiver(SECRET) as kept, Receiver(SECRET) as ended:
        hook(staying, kept, id)
        webhook = hook(leaving, ended, id)
        ended.until(lambda: ended.frames)
        kept.until(lambda: kept.frames)
        admin.call("DELETE", f"/v1/keys/{leaving.number}")
        last = staying.publish("stocks", [stock("B", "tech", 2, 2)])["last_seq"]
        kept.until(lambda: kept.seqs(id)[-1] == last)
        assert len(ended.requests) == 1
        chief = admin.make_key("admin", tenant="ends")
        shown = chief.call("GET", f"/v1/webhooks/{webhook}")
        assert (shown["active"], "revoked" in shown["problem"]) == (False, True)


def test_a_key_has_as_many_webhooks_as_it_may(admin: Keyed) -> None:
    caller = admin.make_key("publisher", "subscriber", tenant="few", limits={"webhooks": 1})
    caller.stocks(("A", "tech", 1, 1))
    id = caller.subscribe(ROWS)["id"]
    with Receiver(SECRET) as receiver:
        first = hook(caller, receiver, id)
        assert refused(hook, caller, receiver, id).status == 429
        caller.call("DELETE", f"/v1/webhooks/{first}")
        hook(caller, receiver, id)


@pytest.mark.parametrize("host", ["10.0.0.1", "[::1]", "[::ffff:10.0.0.1]", "93.184.215.14", "example.org"])
def test_only_what_the_operator_allows_is_reached(admin: Keyed, host: str) -> None:
    caller = admin.make_key("publisher", "subscriber", tenant="near")
    caller.stocks()
    id = caller.subscribe(ROWS)["id"]
    error = refused(caller.call, "POST", "/v1/webhooks", json={"url": f"http://{host}/", "id": id})
    assert (error.status, error.problem["errors"][0]["at"]) == (422, "/url")


def test_no_secret_is_logged(secured: tuple[ServerProcess, Keyed]) -> None:
    assert SECRET not in secured[0].log
