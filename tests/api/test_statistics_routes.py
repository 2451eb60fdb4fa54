"""The statistics in force over HTTP, in the metrics and on the command line, from a run that was written to the database."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import msgspec
import pytest

from api.http.models import operation_responses as o
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from tests.support.command_line import run
from tests.support.database import empty_database
from tests.support.live import Api, Refused, upsert
from tests.support.processes import ServerProcess
from tests.support.secured import Keyed
from tests.support.statistics_runs import column, join, make_run, point
from tests.support.waiting import until

ROOT = "/v1/optimizer/statistics"
HOT = [*range(30), *[30] * 33, 31, 99]


@pytest.fixture(scope="module")
def url(postgres: EmbeddedPostgres) -> str:
    found = empty_database(postgres)
    schema.migrate(found)
    return found


@pytest.fixture(scope="module")
def api(url: str) -> Iterator[Api]:
    server = ServerProcess("--database", url)
    try:
        with Api(server.start()) as made:
            made.table({"k": "integer", "x": "integer", "e": "text"}, ["k"], "r")
            made.table({"k": "integer", "z": "jsonb"}, ["k"], "s")
            yield made
    finally:
        server.remove()


def check_models(api: Api, group: str) -> None:
    """The responses are as the OpenAPI document says."""
    for path, kind in (
        ("", o.StatisticsRun),
        ("/tables", o.TableFiguresList),
        ("/tables/r", o.TableFigures),
        ("/tables/r/columns/x", o.ColumnHistogram),
        ("/tables/s/columns/z", o.ColumnHistogram),
        ("/joins", o.JoinFiguresList),
        ("/groups", o.GroupFiguresList),
        (f"/groups/{group}", o.GroupFigures),
    ):
        msgspec.convert(api.call("GET", ROOT + path), kind)


def refused(api: Api, path: str) -> int:
    with pytest.raises(Refused) as caught:
        api.call("GET", path)
    return caught.value.status


def test_without_a_run_there_is_nothing_to_show(api: Api, url: str) -> None:
    shown = api.call("GET", ROOT)
    assert (shown["run"], shown["entries"], shown["stale"], shown["arrangements"]) == (None, {}, [], [])
    assert api.call("GET", f"{ROOT}/tables") == {"tables": []}
    assert api.call("GET", f"{ROOT}/joins") == {"joins": []}
    assert api.call("GET", f"{ROOT}/groups") == {"groups": []}
    assert refused(api, f"{ROOT}/tables/r") == refused(api, f"{ROOT}/tables/absent") == 404
    assert "\nprosem_statistics_age_seconds " not in api.http.get("/metrics").text
    assert "no run is active" in run("stats", "show", "--database", url).stdout


def test_a_run_is_shown_by_table_column_join_and_group(api: Api, url: str) -> None:
    group = api.subscribe("SELECT MIN(x) FROM r WHERE k >= :lo", {"lo": 3})["group"]
    stale = api.subscribe("SELECT MAX(x) FROM r WHERE k >= :lo", {"lo": 3})["group"]
    estimate = (1.0, 1.0, 10.0, 0.0, 5.0)
    number = make_run(
        url,
        [column(1, 1, "x", "integer", HOT, hot=[(30, 0.5)]),
         column(1, 2, "e", "text", ["", "a", "zz"]), column(2, 1, "z", "jsonb", None)],
        [point(1, "k >=", [3, 3], 1), point(2, "k >=", [1, 2, 3], 900)],
        [join((1, "k"), (2, "k"), (0.75, 0.25), (2.0, 1.0), (1.5, 1.0))],
        [(one, 0, "reformulate", [1.0, 1.0], *estimate) for one in (1, 2)],
    )  # fmt: skip
    until(lambda: api.call("GET", ROOT)["run"] == number)
    shown = api.call("GET", ROOT)
    assert shown["entries"] == {group: {"reformulate": 1}}
    assert shown["stale"] == [stale], "900 subscriptions then, one now"
    tables = api.call("GET", f"{ROOT}/tables")["tables"]
    assert [(one["name"], one["events"]) for one in tables] == [("r", 1_000), ("s", 1_000)]
    assert api.call("GET", f"{ROOT}/tables/r") == tables[0]
    x = api.call("GET", f"{ROOT}/tables/r/columns/x")
    assert x["histogram"] == HOT
    assert x["hot_keys"] == [{"value": 30, "share": 0.5}]
    assert (x["distinct_values"], x["update_rate"], x["nulls"], x["rank_error"]) == (50, 0.25, 10, 0.002)
    assert api.call("GET", f"{ROOT}/tables/s/columns/z")["histogram"] is None
    assert refused(api, f"{ROOT}/tables/r/columns/absent") == refused(api, f"{ROOT}/groups/absent") == 404
    (edge,) = api.call("GET", f"{ROOT}/joins")["joins"]
    assert edge["r"] == {
        "table": "r", "columns": ["k"], "event_share": 0.75, "rows_per_key": 2.0, "keys": 9, "skew": 1.5,
    }  # fmt: skip
    groups = {one["name"]: one for one in api.call("GET", f"{ROOT}/groups")["groups"]}
    assert {name: one["is_stale"] for name, one in groups.items()} == {group: False, stale: True}
    assert groups[stale] == api.call("GET", f"{ROOT}/groups/{stale}")
    check_models(api, stale)
    (dimension,) = groups[stale]["dimensions"]
    assert (dimension["dimension"], dimension["subscriptions"], dimension["histogram"]) == (
        "k >=",
        900,
        [1, 2, 3],
    )


def test_the_metrics_have_the_age_of_the_run_and_the_error_of_estimates(api: Api) -> None:
    age = api.metric("prosem_statistics_age_seconds")
    assert 0 <= age < 3_600
    numbers = count()

    def is_estimated() -> bool:  # how many events are measured depends on how busy the machine is
        for at in islice(numbers, 40):
            api.publish("r", [upsert(k=at, x=-at, e="")])
        return 'prosem_estimate_error_ratio{metric="server_time"}' in api.http.get("/metrics").text

    until(is_estimated)
    shown = api.call("GET", ROOT)["estimate_errors"]
    assert shown["server_time"] >= 1


def test_the_command_shows_the_run(api: Api, url: str) -> None:
    shown = run("stats", "show", "--database", url).stdout
    for text in ("r.x", "25.0%", "30 ≥ 50%", "s (k)", "75.0%", "k >=", "900"):
        assert text in shown, text
    only = run("stats", "show", "s", "--database", url).stdout
    assert "s.z" in only
    assert "r.x" not in only
    wrong = run("stats", "show", "absent", "--database", url)
    assert wrong.returncode == 1
    assert "knows no table 'absent'" in wrong.stderr


def test_other_tenants_and_keys_of_some_rows_see_nothing(api: Api) -> None:
    """The last test of this server: afterwards it needs keys."""
    admin = Keyed(api.url).make_key("admin")
    thief = admin.make_key("admin", tenant="thief")
    for path in ("tables", "joins", "groups"):
        assert admin.call("GET", f"{ROOT}/{path}")[path]
        assert thief.call("GET", f"{ROOT}/{path}") == {path: []}
    assert thief.status("GET", f"{ROOT}/tables/r") == thief.status("GET", f"{ROOT}/tables/r/columns/x") == 404
    assert thief.call("GET", ROOT)["stale"] == []
    some = admin.make_key("subscriber", rows={"r": "x = 5"})
    for path in ("/tables", "/tables/r", "/tables/r/columns/x", "/joins", "/groups"):
        assert some.status("GET", ROOT + path) == 403, path
