"""The console of a server that needs keys, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.api.test_console import browser
from tests.support.secured import Keyed, start_secured, stock

__all__ = ["browser"]


@pytest.fixture(scope="module")
def admin() -> Iterator[Keyed]:
    made, admin = start_secured()
    yield admin
    made.remove()


def test_a_key_is_asked_for_used_and_forgotten_with_the_tab(browser: BrowserContext, admin: Keyed) -> None:
    caller = admin.make_key("publisher", "subscriber", tenant="acme")
    caller.stocks(("A", "tech", 10, 5))
    caller.subscribe("SELECT MIN(per) FROM stocks WHERE risk < 50", id="lowest")
    page = browser.new_page()
    page.goto(f"{admin.url}/#live")
    entry = page.get_by_role("dialog", name="Key")
    expect(entry).to_contain_text("This server needs a key.")
    entry.get_by_label("API key").fill("psm_wrong")
    entry.get_by_role("button", name="Use it").click()
    expect(entry).to_contain_text("does not know this key")
    entry.get_by_label("API key").fill(caller.key)
    entry.get_by_role("button", name="Use it").click()
    expect(page.locator("#connection")).to_have_text("connected")
    expect(entry).to_be_hidden()
    expect(page.locator("#strip")).to_contain_text("subscriptions1")
    page.goto(f"{admin.url}/#tables")
    expect(page.locator("main")).to_contain_text("stocks")
    assert page.evaluate("sessionStorage.getItem('prosem-key')") == caller.key
    assert page.evaluate("JSON.stringify(localStorage)").find(caller.key) < 0
    page.close()
    another = browser.new_page()
    another.goto(f"{admin.url}/#live")
    expect(another.get_by_role("dialog", name="Key")).to_be_visible()
    another.close()


def test_changes_are_seen_with_a_key(browser: BrowserContext, admin: Keyed) -> None:
    caller = admin.make_key("publisher", "subscriber", tenant="bravo")
    caller.stocks(("A", "tech", 10, 5))
    page = browser.new_page()
    page.goto(f"{admin.url}/#live")
    entry = page.get_by_role("dialog", name="Key")
    entry.get_by_label("API key").fill(caller.key)
    entry.get_by_role("button", name="Use it").click()
    expect(page.locator("#connection")).to_have_text("connected")
    page.locator("#sql").fill("SELECT MIN(per) FROM stocks WHERE risk < 50")
    page.get_by_role("button", name="Start").click()
    figure = page.locator(".card .figure")
    expect(figure).to_have_text("5")
    caller.publish("stocks", [stock("A", "tech", 10, 2)])
    expect(page.locator(".card .figure.changed")).to_contain_text("2")
    expect(figure.locator("del")).to_have_text("5")
    page.close()
