"""The console's pages of webhooks, statistics and keys, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import Page, expect

from api.commands.database import address
from tests.api.test_console import ARGUMENTS, Picture, browser, page, picture, visit
from tests.support.live import Api
from tests.support.processes import ServerProcess
from tests.support.receiver import Receiver
from tests.support.statistics_runs import column, join, make_run, point
from tests.support.waiting import until

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


def test_the_statistics_page_draws_what_the_run_in_force_knows(
    page: Page, api: Api, process: ServerProcess, picture: Picture
) -> None:
    visit(page, api, "statistics")
    expect(page.locator("main")).to_contain_text("No run is in force. prosem stats refresh makes one.")
    table = api.table({"k": "integer", "x": "numeric(8,2)", "e": "text"}, ["k"], "measured")
    other = api.table({"k": "integer"}, ["k"], "others")
    group = api.subscribe(f"SELECT MIN(x) FROM {table} WHERE k >= :lo", {"lo": 3})["group"]
    ids = {name: number for number, name in table_ids(process)}
    prices = [f"{at * at / 10:.2f}" for at in range(40)] + ["160.00"] * 25
    api.publish(table, [{"op": "insert", "row": {"k": 1, "x": "7.00", "e": "a"}}])
    sql = f"SELECT * FROM {table} JOIN {other} USING (k) WHERE {table}.x < :x AND {table}.e < :e"
    joined = api.subscribe(sql, {"x": "9.00", "e": "b"})["group"]
    training = (group_id(process, group), 0, "reformulate", [1.0, 1.0], 1.0, 1.0, 10.0, 0.0, 5.0)
    number = make_run(
        database(process),
        [
            column(ids[table], 0, "k", "integer", list(range(65)), 900),
            column(ids[table], 1, "x", "numeric(8,2)", prices, changes=990, hot=[("160.00", 0.375)]),
            column(ids[table], 2, "e", "text", ["a", "b", "b", "c"], changes=0),
            column(ids[other], 0, "k", "integer", [1, 2]),
        ],
        [point(training[0], "k >=", [1, 2, 3, 9], 1)],
        [join((ids[table], "k"), (ids[other], "k"), (0.75, 0.25), (2.0, 1.0), (1.5, 1.0))],
        [training],
    )
    until(lambda: api.call("GET", "/v1/optimizer/statistics")["run"] == number)
    visit(page, api, "statistics")
    page.reload()
    expect(page.locator("#run")).to_contain_text(f"Run {number} of")
    expect(page.locator("#run")).to_contain_text("1,000 events")
    expect(page.locator("#changed")).to_contain_text(f"Measurements are used for {group}.")
    arranged = page.locator(".arrangements tbody tr")
    expect(arranged).to_have_count(1)
    expect(arranged).to_contain_text(joined)
    expect(arranged).to_contain_text(f"{table}.e instead of {table}.x")
    expect(arranged).to_contain_text(
        "distinct values, hot keys, update rates and join frequencies of the run"
    )
    expect(arranged).to_contain_text(f"{table} by {other}, {other} by {table}")
    page.get_by_role("button", name=table, exact=True).click()
    histograms = page.locator(".histograms").first.locator(".histogram")
    expect(histograms).to_have_count(3)
    price = histograms.nth(1)
    expect(price).to_contain_text("changed by 99 % of 1,000 events")
    expect(price.locator(".hot-keys")).to_contain_text("160.00 ≥ 37.5 %")
    expect(price.locator("svg text").first).to_have_text("0.00")
    heights = price.locator("rect").evaluate_all(
        "bars => bars.map(bar => Number(bar.getAttribute('height')))"
    )
    assert len(heights) == 40
    assert heights.index(max(heights)) == 39, "a spike at the hot key"
    assert heights[0] > heights[20] > 0, "squares lie denser at the low end"
    expect(histograms.nth(2)).to_contain_text("from a to c")
    expect(page.locator("table.joins tbody tr").first).to_contain_text("75 %")
    page.locator("details.group summary").click()
    expect(page.locator("details.group .histogram")).to_contain_text("k >=")
    picture(page, "statistics")
    page.get_by_role("button", name=other, exact=True).click()
    expect(page.locator(".histograms").first.locator(".histogram")).to_have_count(1)


def database(process: ServerProcess) -> str:
    """The database of a server with an embedded PostgreSQL."""
    return address("", process.folder / "data")


def table_ids(process: ServerProcess) -> list[tuple[int, str]]:
    with psycopg.connect(database(process)) as connection:
        return connection.execute("SELECT id, name FROM prosem.tenant_table").fetchall()


def group_id(process: ServerProcess, name: str) -> int:
    with psycopg.connect(database(process)) as connection:
        (found,) = connection.execute("SELECT id FROM prosem.group_ WHERE name = %s", [name]).fetchall()
    return int(found[0])


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
    expect(page.locator("#connection")).to_have_text("no key")  # from now on the page is refused
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
