"""The console's pages of webhooks and keys, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.api.test_console import ARGUMENTS, Picture, browser, page, picture, visit
from tests.support.live import Api
from tests.support.processes import ServerProcess
from tests.support.receiver import Receiver

__all__ = ["ARGUMENTS", "browser", "page", "picture"]


@pytest.fixture(scope="module")
def process() -> Iterator[ServerProcess]:
    """One attempt per delivery: the second failure of a receiver is a dead letter at once."""
    made = ServerProcess("--webhook-attempts", "1")
    made.start()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def api(process: ServerProcess) -> Iterator[Api]:
    with Api(process.url) as made:
        yield made


def test_a_webhook_is_created_its_dead_letter_read_and_delivered_again(
    page: Page, api: Api, picture: Picture
) -> None:
    table = api.table({"k": "integer", "x": "integer"}, ["k"])
    api.subscribe(f"SELECT MIN(x) FROM {table}", id="lowest")
    with Receiver(behave=lambda number, request: 500 if number == 0 else 204) as receiver:
        visit(page, api, "webhooks")
        expect(page.locator("main")).to_contain_text("There are none.")
        page.get_by_text("Create a webhook").click()
        page.get_by_label("Address").fill(receiver.url)
        page.get_by_label("Subscriptions, by id").fill("absent")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.locator(".create .problem")).to_contain_text("there is no subscription")
        page.get_by_label("Subscriptions, by id").fill("lowest")
        page.get_by_label("Secret").fill("chosen-at-random-and-kept")
        receiver.secret = "chosen-at-random-and-kept"
        page.get_by_role("button", name="Create", exact=True).click()
        detail = page.locator(".relation-detail")
        expect(detail.get_by_role("heading", name="Dead letters (1)")).to_be_visible()
        letter = detail.locator("li")
        letter.locator("summary").click()
        expect(letter.locator("pre")).to_contain_text('"snapshot"')
        expect(letter).to_contain_text("500")
        picture(page, "webhooks")
        letter.get_by_role("button", name="Deliver again").click()
        expect(detail.get_by_role("heading", name="Dead letters (0)")).to_be_visible()
        [delivered] = receiver.deliveries.values()
        assert delivered["frames"][0]["snapshot"] == {"value": None, "row": None}
        api.publish(table, [{"op": "insert", "row": {"k": 1, "x": 7}}])
        expect(detail.locator(".terms")).to_contain_text("up to seq 1")
        page.get_by_role("button", name="Delete this webhook").click()
        expect(page.locator("main")).to_contain_text("There are none.")
        assert api.call("GET", "/v1/webhooks")["webhooks"] == []


def test_the_first_key_ends_open_access_and_keys_are_made_and_revoked(
    page: Page, api: Api, picture: Picture
) -> None:
    """The last test of this server: afterwards it needs keys."""
    visit(page, api, "keys")
    expect(page.locator("main")).to_contain_text("This server has no keys")
    page.get_by_text("Create a key").click()
    page.get_by_label("Name").fill("the operator")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator("#new-key")).to_contain_text("psm_")
    page.get_by_role("button", name="Use it in this console").click()
    expect(page.locator("main")).to_contain_text("The key the operator (number 1).")
    page.get_by_text("Create a key").click()
    page.get_by_label("Name").fill("tech desk")
    page.get_by_label("Tenant").fill("acme")
    page.get_by_label("Rows").fill("stocks: sector = 'tech'")
    page.get_by_label("sockets").fill("5")
    page.get_by_role("button", name="Create", exact=True).click()
    secret = page.locator("#new-key").text_content() or ""
    line = page.locator('[data-key="2"]')
    expect(line).to_contain_text("acme")
    expect(line).to_contain_text("stocks: sector IN (tech); sockets 5")
    page.locator("#new-key").evaluate("key => { key.textContent = 'psm_…' }")  # none in a picture
    picture(page, "keys")
    headers = {"Authorization": f"Bearer {secret}"}
    assert api.http.get("/v1/whoami", headers=headers).json()["name"] == "tech desk"
    page.get_by_role("button", name="Revoke tech desk").click()
    expect(line).to_contain_text("revoked")
    assert api.http.get("/v1/whoami", headers=headers).status_code == 401
    page.evaluate("sessionStorage.clear()")
