"""Backtests as jobs of a server: what is refused at once, who sees them, and their end; with Spark where that is marked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from playwright.sync_api import Page, expect

from api.http.models.operation_responses import BacktestDescription, BacktestedSubscriptions, BacktestList
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.statistics import archive_id
from tests.api.test_console import ARGUMENTS, browser, page, visit
from tests.support.database import empty_database
from tests.support.live import Api, Refused, upsert
from tests.support.processes import ServerProcess, open_folder
from tests.support.secured import Keyed
from tests.support.waiting import until

QUERY = "SELECT x FROM moved WHERE k = :k"
DAY = datetime.now(UTC).date() - timedelta(days=2)


__all__ = ["ARGUMENTS", "browser", "page"]


class World:
    """A server whose log has forty moves of two items, ten minutes apart."""

    def __init__(self, url: str, archive: Path) -> None:
        self.url, self.archive = url, archive
        self.server = ServerProcess(
            "--database", url, "--archive", str(archive), "--spark-master", "local[2]"
        )
        self.api = Api(self.server.start())
        self.api.table({"k": "integer", "x": "integer"}, ["k"], "moved")
        for at in range(40):
            self.api.publish("moved", [upsert(k=at % 2, x=at * (1 + at % 2))])
        with psycopg.connect(url) as connection:
            connection.execute(
                "UPDATE prosem.event_log SET at = %s::timestamptz + seq * interval '10 minutes'",
                [f"{DAY}T00:00:00Z"],
            )

    def asked(self, **rest: Any) -> Any:
        made = self.api.call("POST", "/v1/backtests", json={"sql": QUERY, "params": {"k": 1}, **rest})
        msgspec.convert(made, BacktestDescription)
        return made

    def over(self, id: str) -> Any:
        until(lambda: self.look(id)["state"] not in ("queued", "running"), 300)
        return self.look(id)

    def page(self, id: str, asked: str = "") -> Any:
        found = self.api.call("GET", f"/v1/backtests/{id}/subscriptions{asked}")
        msgspec.convert(found, BacktestedSubscriptions)
        return found

    def look(self, id: str) -> Any:
        found = self.api.call("GET", f"/v1/backtests/{id}")
        msgspec.convert(found, BacktestDescription)
        return found


@pytest.fixture(scope="module")
def world(postgres: EmbeddedPostgres) -> Iterator[World]:
    url = empty_database(postgres)
    schema.migrate(url)
    made = World(url, open_folder("prosem-archive-") / "archive")
    yield made
    made.api.http.close()
    made.server.remove()


@pytest.fixture(scope="module")
def api(world: World) -> Api:
    return world.api


def refused(world: World, **rest: Any) -> tuple[int, Any]:
    with pytest.raises(Refused) as caught:
        world.asked(**rest)
    errors = caught.value.problem.get("errors")
    return caught.value.status, errors[0]["at"] if errors else caught.value.problem["detail"]


def test_what_cannot_be_asked_is_refused_at_once(world: World) -> None:
    status, detail = refused(world)
    assert status == 409
    assert "prosem stats refresh fills it" in detail
    assert refused(world, sql="SELECT x FROM absent")[0] == 422
    assert refused(world, since="yesterday") == (422, "/since")
    assert refused(world, since="2999-01-01") == (422, "/since"), "in the future"
    assert refused(world, since="9999999d") == refused(world, since=f"{'9' * 5_000}d") == (422, "/since")
    assert refused(world, since="20000d") == (422, "/since"), "each subscription has a count for each day"
    assert refused(world, params={}) == refused(world, params={"k": "x"}) == (422, "/params")
    assert refused(world, params={"k": 1, "j": 1}) == (422, "/params"), "no such parameter"
    assert refused(world, params=None, subscriptions=[{"k": 1}, {}]) == (422, "/subscriptions/1")
    assert refused(world, per_day=5) == (422, "/per_day"), "there is neither a radius nor a threshold"
    assert refused(world, per_day=5, tune="k") == refused(world, per_day=5, tune="j") == (422, "/tune")
    assert refused(world, per_day=5, notify={"may": 1, "must": 2}) == (422, "/notify")
    assert refused(world, per_day=5, notify={"change": 1})[0] == 409, "the radius is what is to be found"
    threshold = "SELECT k FROM moved WHERE x > :x AND k > :k"
    assert refused(world, sql=threshold, per_day=5) == (422, "/per_day"), "there are two"
    assert refused(world, sql=threshold, per_day=5, tune="x")[0] == 409
    assert refused(world, notify={"change": -1}) == (422, "/notify/change")
    assert refused(world, tune="k") == (422, "/tune")
    assert refused(world, subscriptions=[]) == (422, "/subscriptions")
    assert refused(world, subscriptions=[3]) == (422, "/subscriptions/0")
    assert refused(world, per_day=-1) == refused(world, per_day=0) == (422, "/per_day")
    assert world.api.call("GET", "/v1/backtests") == {"backtests": []}


@pytest.mark.slow
def test_a_process_that_cannot_go_on_fails_its_job_and_the_next_runs(world: World) -> None:
    """The archive has the folder of this database and nothing in it: Spark starts, and finds that out."""
    pytest.importorskip("pyspark")
    (world.archive / archive_id(world.url)).mkdir(parents=True)
    first, second = world.asked()["id"], world.asked()["id"]
    shown = world.api.call("GET", "/v1/backtests")
    listed = shown["backtests"]
    msgspec.convert(shown, BacktestList)  # as the OpenAPI document says
    assert [one["id"] for one in listed] == [second, first], "newest first"
    until(lambda: world.look(first)["steps"] == ["starting Spark"], 300)
    gone = world.api.call("DELETE", f"/v1/backtests/{first}")
    assert gone["state"] == "cancelled"
    with pytest.raises(Refused):
        world.look(first)
    failed = world.over(second)
    assert failed["state"] == "failed", "it began once the other was killed"
    assert "holds no tables: prosem stats refresh fills it" in failed["error"]
    assert failed["result"] is None


@pytest.mark.slow
def test_a_backtest_counts_what_a_server_would_have_notified(world: World) -> None:
    from pipeline.statistics.job import Options, refresh

    refresh(Options(world.url, str(world.archive), "local[2]", quiet=True))
    subscriptions = [{"k": 0}, {"k": 1}, {"k": 7}]
    job = world.asked(subscriptions=subscriptions, params=None, notify={"change": 8})
    assert job["subscriptions"] == 3
    done = world.over(job["id"])
    assert (done["state"], done["error"]) == ("done", None)
    assert done["steps"] == ["starting Spark", "looking for the period", "taking the log"]
    assert 0 <= done["progress"]["done"] <= done["progress"]["total"], "of the last step"
    result = done["result"]
    notifications = {one["params"]["k"]: one["notifications"] for one in result["most_notified"]}
    assert notifications == {0: 5, 1: 10, 7: 0}, (
        "each fourth move of k = 0 and each second of k = 1, and the first of both"
    )
    assert result["notifications"] == 15 == sum(one["notifications"] for one in result["per_day"])
    assert result["per_day"] == [{"day": str(DAY), "notifications": 15}]
    assert len(result["per_hour"]) == 24
    check_pages(world, job["id"], result)
    found = world.over(world.asked(notify={"change": 1}, per_day=40)["id"])
    assert found["error"] is None
    tuned = found["result"]["suggestions"]
    assert tuned["parameter"] == "radius"
    assert tuned["values"][0]["per_day"] > 0
    (one,) = world.page(found["id"])["subscriptions"]
    assert one["suggested"] == tuned["values"][0]["value"] == one["params"]["radius"]
    threshold = world.asked(sql="SELECT k, x FROM moved WHERE x > :limit", params=None, per_day=40)
    (tried,) = world.over(threshold["id"])["result"]["suggestions"]["values"]
    assert tried["per_day"] == pytest.approx(40, rel=0.2), "of 40 moves in a third of a day"


def check_pages(world: World, id: str, result: Any) -> None:
    """All subscriptions, one by one and at once."""
    whole = world.page(id)
    assert (whole["days"], whole["next"]) == ([str(DAY)], None)
    assert [(one["params"], one["notifications"]) for one in whole["subscriptions"]] == [
        ({"k": 0}, 5), ({"k": 1}, 10), ({"k": 7}, 0),
    ]  # fmt: skip
    for one in whole["subscriptions"]:
        assert one["by_day"] == [one["notifications"]]
        assert sum(one["by_hour"]) == one["notifications"]
    hours = [sum(some) for some in zip(*(one["by_hour"] for one in whole["subscriptions"]), strict=True)]
    assert hours == [one["notifications"] for one in result["per_hour"]]
    pages = [world.page(id, f"?after={after}&limit=1") for after in (-1, 0, 1)]
    assert [page["subscriptions"] for page in pages] == [[one] for one in whole["subscriptions"]]
    assert [page["next"] for page in pages] == [0, 1, None]
    with pytest.raises(Refused):
        world.page(id, "?limit=0")


@pytest.mark.slow
def test_the_form_of_a_subscription_says_how_often_it_would_have_fired(page: Page, world: World) -> None:
    """After the test before it, which fills the archive."""
    visit(page, world.api, "live")
    page.get_by_label("Subscription, in SQL").fill("SELECT x FROM moved WHERE k = 1")
    page.get_by_role("button", name="How often in the last 30 days?").click()
    expect(page.locator(".backtest progress")).to_be_visible(timeout=300_000)
    expect(page.locator("#fired")).to_contain_text("It would have fired 20 times in", timeout=300_000)
    page.get_by_text("per day", exact=True).click()
    days = page.locator(".bars").first
    expect(days.locator(f"dt:text('{DAY}') + dd")).to_have_text("20")
    expect(days.locator("dd").first).to_have_text("0")
    assert days.locator("dt").count() > 20, "days without notifications too"


def test_the_form_says_what_is_missing(page: Page, world: World) -> None:
    visit(page, world.api, "live")
    page.get_by_label("Subscription, in SQL").fill("SELECT x FROM absent")
    page.get_by_role("button", name="How often in the last 30 days?").click()
    expect(page.locator(".backtest .problem")).to_contain_text("there is no table absent")


def test_other_tenants_and_keys_of_some_rows_have_no_part_in_it(world: World) -> None:
    """The last test of this server: afterwards it needs keys."""
    (world.archive / archive_id(world.url)).mkdir(parents=True, exist_ok=True)
    job = world.asked()["id"]
    admin = Keyed(world.api.url).make_key("admin", "subscriber")
    thief = admin.make_key("admin", "subscriber", tenant="thief")
    some = admin.make_key("subscriber", rows={"moved": "x = 5"})
    body = {"sql": QUERY, "params": {"k": 1}}
    assert admin.status("GET", f"/v1/backtests/{job}/subscriptions") == 409, "not while there is no result"
    for method, path in (("GET", f"/{job}"), ("GET", f"/{job}/subscriptions"), ("DELETE", f"/{job}")):
        assert thief.status(method, f"/v1/backtests{path}") == 404
        assert some.status(method, f"/v1/backtests{path}") == 403
    assert thief.call("GET", "/v1/backtests") == {"backtests": []}
    assert some.status("POST", "/v1/backtests", json=body) == 403
    assert admin.make_key("publisher").status("POST", "/v1/backtests", json=body) == 403
    assert admin.call("DELETE", f"/v1/backtests/{job}")["id"] == job
