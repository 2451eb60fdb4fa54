"""The documentation's site: every link leads somewhere, search finds words, and a reader's browser asks no other host."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("mkdocstrings")

from playwright.sync_api import BrowserContext, expect

from api import VERSION
from docs import site
from tests.api.test_console import browser

__all__ = ["browser"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MkDocs is strict: a dead link, a missing anchor or a page outside the menu fails it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "0.0.9").mkdir()
    (folder / "0.0.9" / "index.html").touch()
    assert site.main(folder) == 0
    return folder


@pytest.mark.slow
def test_versions_are_listed_newest_first(built: Path) -> None:
    listed = json.loads((built / "versions.json").read_text())
    assert [one["version"] for one in listed] == [VERSION, "0.0.9"]
    assert f"url={VERSION}/index.html" in (built / "index.html").read_text()


def test_the_references_have_every_route_and_the_calls_of_the_client(built: Path) -> None:
    document = json.loads((built / VERSION / "reference" / "openapi.json").read_text())
    text = (built / VERSION / "reference" / "http-api.html").read_text()
    for path, operations in document["paths"].items():
        for method in operations:
            assert f"{method.upper()} {path}" in re.sub(r"<[^>]+>", "", text)
    python = (built / VERSION / "reference" / "python.html").read_text()
    for name in ("Client.subscribe", "Client.dataframe", "AsyncClient.publish", "PinnedVariable"):
        assert f'id="prosem_client.{name}"' in python


@pytest.fixture
def served(built: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(built))) as http:
        threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def test_search_finds_a_page_and_no_other_host_is_asked(served: str, browser: BrowserContext) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(served)
    expect(page.locator(".md-version__current")).to_have_text(VERSION)
    page.locator(".md-search__input").fill("webhook signature")
    result = page.locator(".md-search-result__link").first
    expect(result).to_contain_text("ebhook")
    page.goto(str(result.evaluate("link => link.href")))
    expect(page.locator("h1")).to_contain_text("ebhook")
    assert [url for url in asked if not url.startswith((served, "data:", "blob:"))] == []
    page.close()
