"""@prosem/react in a real browser against a real server, rendered on a server, and compiled."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.api.test_console import api, browser, page, process, visit
from tests.support.live import Api, Json, insert, update
from tests.support.processes import ServerProcess
from tests.support.waiting import until

__all__ = ["api", "browser", "page", "process", "visit"]

REACT = Path(__file__).parents[2] / "clients" / "react"
BIN = REACT / "node_modules" / ".bin"
pytestmark = pytest.mark.skipif(
    not (REACT / "node_modules" / "react-dom").is_dir(), reason="React is not installed: make tools does it"
)


def _bundle(name: str, target: Path, *options: str) -> str:
    subprocess.run(
        [BIN / "esbuild", f"test/{name}", "--bundle", "--jsx=automatic", "--log-level=error",
         "--alias:@prosem/react=./src/index.js", f"--outfile={target}", *options],
        cwd=REACT, check=True,
    )  # fmt: skip
    return target.read_text()


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _bundle("page.jsx", tmp_path_factory.mktemp("react") / "page.js", "--format=iife")


def test_components_show_answers_that_stay_current(
    page: Page, api: Api, process: ServerProcess, script: str
) -> None:
    table = api.table({"k": "integer", "x": "integer", "y": "integer"}, ["k"])
    view = f"{table}_by_x"
    api.call(
        "POST", "/v1/views", json={"name": view, "sql": f"SELECT x, COUNT(*) AS n FROM {table} GROUP BY x"}
    )
    api.publish(table, [insert(k=1, x=5, y=50), insert(k=2, x=50, y=3)])
    moved: list[str] = []
    made: list[str] = []
    sockets: list[str] = []
    page.on("request", lambda request: moved.append(request.url) if request.method == "PATCH" else None)
    page.on(
        "request",
        lambda request: (
            made.append(request.post_data or "") if request.url.endswith("/v1/subscriptions") else None
        ),
    )
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto(f"{api.url}/healthz?table={table}&view={view}")
    page.evaluate("document.body.innerHTML = '<div id=root></div>'")
    page.evaluate(script)

    lowest = page.locator("#lowest")
    expect(lowest).to_have_text("50")
    expect(page.locator("#count")).to_have_text("2")
    expect(page.locator("#rows li")).to_have_text(["5: 1", "50: 1"])
    expect(page.locator("#error")).to_contain_text("MEDIAN is not supported")
    api.publish(table, [update(1, y=40)])
    expect(lowest).to_have_text("40")
    page.get_by_role("button", name="wider").click()
    expect(lowest).to_have_text("3")
    assert len(moved) == 1, "other parameters move the subscription"
    near = page.locator("#near")
    expect(near).to_have_text("1")
    page.get_by_role("button", name="drive").click()
    expect(near).to_have_text("2")
    assert len([sql for sql in made if ":end_1 AND :end_2" in sql]) == 1, "under an update monitor"
    page.get_by_role("button", name="add").click()
    expect(lowest).to_have_text("-7")
    expect(page.locator("#again")).to_have_text("3")
    assert len([sql for sql in made if "COUNT(*) FROM" in sql]) == 1, "two components share a subscription"
    assert len(sockets) == 1, "one socket for all"
    shown = page.evaluate("shown().filter((value, at, all) => value !== all[at - 1])")
    assert shown == ["loading", 50, 40, 3, -7], "no answer is shown twice or out of order"

    url = process.url
    process.stop()
    process.options = (*process.options, "--port", url.rsplit(":", 1)[1])
    process.start(wait=False)
    process.url = url
    process.wait_ready()
    api.publish(table, [update(2, y=-9)])
    expect(lowest).to_have_text("-9")
    shown = page.evaluate("shown().filter((value, at, all) => value !== all[at - 1])")
    assert shown == ["loading", 50, 40, 3, -7, -9], "a lost connection shows nothing else"
    page.get_by_role("button", name="close").click()
    until(lambda: not _made(api, "MIN(y)"), what="the subscription of a component ends with it")
    assert _made(api, "COUNT(*)")


def _made(api: Api, part: str) -> list[Json]:
    found = api.call("GET", "/v1/subscriptions?limit=1000")["subscriptions"]
    return [subscription for subscription in found if part in subscription["sql"]]


def test_nothing_is_opened_on_a_server(tmp_path: Path) -> None:
    made = tmp_path / "server.cjs"
    _bundle("server.jsx", made, "--platform=node", "--format=cjs")
    done = subprocess.run(["node", made], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "<b>loading</b>"


@pytest.mark.slow
def test_types() -> None:
    done = subprocess.run([BIN / "tsc", "-p", "."], cwd=REACT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
