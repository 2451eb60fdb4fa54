"""Drivers near me in a browser: the page shows what PostgreSQL would answer, also after it has moved."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from examples.drivers_near_me.city import BLOCK_M, SIZE_M, City
from tests.api.test_console import Picture, browser, picture
from tests.support.examples import Example, example
from tests.support.waiting import until

__all__ = ["browser", "picture"]


def test_drivers_stay_on_streets_and_in_the_city() -> None:
    city = City(50)
    for _ in range(400):
        for event in city.move():
            x, y = event["set"]["x"], event["set"]["y"]
            assert x % BLOCK_M == 0 or y % BLOCK_M == 0
            assert 0 <= x <= SIZE_M
            assert 0 <= y <= SIZE_M


@pytest.fixture(scope="module")
def running() -> Iterator[Example]:
    with example("drivers_near_me", "--port", "0", "--drivers", "400", "--riders", "500") as made:
        yield made


def test_the_page_follows_the_drivers_and_the_position(
    running: Example, browser: BrowserContext, picture: Picture
) -> None:
    address = running.until(r"open (http://\S+/)")[1]
    config = httpx.get(address + "config.json", trust_env=False).json()
    page = browser.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(address)
    expect(page.locator("#state")).to_have_text("connected")
    expect(page.locator("#nearest tr").first).to_be_visible()
    assert dots(page, "--free") > 0
    until(lambda: number(page, "#changes") > 20)
    page.locator("#map").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    until(lambda: number(page, "#moves") > 0)
    page.locator("#reach").fill("3000")
    expect(page.locator("#reach-shown")).to_have_text("3.0 km")
    until(lambda: len(near(config, 5500, 5000, 3000)) > 1, what="both subscriptions are where the page is")
    assert near(config, 5000, 5000, 1200) == set(), "and no longer where it began"
    picture(page, "drivers-near-me")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
    assert faults == []


def number(page: Page, selector: str) -> int:
    return int((page.locator(selector).text_content() or "0").replace(",", ""))


def near(config: dict[str, str], x: int, y: int, reach: int) -> set[str]:
    """The page's subscriptions that the server has around this place."""
    answer = httpx.get(f"{config['server']}/v1/subscriptions?limit=1000", trust_env=False).json()
    return {
        one["id"]
        for one in answer["subscriptions"]
        if not one["durable"] and one["params"] == {"x": x, "y": y, "reach": reach}
    }


def dots(page: Page, colour: str) -> int:
    """How many points of the map have a colour of the style."""
    count: int = page.evaluate(
        """(name) => {
            const canvas = document.getElementById("map");
            const probe = document.createElement("canvas").getContext("2d");
            probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
            probe.fillRect(0, 0, 1, 1);
            const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let found = 0;
            for (let at = 0; at < data.length; at += 4) {
                if (data[at] === r && data[at + 1] === g && data[at + 2] === b && data[at + 3] === 255) found += 1;
            }
            return found;
        }""",
        colour,
    )
    return count
