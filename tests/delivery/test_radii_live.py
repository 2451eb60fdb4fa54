"""Radii that are parameters on a running server: one template, refusals, and moves of radii alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.delivery.test_value_live import COLUMNS, VALUE, heard
from tests.support.live import Api, Refused, insert, update
from tests.support.processes import ServerProcess

NAMED = {"change": ":r"}


def test_subscriptions_with_different_radii_are_one_template(api: Api) -> None:
    table = api.table(COLUMNS, ["k"])
    start = api.publish(table, [insert(k=1, y=10)])["last_seq"]
    rows = [{"params": {"k": 1, "r": r}} for r in (1, 2.5, "4")]
    body = {"sql": VALUE.format(table), "notify": NAMED, "rows": rows}
    batch = api.call("POST", "/v1/subscriptions/batch", json=body)
    one = api.subscribe(VALUE.format(table), {"k": 1, "r": 7}, notify=NAMED)
    assert one["group"] == batch["group"]
    last = api.publish(table, [update(1, y=11), update(1, y=13), update(1, y=14)])["last_seq"]
    received = [[change["value"] for _, change in heard(api, id, start, last)] for id in batch["ids"]]
    assert received == [[11, 13, 14], [13], [14]]
    described = api.call("POST", "/v1/describe", json=body | {"params": {"k": 1}})
    assert described["parameters"] == ["k", "r"]
    assert described["missing"] == ["r"]


@pytest.mark.parametrize(
    ("params", "at"),
    [
        ({"k": 1}, "/params/r"),
        ({"k": 1, "r": 0}, "/params/r"),
        ({"k": 1, "r": "far"}, "/params/r"),
        ({"k": 1, "r": None}, "/params/r"),
        ({"k": 1, "r": "P1D"}, "/params/r"),
        ({"k": 1, "r": 1, "s": 1}, "/params/s"),
    ],
)
def test_a_bad_radius_is_refused_where_it_stands(api: Api, params: Any, at: str) -> None:
    table = api.table(COLUMNS, ["k"])
    asked = {"sql": VALUE.format(table), "notify": NAMED}
    with pytest.raises(Refused) as caught:
        api.call("POST", "/v1/subscriptions", json=asked | {"params": params})
    assert (caught.value.status, caught.value.problem["errors"][0]["at"]) == (422, at)
    rows = [{"params": {"k": 1, "r": 1}}, {"params": params}]
    with pytest.raises(Refused) as caught:
        api.call("POST", "/v1/subscriptions/batch", json=asked | {"rows": rows})
    assert (caught.value.status, caught.value.problem["errors"][0]["at"]) == (422, "/rows/1" + at)
    id = api.subscribe(VALUE.format(table), {"k": 1, "r": 1}, notify=NAMED)["id"]
    if "r" in params:
        with pytest.raises(Refused) as caught:
            api.patch(id, params=params)
        assert (caught.value.status, caught.value.problem["errors"][0]["at"]) == (422, at)


def test_moves_of_radii_alone_are_not_notified_and_survive_a_kill(own_server: ServerProcess) -> None:
    own_server.start()
    with Api(own_server.url) as api:
        table = api.table(COLUMNS | {"z": "integer"}, ["k"])
        start = api.publish(table, [insert(k=1, y=10, z=0), insert(k=2, y=50, z=0)])["last_seq"]
        id = api.subscribe(VALUE.format(table), {"k": 1, "r": 9}, notify=NAMED)["id"]
        many = api.subscribe(f"SELECT y FROM {table}", {"r": 9}, notify=NAMED)["id"]
        seq = api.publish(table, [update(1, y=14)])["last_seq"]
        for one in (id, many):
            assert api.patch(one, params={"r": 3})["seq"] == seq, "nothing is notified by itself"
        assert api.result(id)["result"] == {"value": 10}
    own_server.kill()
    own_server.start()
    with Api(own_server.url) as api:
        assert api.result(id)["result"] == {"value": 10}
        events = [update(2, y=52), update(1, z=1), update(1, y=16), update(1, y=17)]
        first = api.publish(table, events)["first_seq"]
        changes = [
            (first + 1, {"value": 14, "previous": 10}),  # the new radius holds from the next event on
            (first + 3, {"value": 17, "previous": 14}),
        ]
        api.patch(id, params={"r": 1})
        moved = api.patch(id, params={"k": 2, "r": 4})
        changes += [(moved["seq"], {"value": 52, "previous": 17})]
    own_server.kill()
    own_server.start()
    with Api(own_server.url) as api:
        last = api.publish(table, [update(2, y=55), update(2, y=56)])["last_seq"]
        changes += [(last, {"value": 56, "previous": 52})]
        items = [(seq, {"key": {"k": 1}} | change) for seq, change in changes[:2]]
        items += [(last - 1, {"key": {"k": 2}, "value": 55, "previous": 50})]
        for after in range(start, last):
            for one, wanted in ((id, changes), (many, items)):
                assert heard(api, one, after, last) == [change for change in wanted if change[0] > after]
