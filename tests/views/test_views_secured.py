"""Views, tenants and row conditions: no way leads around a key's condition, and none into another tenant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.secured import Keyed, frames, refused, start_secured, stock

RISKY = "SELECT symbol, sector, risk * 2 AS risk FROM stocks WHERE risk > 5"
BY_SECTOR = "SELECT sector, COUNT(*) AS n, MIN(per) AS low FROM stocks GROUP BY sector"
TECH = "sector = 'tech'"


class Desk:
    """A tenant with views at two depths. `tech` has a condition on the table alone, `named` on a view too."""

    def __init__(self, admin: Keyed) -> None:
        self.admin = admin
        self.all = admin.make_key("publisher", "subscriber", tenant="desk")
        self.all.stocks(
            ("T1", "tech", 10, 5), ("T2", "tech", 60, 3), ("B1", "bio", 10, 1), ("E1", "energy", 1, 0)
        )
        self.view("risky", RISKY)
        self.view("by_sector", BY_SECTOR)
        self.view("deep", "SELECT symbol, sector, risk FROM risky WHERE risk < 100")
        self.tech = self.key({"stocks": TECH})
        self.named = self.key({"stocks": TECH, "risky": TECH})
        self.everywhere = self.key({"*": TECH})

    def view(self, name: str, sql: str) -> Any:
        return self.all.call("POST", "/v1/views", json={"name": name, "sql": sql})

    def key(self, rows: dict[str, str], *roles: str) -> Keyed:
        return self.admin.make_key("subscriber", *roles, tenant="desk", rows=rows)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    made, admin = start_secured()
    yield Desk(admin)
    made.remove()


AROUND = (
    "SELECT * FROM risky",
    "SELECT * FROM deep",
    "SELECT COUNT(*) FROM by_sector",
    "SELECT sector, COUNT(*) AS n FROM risky GROUP BY sector",
    "SELECT symbol, risk FROM risky ORDER BY risk LIMIT 3",
    "SELECT DISTINCT sector FROM deep",
    "SELECT risk FROM risky",
    "SELECT risk FROM risky WHERE symbol = 'B1'",
    "SELECT * FROM stocks JOIN deep USING (symbol)",
    "SELECT COUNT(*) FROM stocks s JOIN by_sector b ON s.sector = b.sector",
    "SELECT s.symbol, b.sector, b.low FROM stocks s LEFT JOIN by_sector b ON s.sector = b.sector",
    "SELECT a.symbol, b.symbol AS other FROM stocks a LEFT JOIN stocks b ON a.risk = b.risk",
)


@pytest.mark.parametrize("sql", AROUND)
def test_a_view_does_not_lead_around_a_condition(desk: Desk, sql: str) -> None:
    for key in (desk.tech, desk.everywhere):
        for path, body in (
            ("/v1/subscriptions", {"sql": sql}),
            ("/v1/subscriptions/batch", {"sql": sql, "rows": [{"params": {}}]}),
            ("/v1/describe", {"sql": sql}),
        ):
            answer = key.http.post(path, json=body)
            assert answer.status_code == 422, (path, answer.text)
            assert not {"B1", "E1", "bio", "energy"} & {*answer.text.replace('"', " ").split()}, answer.text


def test_a_condition_of_the_view_by_its_name_opens_it(desk: Desk) -> None:
    made = desk.named.subscribe("SELECT * FROM risky")
    assert sorted(row["symbol"] for row in made["result"]["rows"]) == ["T1", "T2"]
    with desk.named.listen() as socket:
        frames(socket, {"op": "attach", "id": made["id"]})
        desk.all.publish(
            "stocks", [stock("B2", "bio", 50, 1), stock("T3", "tech", 50, 1), stock("T3", "bio", 50, 1)]
        )
        changes = [frame["change"] for frame in frames(socket)]
    assert [[row["symbol"] for row in change["add"]] for change in changes] == [["T3"], []]
    desk.all.publish("stocks", [{"op": "delete", "key": {"symbol": name}} for name in ("B2", "T3")])
    assert refused(desk.named.subscribe, "SELECT * FROM deep").status == 422, (
        "one view's condition is not another's"
    )


def test_each_table_of_a_join_is_restricted_before_joining(desk: Desk) -> None:
    for sql in (
        "SELECT COUNT(*), MIN(b.symbol) AS low FROM stocks a JOIN stocks b ON a.risk = b.risk",
        "SELECT COUNT(*), MIN(a.symbol) AS low FROM stocks b JOIN stocks a ON a.risk = b.risk",
    ):
        assert desk.tech.subscribe(sql)["result"]["columns"] == {"count": 2, "low": "T1"}
        assert desk.all.subscribe(sql)["result"]["columns"] == {"count": 6, "low": "B1"}


def test_a_key_with_conditions_defines_no_views(desk: Desk) -> None:
    """A view is made of all rows, and its refusals name keys of rows: a restricted key would learn of them."""
    for role in ("publisher", "admin"):
        assert refused(desk.key, {"stocks": TECH, "mine": TECH}, role).status == 422, (
            "no such key can be made"
        )
    around = {"name": "mine", "sql": "SELECT symbol, per, 'tech' AS sector FROM stocks"}
    assert desk.named.status("POST", "/v1/views", json=around) == 403
    assert desk.named.status("DELETE", "/v1/views/risky") == 403, "nor makes room for another of the name"


def test_the_rows_of_a_table_that_extends_another_are_not_seen_through_its_views(desk: Desk) -> None:
    desk.all.call(
        "POST",
        "/v1/tables",
        json={"name": "funds", "extends": "stocks", "columns": [{"name": "manager", "type": "text"}]},
    )
    row = {"symbol": "F1", "sector": "tech", "risk": 30, "per": 9, "manager": "ann"}
    desk.all.publish("funds", [{"op": "insert", "row": row}])
    try:
        key = desk.key({"funds": "manager = 'bob'"})
        for sql in (
            "SELECT * FROM stocks",
            "SELECT * FROM risky",
            "SELECT * FROM deep",
            "SELECT COUNT(*) FROM by_sector",
        ):
            assert refused(key.subscribe, sql).status in (403, 422), sql
        error = refused(key.subscribe, "SELECT COUNT(*) FROM funds f JOIN risky r ON f.symbol = r.symbol")
        assert error.status in (403, 422)
        opened = desk.key({"funds": "manager = 'bob'", "risky": TECH})
        assert [row["symbol"] for row in opened.subscribe("SELECT * FROM risky")["result"]["rows"]].count(
            "F1"
        ) == 1
    finally:
        desk.all.publish("funds", [{"op": "delete", "key": {"symbol": "F1"}}])


def test_a_view_belongs_to_its_tenant(desk: Desk) -> None:
    other = desk.admin.make_key("publisher", "subscriber", "admin", tenant="other")
    assert other.call("GET", "/v1/views")["views"] == []
    for method in ("GET", "DELETE"):
        assert other.status(method, "/v1/views/risky") == 404
    error = refused(other.subscribe, "SELECT * FROM risky")
    assert (error.status, "by_sector" in str(error.problem)) == (422, False)
    error = refused(
        other.call, "POST", "/v1/views", json={"name": "stolen", "sql": "SELECT symbol FROM risky"}
    )
    assert (error.status, "by_sector" in str(error.problem)) == (422, False)
    assert other.status("POST", "/v1/tables/risky/events", json={"events": [stock("X", "x", 1, 1)]}) == 404
    other.stocks(("O1", "tech", 10, 5))
    other.call("POST", "/v1/views", json={"name": "risky", "sql": RISKY})
    (row,) = other.subscribe("SELECT * FROM risky")["result"]["rows"]
    assert row["symbol"] == "O1"
    join = "SELECT COUNT(*) FROM risky a JOIN stocks b ON a.symbol = b.symbol"
    assert other.subscribe(join)["result"] == {"value": 1}
    assert desk.all.subscribe(join)["result"] == {"value": 3}


def test_subscribers_define_and_drop_no_views(desk: Desk) -> None:
    key = desk.admin.make_key("subscriber", tenant="desk")
    assert key.status("POST", "/v1/views", json={"name": "own", "sql": "SELECT symbol FROM stocks"}) == 403
    assert key.status("DELETE", "/v1/views/deep") == 403
    assert [view["name"] for view in key.call("GET", "/v1/views")["views"]] == ["risky", "by_sector", "deep"]
