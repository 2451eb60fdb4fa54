"""The leaderboard and the order board in a browser: what they show is what the server answers, and a button publishes."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import BrowserContext, expect

from examples.boards.__main__ import REACT
from examples.boards.game import STATES, World
from tests.api.test_console import Picture, browser, picture
from tests.support.examples import Example, example
from tests.support.waiting import until

__all__ = ["browser", "picture"]

pytestmark = pytest.mark.skipif(
    not (REACT / "node_modules" / "react-dom").is_dir(), reason="React is not installed: make tools does it"
)


def test_orders_go_forward_only() -> None:
    world = World(players=5)
    for _ in range(50):
        before = dict(world.orders)
        world.order()
        assert all(STATES.index(world.orders[no]) >= STATES.index(status) for no, status in before.items())


@pytest.fixture(scope="module")
def running() -> Iterator[Example]:
    with example("boards", "--port", "0", "--rate", "4") as made:
        yield made


def test_the_boards_stay_current(running: Example, browser: BrowserContext, picture: Picture) -> None:
    address = running.until(r"open (http://\S+/)")[1]
    server = httpx.get(address + "config.json", trust_env=False).json()["server"]
    page = browser.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(address)
    leaders = page.locator("#leaders tbody tr")
    expect(leaders).to_have_count(10)
    expect(page.locator("#countries tbody tr")).to_have_count(7)
    expect(page.locator("#states tr.moved").first).to_be_attached()
    expect(page.locator("#leaders tr.moved").first).to_be_attached()
    until(lambda: page.locator("#largest tbody tr").count() == 6)
    picture(page, "boards")
    page.get_by_label("Country").select_option("JP")
    expect(page.locator("#leaders tbody td:nth-child(3)")).to_have_text(["JP"] * 10)
    points = [int(text.replace(",", "")) for text in page.locator("#leaders td.number").all_text_contents()]
    assert points == sorted(points, reverse=True)
    button = page.get_by_role("button", name="Pack order").first
    no = int((button.get_attribute("aria-label") or "").rsplit(" ", 1)[1])
    button.click()
    query = {"sql": "SELECT status FROM orders WHERE no = :no", "params": {"no": no}, "durable": False}
    expect(page.get_by_role("button", name=f"Pack order {no}", exact=True)).to_have_count(0)
    made = httpx.post(f"{server}/v1/subscriptions", json=query, trust_env=False).json()
    assert made["result"]["value"] in ("packed", "shipped")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
    assert faults == []
