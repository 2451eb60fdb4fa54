"""The console in a real browser, against a real server: each part does what it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from tests.support.live import Api, Json
from tests.support.processes import ServerProcess

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PARTS = (
    "start",
    "live",
    "tables",
    "views",
    "geometry",
    "network",
    "optimizer",
    "statistics",
    "webhooks",
    "keys",
)
IMAGES = Path(__file__).parents[2] / "docs" / "images"
LOWEST = "SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi"


@pytest.fixture(scope="module")
def process() -> Iterator[ServerProcess]:
    """A server of the console's own: its first visitor finds no table."""
    made = ServerProcess()
    made.start()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def api(process: ServerProcess) -> Iterator[Api]:
    with Api(process.url) as made:
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    assert CHROMIUM.exists(), (
        f"{CHROMIUM} is missing: install Chromium (make tools does it), then run the tests again"
    )
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("browser")),
            executable_path=str(CHROMIUM),
            args=ARGUMENTS,
            viewport={"width": 1280, "height": 900},
            color_scheme="light",
        )
        context.set_default_timeout(30_000)  # a busy machine must not fail a test
        expect.set_options(timeout=30_000)
        yield context
        context.close()


@pytest.fixture
def page(browser: BrowserContext, api: Api) -> Iterator[Page]:
    """A page on which no script fails, and which asks nobody but its server."""
    made = browser.new_page()
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on(
        "console", lambda message: faults.append(message.text) if "Content Security" in message.text else None
    )
    made.on(
        "request",
        lambda request: None if request.url.startswith((api.url, "data:")) else faults.append(request.url),
    )
    yield made
    made.close()
    assert faults == []


class Picture(Protocol):
    """Takes a screenshot; with --images it is written to docs/images."""

    def __call__(self, page: Page, name: str, *, whole: bool = True) -> None: ...


@pytest.fixture
def picture(request: pytest.FixtureRequest, tmp_path: Path) -> Picture:
    folder = IMAGES if request.config.getoption("--images") else tmp_path

    def take(page: Page, name: str, *, whole: bool = True) -> None:
        page.screenshot(path=folder / f"{name}.png", full_page=whole, animations="disabled")

    return take


def test_the_page_of_the_http_interface(page: Page, api: Api) -> None:
    page.goto(f"{api.url}/docs")
    expect(page.get_by_role("heading", name="subscriptions")).to_be_visible()
    described = api.call("GET", "/openapi.json")["paths"]
    assert page.locator("details.route").count() == sum(map(len, described.values()))
    page.locator("summary", has_text="/v1/status").click()
    page.get_by_role("button", name="Send").click()
    expect(page.locator("details[open] pre")).to_contain_text('"version"')
    page.locator("summary", has_text="What a query becomes").first.click()
    page.get_by_label("body").last.fill('{"sql": "SELECT"}')
    page.get_by_role("button", name="Send").last.click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.evaluate("localStorage.clear()")


def visit(page: Page, api: Api, view: str = "live") -> None:
    page.goto(f"{api.url}/#{view}")
    expect(page.locator("nav a[aria-current]")).to_have_text(view.capitalize())


@pytest.fixture(scope="module")
def stocks(api: Api) -> Api:
    """The demo's table, with rows and subscriptions that do not move."""
    columns = {
        "symbol": "text",
        "sector": "text",
        "risk": "integer",
        "per": "double precision",
        "price": "numeric(12,2)",
    }
    api.table(columns, ["symbol"], "stocks")
    api.publish(
        "stocks",
        [
            {"op": "upsert", "row": {"symbol": f"S{n}", "sector": "tech", "risk": n % 90, "per": 5 + n * 7 % 31}}
            for n in range(120)
        ],
    )  # fmt: skip
    rows = [{"params": {"lo": lo, "hi": lo + 3 + lo * 7 % 25}} for lo in range(60)]
    api.call("POST", "/v1/subscriptions/batch", json={"sql": LOWEST, "rows": rows})
    return api


# -- the first visit; this test comes first, while the server is empty -----------------------------------------------
def test_a_first_visitor_loads_the_demo_and_sees_it_move(page: Page, api: Api, picture: Picture) -> None:
    page.goto(api.url)
    expect(page.locator("nav a[aria-current]")).to_have_text("Start")
    expect(page.locator(".welcome")).to_contain_text("no tables yet")
    page.get_by_role("button", name="Load the demo market").click()
    cards = page.locator(".card")
    expect(cards).to_have_count(4)
    expect(cards.locator(".answer-chart svg[aria-label]")).to_have_count(4)
    expect(page.locator(".market rect")).to_have_count(300)
    expect(page.locator(".market .rose, .market .fell").first).to_be_visible()
    expect(page.locator(".moves td.key").first).to_be_visible()
    expect(page.locator("#notified")).to_contain_text(re.compile(r"^[\d,]+ events since this page opened"))
    reason = cards.nth(1).locator(".why")
    expect(reason).to_contain_text(re.compile(r"Event [\d,]+ became .*no other subscription was looked at"))
    expect(reason).to_contain_text("of 101)")
    expect(page.locator(".over-time path.steps-line").last).to_have_attribute("d", re.compile("H.*V"))
    page.get_by_role("button", name="cheapest").click()
    expect(page.locator(".try #described-filter")).to_contain_text("lo(risk) = 20, hi(risk) = 40")
    picture(page, "start")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "start-phone")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(cards).to_have_count(5)
    expect(page.locator("#connection")).to_have_text("connected")
    page.get_by_role("button", name="Stop the market").click()
    expect(page.get_by_role("button", name="Let the market move")).to_be_visible()
    assert api.call("GET", "/v1/status")["tables"] == {"stocks": 300}
    visit(page, api, "live")
    expect(cards).to_have_count(5)
    visit(page, api, "tables")
    expect(page.locator('[data-rows="stocks"]')).to_have_text("300")
    page.close()
    for subscription in api.call("GET", "/v1/subscriptions?limit=1000")["subscriptions"]:
        if subscription["durable"]:
            api.delete(subscription["id"])


def test_a_server_with_other_tables_opens_on_live(page: Page, api: Api) -> None:
    tables = {"tables": [{"name": "cars", "columns": [{"name": "k", "type": "text"}], "primary_key": ["k"]}]}
    page.route("**/v1/tables", lambda route: route.fulfill(json=tables))
    page.goto(api.url)
    expect(page.locator("nav a[aria-current]")).to_have_text("Live")
    page.route("**/v1/tables", lambda route: route.fulfill(json={"tables": []}))
    visit(page, api, "tables")
    visit(page, api)
    expect(page.locator("main .notice")).to_contain_text("no tables yet")
    expect(page.locator("form.compose")).to_be_hidden()


def test_files_are_kept_for_ever_and_the_page_is_not(api: Api) -> None:
    answer = api.http.get("/")
    assert answer.headers["cache-control"] == "no-cache"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert api.http.get("/", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    assets = re.findall(r'(?:href|src)="(/console/[^"]+)"', answer.text)
    assert len(assets) == 4
    for asset in [*assets, re.sub(r"/[^/]+$", "/client/index.js", assets[0])]:
        found = api.http.get(asset)
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]
        assert found.headers["x-content-type-options"] == "nosniff"
    for missing in (
        assets[0] + "x",
        "/console/0/app.js",
        "/console/" + assets[0].split("/")[2] + "/../app.py",
    ):
        found = httpx.get(api.url + missing, trust_env=False, follow_redirects=True)
        assert found.status_code == 404
    assert "//" not in re.sub(r"https?://www\.w3\.org/\S+", "", answer.text.replace(api.url, ""))


# -- live ------------------------------------------------------------------------------------------------------------
def test_a_subscription_is_written_described_started_and_moved(
    page: Page, stocks: Api, picture: Picture
) -> None:
    visit(page, stocks)
    page.get_by_label("Subscription, in SQL").fill(LOWEST + " AND sector = 'tech'")
    expect(page.locator("#described-type")).to_have_text("range-min")
    expect(page.locator("#described-filter")).to_contain_text("give :lo and :hi")
    page.locator(".write [name=lo]").fill("20")
    page.locator(".write [name=hi]").fill("40")
    described = page.locator("#described-filter")
    expect(described).to_contain_text("lo(risk) = 20, hi(risk) = 40")
    expect(described).to_contain_text("sector = tech")
    expect(described).to_contain_text("L < 20 ≤ l and r ≤ 40 < R")
    expect(page.locator(".becomes")).to_contain_text("reformulate, enumerate")
    page.get_by_label("Subscription, in SQL").press("Control+Enter")
    card = page.locator(".card")
    lowest = stocks.result(card.get_attribute("data-id") or "")["result"]["value"]
    expect(card.locator(".figure")).to_have_text(str(lowest).removesuffix(".0"))
    stocks.publish(
        "stocks", [{"op": "upsert", "row": {"symbol": "LOW", "sector": "tech", "risk": 30, "per": 0.5}}]
    )
    expect(card.locator(".figure.changed")).to_contain_text("0.5")
    expect(card.locator(".figure del")).to_have_text(str(lowest).removesuffix(".0"))
    picture(page, "console")
    card.locator("[name=hi]").fill("25")
    card.get_by_role("button", name="Move").click()
    expect(card.locator(".figure del")).to_have_text("0.5")
    card.get_by_role("button", name="Stop").click()
    expect(card).to_have_count(0)
    page.get_by_label("Subscription, in SQL").fill("SELECT COUNT(*) FROM stocks WHERE risk > :least")
    expect(page.locator("#described-filter")).to_contain_text("give :least")
    page.locator(".write [name=least]").fill("1000")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(card.locator(".figure")).to_have_text("0")


def test_a_query_that_is_not_served_says_why(page: Page, stocks: Api) -> None:
    visit(page, stocks)
    page.get_by_label("Subscription, in SQL").fill("SELECT MEDIAN(per) FROM stocks")
    expect(page.locator(".becomes .problem")).to_be_visible()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".outcome .problem")).to_be_visible()


def test_what_changed_is_marked_for_every_kind_of_answer(page: Page, api: Api) -> None:
    table = api.table({"k": "integer", "x": "integer", "s": "text"}, ["k"])
    other = api.table({"k": "integer", "note": "text"}, ["k"])
    api.publish(table, [{"op": "insert", "row": {"k": k, "x": k, "s": "a"}} for k in range(3)])
    queries = {
        "!rows": f"SELECT * FROM {table} WHERE x >= 0",
        "!values": f"SELECT DISTINCT s FROM {table}",
        "!items": f"SELECT x FROM {table} WHERE k IN (0, 1)",
        "!joined": f"SELECT * FROM {table} JOIN {other} USING (k) WHERE x >= 0",
    }
    ids = [
        api.subscribe(sql, id=id)["id"] for id, sql in queries.items()
    ]  # listed first: lists are sorted by id
    visit(page, api)
    page.get_by_text("Subscriptions of this server").click()
    lines = page.locator(".existing .line")
    for id in ids:
        lines.filter(has=page.get_by_text(id, exact=True)).get_by_role("button", name="Watch").click()
    rows, values, items, joined = (page.locator(f'[data-id="{id}"]') for id in ids)
    expect(rows.locator("tbody tr")).to_have_count(3)
    expect(items.locator("tbody tr")).to_have_count(2)
    api.publish(table, [{"op": "update", "key": {"k": 1}, "set": {"x": 9, "s": "<b>"}}])
    expect(rows.locator("tr.updated td.changed")).to_have_text(["9", "<b>"])
    expect(values.locator("li.added")).to_have_text("+<b>")
    expect(items.locator("tr.updated")).to_contain_text("9")
    api.publish(table, [{"op": "delete", "key": {"k": 1}}])
    expect(rows.locator("tr.removed td")).to_have_text(["−", "1", "9", "<b>"])
    expect(values.locator("li.removed")).to_have_text("−<b>")
    api.publish(table, [{"op": "insert", "row": {"k": 7, "x": 1, "s": None}}])
    expect(rows.locator("tr.added")).to_contain_text("NULL")
    api.publish(other, [{"op": "insert", "row": {"k": 7, "note": "seven"}}])
    expect(joined.locator("th")).to_have_text(
        ["", f"{table}.k", f"{table}.x", f"{table}.s", f"{other}.k", f"{other}.note"]
    )
    expect(joined.locator("tr.added")).to_contain_text("seven")
    api.publish(other, [{"op": "delete", "key": {"k": 7}}])
    expect(joined.locator("tr.removed")).to_contain_text("seven")
    rows.locator("summary").click()
    expect(rows.locator(".log li")).to_have_text([re.compile(r"\+1$"), re.compile("−1$"), re.compile("~1$")])
    rows.get_by_role("button", name="Suspend").click()
    expect(rows).to_have_class(re.compile("suspended"))
    with page.expect_response(lambda answer: answer.request.method == "DELETE") as deleted:
        rows.get_by_role("button", name="Delete").click()
    assert deleted.value.ok
    expect(rows).to_have_count(0)
    assert api.http.get(f"/v1/subscriptions/{ids[0]}").status_code == 404


# -- tables ----------------------------------------------------------------------------------------------------------
def test_tables_are_made_and_filled_by_form_and_by_file(page: Page, api: Api) -> None:
    visit(page, api, "tables")
    page.get_by_text("Create a table").click()
    page.get_by_label("Name").fill("cars")
    page.get_by_label("Columns, one per line").fill("plate text\nspeed integer\ncost numeric(8,2), note text")
    page.get_by_label("Primary key").fill("plate")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="cars")).to_be_visible()
    page.get_by_label("plate (key)").fill("A 1")
    page.get_by_label("speed").fill("50")
    page.get_by_role("button", name="Publish").click()
    expect(page.locator(".done")).to_contain_text("Committed as seq")
    page.get_by_label("speed").fill("fast")
    page.get_by_role("button", name="Publish").click()
    expect(page.locator(".problem")).to_contain_text("expected a whole number")
    content = 'plate,speed,cost,note\r\n"B, 2",70,1.50,"say ""hi"""\nC 3,,,\n'
    page.locator("input[type=file]").set_input_files(
        {"name": "cars.csv", "mimeType": "text/csv", "buffer": content.encode()}
    )
    expect(page.locator(".done")).to_contain_text("Committed 2 rows of cars.csv")
    found = api.subscribe("SELECT * FROM cars", durable=False)["result"]["rows"]
    assert sorted(found, key=lambda row: row["plate"]) == [
        {"plate": "A 1", "speed": 50, "cost": None, "note": None},
        {"plate": "B, 2", "speed": 70, "cost": "1.50", "note": 'say "hi"'},
        {"plate": "C 3", "speed": None, "cost": None, "note": None},
    ]
    page.locator("input[type=file]").set_input_files(
        {"name": "bad.csv", "mimeType": "text/csv", "buffer": b"plate,colour\nx,y\n"}
    )
    expect(page.locator(".problem")).to_contain_text("cars has no column colour")
    expect(page.locator('[data-rows="cars"]')).to_have_text("3")


def test_a_dropped_file_is_published(page: Page, api: Api) -> None:
    table = api.table({"k": "bigint", "ok": "boolean"}, ["k"])
    visit(page, api, "tables")
    page.get_by_role("button", name=table).click()
    expect(page.get_by_role("heading", name=table)).to_be_visible()
    data = page.evaluate_handle(
        """() => { const data = new DataTransfer();
        data.items.add(new File(["k;ok\\n9007199254740993;true\\n"], "big.csv")); return data; }"""
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": data})
    expect(page.locator(".done")).to_contain_text("Committed 1 rows of big.csv")
    rows = api.subscribe(f"SELECT * FROM {table}", durable=False)["result"]["rows"]
    assert rows == [{"k": 9007199254740993, "ok": True}]


# -- geometry --------------------------------------------------------------------------------------------------------
def test_the_geometry_of_an_event_is_drawn(page: Page, stocks: Api, picture: Picture) -> None:
    asked: list[Json] = []
    page.on(
        "request",
        lambda request: asked.append(request.post_data_json) if request.url.endswith("/geometry") else None,
    )
    visit(page, stocks, "geometry")
    expect(page.locator(".region rect").first).to_be_visible()
    panel = stocks.call("POST", "/v1/geometry", json=asked[-1])["panels"][0]
    boxes = sum(len(piece["boxes"]) for piece in panel["pieces"])
    assert boxes > 1, "a minimum that goes away exposes several others"
    expect(page.locator(".region rect")).to_have_count(boxes)
    expect(page.locator(".rows circle")).to_have_count(len(panel["rows"]))
    expect(page.locator(".points circle")).to_have_count(len(panel["points"]))
    affected = sum(piece["affected"] for piece in panel["pieces"])
    expect(page.locator(".points .affected")).to_have_count(affected)
    expect(page.locator(".mar.was rect")).to_be_visible()
    expect(page.locator(".words")).to_contain_text(
        f"for {affected} of {panel['points_in_all']} subscriptions"
    )
    picture(page, "geometry")
    page.get_by_role("button", name="Make it best").click()
    expect(page.locator(".mar.becomes rect")).to_be_visible()
    expect(page.locator(".region rect")).to_have_count(1)
    expect(page.locator(".words")).to_contain_text("one region, and so one message")
    page.locator(".movable").click(position={"x": 300, "y": 80})
    expect(page.locator(".words")).not_to_contain_text("one region, and so one message")
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator(".words")).to_contain_text("is deleted")
    assert stocks.call("GET", "/v1/status")["tables"]["stocks"] > 119, "nothing was applied"


# -- network ---------------------------------------------------------------------------------------------------------
def test_the_network_is_drawn_and_shows_what_was_sent(page: Page, stocks: Api) -> None:
    with stocks.socket() as socket:
        socket.attach(stocks.subscribe("SELECT * FROM stocks WHERE risk = 1")["id"])
        socket.pong()
        visit(page, stocks, "network")
        links = stocks.call("GET", "/v1/network")["links"]
        expect(page.locator(".links line")).to_have_count(len(links))
        sent = stocks.publish("stocks", [{"op": "upsert", "row": {"symbol": "NET", "risk": 1, "per": 3}}])
        expect(page.locator("#network-lead")).to_contain_text(f"the last message, seq {sent['last_seq']:,}")
        expect(page.locator(".links line.hot")).to_have_count(1)


def test_only_the_way_of_the_last_message_is_highlighted(page: Page, api: Api) -> None:
    carried = {
        ("server", "a"): 7,
        ("server", "b"): 9,
        ("b", "c"): 9,
        ("b", "d"): 8,
        ("c", "e"): 9,
        ("c", "f"): 0,
    }
    links = [
        {"from": one, "to": other, "messages": seq, "bytes": 10 * seq, "last_seq": seq}
        for (one, other), seq in carried.items()
    ]
    page.route("**/v1/network", lambda route: route.fulfill(json={"network": "tree", "links": links}))
    visit(page, api, "network")
    expect(page.locator(".links line.hot")).to_have_count(3)
    hot = page.locator(".links line.hot").evaluate_all("lines => lines.map(line => line.dataset.link)")
    assert hot == ["server→b", "b→c", "c→e"]
    lit = page.locator(".node.hot").evaluate_all("nodes => nodes.map(node => node.dataset.node)")
    assert sorted(lit) == ["b", "c", "e", "server"]


def test_429_brokers_are_drawn_apart(page: Page, api: Api) -> None:
    """A network of the size of [ProSem thesis]'s: every node is there, and no two lie on each other."""
    links = [
        {"from": f"b{(n - 1) // 4}" if n > 8 else "server", "to": f"b{n}", "messages": n, "bytes": 100 * n}
        for n in range(429)
    ]
    page.route("**/v1/network", lambda route: route.fulfill(json={"network": "many", "links": links}))
    visit(page, api, "network")
    expect(page.locator(".node")).to_have_count(430)
    circles: list[list[float]] = page.evaluate(
        "[...document.querySelectorAll('.node circle')].map(c => ['cx', 'cy', 'r'].map(n => Number(c.getAttribute(n))))"
    )
    near = [
        (a, b)
        for at, a in enumerate(circles)
        for b in circles[:at]
        if (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 < (a[2] + b[2]) ** 2 * 0.8
    ]
    assert near == []
    assert min(radius for _, _, radius in circles) >= 1.4


# -- optimizer -------------------------------------------------------------------------------------------------------
def test_charts_move_with_the_server(page: Page, stocks: Api) -> None:
    visit(page, stocks, "optimizer")
    expect(page.locator(".chart")).to_have_count(4)
    page.wait_for_timeout(1100)
    stocks.publish(
        "stocks", [{"op": "update", "key": {"symbol": "S1"}, "set": {"per": 5 + n}} for n in range(9)]
    )
    path = page.locator(".chart").first.locator("path").first
    expect(path).to_have_attribute("d", re.compile("L"))
    expect(page.locator(".chart").nth(2)).to_contain_text(re.compile(r"B / event.* messages / event"))


def test_weights_are_sliders_in_force_at_once(page: Page, stocks: Api) -> None:
    before = stocks.call("GET", "/v1/optimizer/weights")
    visit(page, stocks, "optimizer")
    knob = page.get_by_label("Bandwidth", exact=True)
    expect(knob).to_have_value(f"{before['bandwidth']:g}")
    knob.focus()
    with page.expect_response(lambda answer: answer.request.method == "PUT") as put:
        knob.press("ArrowLeft")
    assert put.value.ok
    after = stocks.call("PUT", "/v1/optimizer/weights", json={})
    assert after["bandwidth"] == pytest.approx(float(knob.input_value()))
    assert after["bandwidth"] < before["bandwidth"]
    assert after | {"bandwidth": 0} == before | {"bandwidth": 0}
    stocks.call("PUT", "/v1/optimizer/weights", json=before)


def test_an_event_is_explained_and_decisions_are_listed(page: Page, stocks: Api) -> None:
    event: Json = {"op": "upsert", "row": {"symbol": "S1", "sector": "tech", "risk": 30, "per": 0.25}}
    stocks.table({"sector": "text", "region": "text"}, ["sector"], "sectors")
    stocks.publish("sectors", [{"op": "insert", "row": {"sector": "tech", "region": "EU"}}])
    joins = "SELECT * FROM stocks JOIN sectors USING (sector) WHERE risk < 50"
    join = stocks.subscribe(joins)["id"]
    groups = stocks.call("POST", "/v1/explain", json={"table": "stocks", "event": event})["groups"]
    visit(page, stocks, "optimizer")
    page.get_by_label("Table").select_option("stocks")
    page.get_by_label("Event", exact=True).fill(json.dumps(event))
    page.get_by_label("measure it too").check()
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".plan-group")).to_have_count(len(groups))
    expect(page.locator(".plans tr.chosen")).to_have_count(len(groups))
    for group in groups:
        drawn = page.locator(".plan-group", has_text=group["group"])
        expect(drawn.locator("tbody tr")).to_have_count(len(group["plans"]))
        expect(drawn.locator("tr.chosen")).to_contain_text(group["chosen"])
        expect(drawn.locator(".reasons")).to_contain_text(group["plans"][0]["statistic"])
        expect(drawn.locator(".reasons")).to_contain_text(f"per subscription: {group['order']['statistic']}")
    joined = page.locator(".plan-group", has_text="join")
    expect(joined.locator(".reasons")).to_contain_text("routing columns stocks.risk: one column")
    expect(joined.locator(".reasons")).to_contain_text(
        "reduced stocks by sectors, sectors by stocks: one neighbour"
    )
    expect(page.locator(".measured").first).to_contain_text("measured")
    stocks.publish("stocks", [event])
    expect(page.locator(".decisions tbody tr").first).to_be_visible()
    page.get_by_label("Event", exact=True).fill("{")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".plans .problem")).to_contain_text("not JSON")
    stocks.call("DELETE", f"/v1/subscriptions/{join}")
    stocks.call("DELETE", "/v1/tables/sectors")


def test_a_server_without_these_routes_is_no_fault(page: Page, api: Api) -> None:
    """An older server, or one in front of which not all routes are open."""
    missing = {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "not found"}
    for route in ("explain", "geometry", "describe", "network", "optimizer/**"):
        page.route(f"**/v1/{route}", lambda found: found.fulfill(status=404, json=missing))
    visit(page, api, "optimizer")
    expect(page.locator(".knobs .notice")).to_contain_text("no weights to set")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".plans .notice")).to_contain_text("does not explain")
    visit(page, api, "network")
    expect(page.locator(".graph .notice")).to_contain_text("does not show")
    visit(page, api)
    page.get_by_label("Subscription, in SQL").fill("SELECT COUNT(*) FROM stocks")
    expect(page.locator(".becomes")).to_contain_text("does not describe")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".card .figure")).not_to_be_empty()


# -- for everybody ---------------------------------------------------------------------------------------------------
def test_keys_and_theme(page: Page, stocks: Api) -> None:
    visit(page, stocks)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    for number, view in enumerate(PARTS, 1):
        page.keyboard.press(str(number % 10))
        expect(page.locator("nav a[aria-current]")).to_have_text(view.capitalize())
    page.keyboard.press("n")
    expect(page.locator("#sql")).to_be_focused()
    page.keyboard.type("t?5")
    expect(page.locator("#sql")).to_have_value("t?5")
    page.locator("#sql").blur()
    paper = lambda: page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    light = paper()
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert paper() != light
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 390])
def test_every_part_fits_and_names_its_controls(page: Page, stocks: Api, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    for view in PARTS:
        visit(page, stocks, view)
        page.wait_for_timeout(400)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        nameless: list[Any] = page.evaluate(
            """() => [...document.querySelectorAll("button, input, select, textarea")]
            .filter(control => control.checkVisibility())
            .filter(control => !(control.textContent.trim() && control.tagName === "BUTTON") &&
                !control.ariaLabel && !control.labels?.length).map(control => control.outerHTML)"""
        )
        assert nameless == [], view


@pytest.mark.slow
def test_the_console_finds_its_way_back_to_a_restarted_server(
    page: Page, api: Api, process: ServerProcess
) -> None:
    table = api.table({"k": "integer"}, ["k"])
    visit(page, api)
    page.get_by_label("Subscription, in SQL").fill(f"SELECT COUNT(*) FROM {table}")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".figure")).to_have_text("0")
    api.publish(table, [{"op": "insert", "row": {"k": 1}}])
    expect(page.locator(".figure.changed")).to_contain_text("1")
    url = process.url
    process.stop()
    expect(page.locator("#connection")).to_have_text("disconnected")
    process.options = (*process.options, "--port", url.rsplit(":", 1)[1])  # the same address
    process.start(wait=False)
    process.url = url
    process.wait_ready()
    api.publish(table, [{"op": "insert", "row": {"k": 2}}])
    expect(page.locator(".figure")).to_contain_text("2")
    expect(page.locator("#connection")).to_have_text("connected")
