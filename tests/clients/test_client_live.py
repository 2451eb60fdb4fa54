"""The Python client against a real server: every call, and answers folded as the server itself gives them."""

from __future__ import annotations

import itertools
import uuid
from decimal import Decimal
from typing import Any

import pytest
from prosem_client import AsyncClient, Client, PartlyPublished, ProsemError, SyncSubscription

from tests.support.waiting import until_async

COLUMNS = {"id": "integer", "sector": "text", "per": "numeric(8,2)", "x": "integer"}
WAIT_S = 10.0


@pytest.fixture
def table(client: Client) -> str:
    """A table of the test's own."""
    name = f"stocks_{uuid.uuid4().hex[:12]}"
    client.create_table(name, COLUMNS, ["id"])
    return name


def insert(id: int, per: str | None, x: int, sector: str = "tech") -> dict[str, Any]:
    return {"op": "insert", "row": {"id": id, "sector": sector, "per": per, "x": x}}


def update(id: int, **values: Any) -> dict[str, Any]:
    return {"op": "update", "key": {"id": id}, "set": values}


def delete(id: int) -> dict[str, Any]:
    return {"op": "delete", "key": {"id": id}}


def in_any_order(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Rows and items come in any order."""
    if result is None:
        return None
    return {
        name: sorted(part, key=str) if name in ("rows", "items") else part for name, part in result.items()
    }


def test_tables(client: Client, table: str) -> None:
    assert client.table(table)["primary_key"] == ["id"]
    assert table in [definition["name"] for definition in client.tables()]
    client.create_table(table, COLUMNS, ["id"])
    with pytest.raises(ProsemError) as caught:
        client.create_table(table, {"id": "bigint"}, ["id"])
    assert caught.value.status == 409
    client.drop_table(table)
    with pytest.raises(ProsemError) as caught:
        client.table(table)
    assert (caught.value.status, caught.value.code) == (404, "not-found")


def test_a_publish_is_one_transaction_and_its_key_applies_once(client: Client, table: str) -> None:
    events = [insert(1, "1.50", 1), insert(2, "2.50", 2)]
    first = client.publish(table, events, idempotency_key=f"key-{table}")
    assert (first.count, first.last_seq) == (2, first.first_seq + 1)
    assert client.publish(table, events, idempotency_key=f"key-{table}") == first
    with pytest.raises(ProsemError) as caught:
        client.publish(table, [insert(3, "1.00", 3), insert(4, "much", 4)])
    assert caught.value.status == 422
    assert caught.value.errors[0]["at"].startswith("/events/1")
    subscription = client.subscribe(f"SELECT * FROM {table} WHERE x >= 0", durable=False)
    assert [row["id"] for row in (subscription.result or {})["rows"]] in ([1, 2], [2, 1])


EVENTS: list[list[dict[str, Any]]] = [
    [insert(1, "10.00", 5), insert(2, "9.50", 6), insert(3, None, 7), insert(4, "3.00", 50)],
    [update(1, per="2.25"), update(4, x=8)],
    [delete(2), {"op": "upsert", "row": {"id": 3, "sector": "oil", "per": "10.00", "x": 7}}],
    [update(3, x=99), update(1, per=Decimal("100.00"))],
    [delete(1), delete(4)],
    [insert(9, "0.10", 1)],
]
QUERIES = [
    "SELECT MIN(per) FROM {t} WHERE x BETWEEN :lo AND :hi",
    "SELECT MAX(per) FROM {t} WHERE x BETWEEN :lo AND :hi",
    "SELECT COUNT(*) FROM {t} WHERE x BETWEEN :lo AND :hi",
    "SELECT SUM(per) FROM {t} WHERE x BETWEEN :lo AND :hi",
    "SELECT DISTINCT per FROM {t} WHERE x BETWEEN :lo AND :hi",
    "SELECT * FROM {t} WHERE x BETWEEN :lo AND :hi",
]


@pytest.mark.parametrize("query", QUERIES)
def test_changes_fold_to_the_answer(client: Client, table: str, query: str) -> None:
    subscription = served(client, query.format(t=table), {"lo": 0, "hi": 20})
    for events in EVENTS:
        client.publish(table, events)
        check_folded(client, subscription)
    subscription.patch(lo=0, hi=200)
    check_folded(client, subscription)
    subscription.delete()
    with pytest.raises(ProsemError) as caught:
        client.result(subscription.id)
    assert caught.value.status == 404


def served(client: Client, sql: str, params: Any = None, **more: Any) -> SyncSubscription:
    """A subscription, if the server serves its type at all."""
    try:
        return client.subscribe(sql, params, **more)
    except ProsemError as error:
        if error.code == "bad-sql" and "not served by this version" in error.detail:
            pytest.skip(error.detail[:80])
        raise


def check_folded(client: Client, subscription: SyncSubscription) -> None:
    """Consume up to the present answer: what is folded must be what the server says."""
    expected = client.result(subscription.id)
    while without_row(subscription.result) != without_row(expected.result):
        change = subscription.next(timeout_s=WAIT_S)
        assert not change.snapshot
        assert change.seq <= expected.seq, "no change led to the answer"


def without_row(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """The row that attains a minimum may be any."""
    whole = in_any_order(result)
    return whole if whole is None else {name: part for name, part in whole.items() if name != "row"}


def test_value_notification(client: Client, table: str) -> None:
    client.publish(table, [insert(1, "10.00", 1)])
    sql = f"SELECT per FROM {table} WHERE id = :id"
    subscription = served(client, sql, {"id": 1}, notify={"change": 2})
    assert subscription.result == {"value": "10.00"}
    client.publish(table, [update(1, per="11.99"), update(1, per="12.00"), delete(1)])
    changes = [subscription.next(timeout_s=WAIT_S).change for _ in range(2)]
    assert changes == [{"value": "12.00", "previous": "10.00"}, {"value": None, "previous": "12.00"}]
    assert subscription.result == {"value": None}


def test_a_join(client: Client, table: str) -> None:
    other = f"sectors_{table}"
    client.create_table(other, {"sector": "text", "tax": "integer"}, ["sector"])
    subscription = served(client, f"SELECT * FROM {table} JOIN {other} USING (sector) WHERE tax > 5")
    client.publish(table, [insert(1, "10.00", 1), insert(2, "20.00", 2)])
    client.publish(other, [{"op": "insert", "row": {"sector": "tech", "tax": 9}}])
    check_folded(client, subscription)
    assert len((subscription.result or {})["rows"]) == 2
    client.publish(table, [update(1, per="11.00"), delete(2)])
    check_folded(client, subscription)


def test_a_subscription_is_resumed_by_its_seq(server: str, client: Client, table: str) -> None:
    subscription = client.subscribe(f"SELECT * FROM {table} WHERE x > :lo", {"lo": 0}, id=f"resumed-{table}")
    client.publish(table, EVENTS[0])
    subscription.next(timeout_s=WAIT_S)
    seq, result = subscription.seq, subscription.result
    subscription.close()
    for events in EVENTS[1:]:
        client.publish(table, events)
    with Client(server) as another:
        resumed = another.attach(f"resumed-{table}", after=seq, result=result)
        assert resumed.params.lo == 0
        check_folded(another, resumed)
        present = another.result(resumed.id)
        resumed.close()
        again = another.attach(resumed.id)
        assert in_any_order(again.result) == in_any_order(present.result)


def test_assigned_parameters_move_the_subscription(client: Client, table: str) -> None:
    client.publish(table, [insert(id, "1.00", id) for id in range(100)])
    subscription = client.subscribe(f"SELECT MAX(x) FROM {table} WHERE x < :hi", {"hi": 0})
    for high in range(101):
        subscription.params.hi = high
    subscription.flush()
    assert client.result(subscription.id).result["value"] == 99
    check_folded(client, subscription)
    subscription.params.nonsense = 1
    with pytest.raises(ProsemError):
        subscription.flush()


def test_a_suspended_subscription_is_told_nothing(client: Client, table: str) -> None:
    subscription = client.subscribe(f"SELECT MAX(x) FROM {table}")
    subscription.suspend()
    client.publish(table, [insert(1, "1.00", 1)])
    with pytest.raises(TimeoutError):
        subscription.next(timeout_s=0.3)
    subscription.resume()
    assert (subscription.next(timeout_s=WAIT_S).result or {})["value"] == 1


def test_many_subscriptions_of_one_template(client: Client, table: str) -> None:
    rows = [{"params": {"lo": at}} for at in range(50)]
    batch = client.subscribe_many(f"SELECT MAX(x) FROM {table} WHERE x >= :lo", rows)
    assert len(set(batch.ids)) == 50
    client.publish(table, [insert(1, "1.00", 20)])
    told = client.attach(batch.ids[20], after=batch.seq).next(timeout_s=WAIT_S)
    assert (told.id, (told.result or {})["value"]) == (batch.ids[20], 20)
    assert client.result(batch.ids[21]).result == {"value": None, "row": None}


def test_an_upload(client: Client, table: str) -> None:
    counts: list[int] = []
    events = (insert(id, "1.00", id) for id in range(250))
    assert client.publish_ndjson(table, events, counts.append, lines_per_request=100).count == 250
    assert counts == [100, 200, 250]
    bad = [insert(id, "1.00", id) for id in range(300, 310)]
    bad[7]["row"]["x"] = "no number"
    with pytest.raises(PartlyPublished) as caught:
        client.publish_ndjson(table, bad, lines_per_request=5)
    assert caught.value.published.count == 7
    assert caught.value.errors[0]["at"].startswith("/7")


def test_a_publisher(client: Client, table: str) -> None:
    with client.publisher() as publisher:
        futures = [publisher.send(table, [insert(id, "1.00", id)]) for id in range(200)]
        refused = publisher.send(table, [insert(0, "1.00", 0)])
        seqs = [future.result(timeout=WAIT_S).first_seq for future in futures]
        assert all(before < after for before, after in itertools.pairwise(seqs))
        with pytest.raises(ProsemError) as caught:
            refused.result(timeout=WAIT_S)
        assert caught.value.status == 409
        with pytest.raises(ProsemError):
            publisher.drain()


def test_the_server_describes_itself(client: Client) -> None:
    assert client.status()["seq"] >= 0
    assert client.types()


async def test_a_broken_socket_loses_nothing(server: str, client: Client, table: str) -> None:
    async with AsyncClient(server) as watcher:
        subscription = await watcher.subscribe(f"SELECT MAX(x) FROM {table}")
        seen: list[int] = []
        for id in range(60):
            await watcher.publish(table, [insert(id, "1.00", id)])
            if id % 20 == 10:
                await break_socket(watcher)
        while len(seen) < 60:
            change = await subscription.next(timeout_s=WAIT_S)
            assert not change.snapshot
            seen.append((change.result or {})["value"])
        assert seen == list(range(60))
        assert watcher._stream.connects == 4


async def break_socket(client: AsyncClient) -> None:
    connects = client._stream.connects
    assert client._stream.socket is not None
    client._stream.socket.transport.abort()
    await until_async(lambda: client._stream.connects != connects)
