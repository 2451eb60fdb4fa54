"""Views, groups, ordered rows and several aggregates in the console, in a real browser."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.api.test_console import Picture, api, browser, page, picture, process, visit
from tests.support.live import Api

__all__ = ["api", "browser", "page", "picture", "process"]

_numbers = itertools.count(1)


class Shop:
    """Two tables under names of their own, for they and their views outlast a test."""

    def __init__(self, api: Api) -> None:
        number = next(_numbers)
        self.api, self.url = api, api.url
        self.users, self.orders = f"users{number}", f"orders{number}"
        self.placed, self.totals = f"placed{number}", f"totals{number}"
        api.table({"id": "integer", "branch": "text"}, ["id"], self.users)
        api.table({"id": "integer", "user_id": "integer", "price": "numeric(12,2)"}, ["id"], self.orders)
        api.publish(self.users, [_insert(id=n, branch=branch) for n, branch in ((1, "Bern"), (2, "Cork"))])
        self.order(*(_insert(id=n, user_id=1 + n % 2, price=f"{10 * n}.00") for n in range(1, 7)))

    @property
    def definition(self) -> str:
        """Of `placed`."""
        return (
            f"SELECT o.id, u.id AS user_id, u.branch, o.price "
            f"FROM {self.orders} o JOIN {self.users} u ON o.user_id = u.id"
        )

    def view(self, name: str, sql: str) -> None:
        self.api.call("POST", "/v1/views", json={"name": name, "sql": sql})

    def order(self, *events: dict[str, Any]) -> None:
        self.api.publish(self.orders, list(events))


@pytest.fixture
def shop(api: Api) -> Shop:
    return Shop(api)


def _insert(**row: Any) -> dict[str, Any]:
    return {"op": "insert", "row": row}


def _priced(id: int, price: str) -> dict[str, Any]:
    return {"op": "update", "key": {"id": id}, "set": {"price": price}}


def _start(page: Page, sql: str) -> Locator:
    """The card of a new subscription."""
    cards = page.locator(".card").count()
    page.get_by_label("Subscription, in SQL").fill(sql)
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".card")).to_have_count(cards + 1)
    return page.locator(f'[data-id="{page.locator(".card").first.get_attribute("data-id")}"]')


def _cells(lines: Locator) -> list[list[str]]:
    """The text of each line's cells, without the marks."""
    texts: list[list[str]] = lines.evaluate_all(
        "lines => lines.map(line => [...line.cells].slice(1).map(cell => cell.textContent))"
    )
    return texts


def test_a_view_is_created_its_rows_change_live_and_it_is_dropped(page: Page, shop: Shop) -> None:
    visit(page, shop.api, "views")
    expect(page.locator(".create")).to_have_attribute("open", "")
    page.get_by_label("Name").fill(shop.placed)
    page.get_by_label("Definition, in SQL").fill(f"{shop.definition} WHERE o.price > ")
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".create .problem")).to_be_visible()
    page.get_by_label("Definition, in SQL").fill(shop.definition)
    page.get_by_role("button", name="Create").click()
    detail = page.locator(".relation-detail")
    expect(detail.get_by_role("heading", name=shop.placed)).to_be_visible()
    expect(detail.locator(".definition")).to_have_text(shop.definition)
    expect(detail.locator(".column-list > span")).to_have_text(
        ["id integer key", "user_id integer key", "branch text", "price numeric(12,2)"]
    )
    expect(detail.locator("ul.users, div.users")).to_have_text("Nothing.")
    rows = detail.locator(".live-rows tbody tr")
    expect(rows).to_have_count(6)
    shop.order(_insert(id=0, user_id=2, price="0.50"))
    expect(rows).to_have_count(7)
    assert _cells(rows)[0] == ["1", "0", "2", "Cork", "0.50"]
    expect(rows.first).to_have_class("added")
    shop.api.publish(shop.users, [{"op": "update", "key": {"id": 2}, "set": {"branch": "Delft"}}])
    expect(detail.locator("tr.updated td.changed")).to_have_text(["Delft"] * 4)
    expect(page.locator(f'[data-rows="{shop.placed}"]')).to_have_text("7")
    detail.get_by_role("button", name="Drop it").click()
    expect(page.locator(f'[data-rows="{shop.placed}"]')).to_have_count(0)
    assert shop.api.http.get(f"/v1/views/{shop.placed}").status_code == 404


def test_the_graph_shows_what_uses_what_and_a_refused_drop_names_it(
    page: Page, shop: Shop, picture: Picture
) -> None:
    orders, users, placed, totals = shop.orders, shop.users, shop.placed, shop.totals
    shop.view(placed, shop.definition)
    shop.view(totals, f"SELECT branch, COUNT(*) AS n, SUM(price) AS total FROM {placed} GROUP BY branch")
    shop.api.subscribe(f"SELECT MIN(price) FROM {placed} WHERE id < :id", {"id": 5})
    visit(page, shop.api, "views")
    expect(page.locator(f'[data-relation="{totals}"]')).to_be_visible()
    uses = page.locator("[data-use]").evaluate_all("lines => lines.map(line => line.dataset.use)")
    assert {f"{orders}→{placed}", f"{users}→{placed}", f"{placed}→{totals}"} <= {*uses}
    lefts = {
        name: page.locator(f'[data-relation="{name}"] rect').evaluate("box => box.x.baseVal.value")
        for name in (orders, users, placed, totals)
    }
    assert lefts[orders] == lefts[users] < lefts[placed] < lefts[totals]
    page.locator(f'[data-relation="{placed}"]').click()
    detail = page.locator(".relation-detail")
    expect(detail.get_by_role("heading", name=shop.placed)).to_be_visible()
    expect(detail.locator("ul.users li")).to_have_text(
        [f"the view {totals}", re.compile(r"^1 subscription of range-min-\w+SELECT MIN\(price\) FROM placed")]
    )
    expect(detail.locator(".live-rows tbody tr")).to_have_count(6)
    picture(page, "views")
    detail.get_by_role("button", name="Drop it").click()
    expect(detail.locator(".problem")).to_contain_text(f"used by the view {totals}")
    expect(detail.locator(".live-rows tbody tr")).to_have_count(6)
    detail.get_by_role("button", name=shop.totals).click()
    expect(detail.get_by_role("heading", name=shop.totals)).to_be_visible()
    rows = detail.locator(".live-rows tbody tr")
    expect(rows).to_have_count(2)
    assert _cells(rows) == [["1", "Bern", "3", "120.00"], ["2", "Cork", "3", "90.00"]]
    page.locator(f'[data-relation="{orders}"]').press("Enter")
    expect(detail.get_by_role("heading", name=shop.orders)).to_be_visible()
    expect(detail.locator("ul.users li")).to_have_text([f"the view {placed}"])
    expect(detail.get_by_role("button", name="Drop it")).to_have_count(0)


def test_a_card_of_groups_is_keyed_by_the_columns_of_group_by(page: Page, shop: Shop) -> None:
    shop.view(shop.placed, shop.definition)
    visit(page, shop.api)
    card = _start(page, f"SELECT COUNT(*) AS n, branch, MIN(price) AS low FROM {shop.placed} GROUP BY branch")
    lines = card.locator("tbody tr")
    assert _cells(lines) == [["3", "Bern", "20.00"], ["3", "Cork", "10.00"]]
    expect(card.locator("td.key")).to_have_text(["Bern", "Cork"])
    shop.api.publish(shop.users, [_insert(id=3, branch="Aachen")])
    shop.order(_insert(id=7, user_id=3, price="5.00"))
    expect(card.locator("tr.added")).to_have_text("+1Aachen5.00")
    assert [cells[1] for cells in _cells(lines)] == ["Aachen", "Bern", "Cork"]
    shop.order(_priced(1, "1.00"))
    expect(card.locator("tr.updated td.changed")).to_have_text(["1.00"])
    shop.api.publish(shop.users, [{"op": "delete", "key": {"id": 3}}])
    expect(card.locator("tr.removed")).to_have_text("−1Aachen5.00")
    expect(card.locator(".body")).to_contain_text("2 groups")


def test_a_card_of_a_top_k_is_in_order(page: Page, shop: Shop) -> None:
    visit(page, shop.api)
    card = _start(page, f"SELECT id, price FROM {shop.orders} ORDER BY price DESC LIMIT 3")
    lines = card.locator("tbody tr:not(.removed)")
    assert _cells(lines) == [["1", "6", "60.00"], ["2", "5", "50.00"], ["3", "4", "40.00"]]
    shop.order(_priced(4, "70.00"))
    expect(card.locator("tr.updated")).to_have_text("~1▲470.00")
    assert [cells[1] for cells in _cells(lines)] == ["4", "6", "5"]
    shop.order(_priced(1, "65.00"))
    expect(card.locator("tr.added")).to_have_text("+2165.00")
    expect(card.locator("tr.removed")).to_have_text("−550.00")
    assert [cells[1] for cells in _cells(lines)] == ["4", "1", "6"]


def test_several_aggregates_are_named_columns_notified_once_per_transaction(page: Page, shop: Shop) -> None:
    visit(page, shop.api)
    page.get_by_label("one change per transaction").check()
    card = _start(page, f"SELECT COUNT(*), MIN(price) AS low, SUM(price) FROM {shop.orders}")
    named = card.locator(".named > div")
    expect(named).to_have_text(["count6", "low10.00", "sum210.00"])
    expect(card.locator(".sql")).to_contain_text("per transaction")
    id = card.get_attribute("data-id")
    assert shop.api.call("GET", f"/v1/subscriptions/{id}")["per"] == "transaction"
    shop.order(_priced(1, "20.00"), _priced(2, "10.00"), _insert(id=9, user_id=1, price="1.50"))
    expect(named).to_have_text(["count7▲ 6", "low1.50▼ 10.00", "sum211.50▲ 210.00"])
    expect(card.locator("summary")).to_contain_text("1 change ")
    shop.order(_priced(3, "31.00"), _priced(3, "30.00"))
    shop.order({"op": "delete", "key": {"id": 2}})
    expect(named).to_have_text(["count6▼ 7", "low1.50", "sum201.50▼ 211.50"])
    expect(card.locator("summary")).to_contain_text("2 changes ")


def test_views_are_offered_as_tables(page: Page, shop: Shop) -> None:
    shop.view(shop.placed, shop.definition)
    visit(page, shop.api)
    page.get_by_label("table or view").select_option(label=f"{shop.placed} (view)")
    page.locator(".offers").get_by_role("button", name="groups").click()
    sql = page.get_by_label("Subscription, in SQL")
    expect(sql).to_have_value(
        f"SELECT branch, COUNT(*) AS n, MIN(user_id) AS low FROM {shop.placed} GROUP BY branch"
    )
    for example in page.locator(".offers .link").all():
        with page.expect_response("**/v1/describe") as described:
            example.click()
        assert described.value.ok, (sql.input_value(), described.value.text())
