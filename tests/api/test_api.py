"""The rim of a server: health, status, metrics, documentation, problem documents, and starts that are refused."""

from __future__ import annotations

import signal
from typing import Any

import httpx
import pytest

from api import VERSION
from prosem.store.embedded import EmbeddedPostgres
from tests.support.command_line import run
from tests.support.database import empty_database
from tests.support.live import Api, Refused, insert
from tests.support.processes import BOOT_S, ServerProcess
from tests.support.waiting import until

COLUMNS = {"k": "integer", "x": "integer", "y": "double precision"}


# -- operating ---------------------------------------------------------------------------------------------
def test_health(api: Api) -> None:
    assert api.call("GET", "/healthz") == "ok\n"
    assert api.call("GET", "/readyz") == "ready\n"


def test_status(api: Api) -> None:
    before = api.call("GET", "/v1/status")
    table = api.table(COLUMNS, ["k"])
    done = api.publish(table, [insert(k=k, x=k, y=0.5) for k in range(3)])
    api.subscribe(f"SELECT MAX(y) FROM {table} WHERE x < :x", {"x": 3})
    status = api.call("GET", "/v1/status")
    assert status["version"] == VERSION
    assert status["ready"] is True
    assert status["seq"] == done["last_seq"]
    assert status["tables"][table] == 3
    assert status["subscriptions"]["total"] == before["subscriptions"]["total"] + 1
    assert status["subscriptions"]["by_type"]["range-max"] >= 1
    assert status["groups"] == before["groups"] + 1
    assert status["backlog"] == 0
    assert status["uptime_s"] > 0
    assert status["network"]
    groups = api.call("GET", "/v1/groups")["groups"]
    assert any(table in group["template"] and group["subscriptions"] == 1 for group in groups)


METRICS = {
    "prosem_ready": "gauge", "prosem_seq": "gauge", "prosem_backlog": "gauge", "prosem_attached": "gauge",
    "prosem_subscriptions": "gauge", "prosem_rows": "gauge", "prosem_process_peak_memory_bytes": "gauge",
    "prosem_process_cpu_seconds": "counter", "prosem_events": "counter", "prosem_commits": "counter",
    "prosem_commit_seconds": "counter", "prosem_loop_late_seconds": "histogram",
    "prosem_changes": "counter", "prosem_changes_replayed": "counter",
    "prosem_lagging": "counter", "prosem_outbox_messages": "counter", "prosem_plan_cpu_seconds": "counter",
    "prosem_plan_runs": "counter", "prosem_index_visits": "counter",
}  # fmt: skip


def test_metrics(api: Api) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    table = api.table(COLUMNS, ["k"])
    api.subscribe(f"SELECT MIN(y) FROM {table} WHERE x BETWEEN 0 AND 9")
    messages, events = api.metric("prosem_outbox_messages_total"), api.metric("prosem_events_total")
    api.publish(table, [insert(k=1, x=1, y=1.0), insert(k=2, x=1, y=0.5), insert(k=3, x=99, y=0)])
    assert api.metric("prosem_outbox_messages_total") >= messages + 2
    assert api.metric("prosem_events_total") == events + 3
    answer = api.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert {name: families[name].type for name in METRICS} == METRICS
    assert all(family.documentation for family in families.values())
    assert {sample.labels["table"]: sample.value for sample in families["prosem_rows"].samples}[table] == 3


def test_documentation(api: Api) -> None:
    page = api.call("GET", "/docs")
    assert "/openapi.json" in page
    assert "://" not in page, "everything comes from this server"
    assert api.http.get("/", follow_redirects=True).status_code == 200
    document = api.call("GET", "/openapi.json")
    assert document["openapi"].startswith("3.")
    assert document["info"]["version"] == VERSION
    wanted = {
        "/v1/tables": {"get", "post"}, "/v1/subscriptions": {"get", "post"}, "/v1/subscriptions/batch": {"post"},
        "/v1/types": {"get"}, "/v1/status": {"get"}, "/v1/network": {"get"}, "/metrics": {"get"}, "/healthz": {"get"},
        "/readyz": {"get"},
    }  # fmt: skip
    for path, methods in wanted.items():
        assert document["paths"][path].keys() >= methods, path
    names = [
        operation["operationId"]
        for path in document["paths"].values()
        for method, operation in path.items()
        if method in ("get", "put", "post", "patch", "delete")
    ]
    assert len(names) == len(set(names))
    check_references(document, document)
    for method, path in (("post", "/v1/tables"), ("post", "/v1/subscriptions")):
        body = document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
        assert body["required"]
        assert body["example"]


def check_references(node: Any, document: dict[str, Any]) -> None:
    """Every `$ref` leads somewhere, and every operation says what it answers."""
    if isinstance(node, list):
        for item in node:
            check_references(item, document)
    elif isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            target: Any = document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
        if "operationId" in node:
            assert node["summary"]
            assert node["responses"]
        for item in node.values():
            check_references(item, document)


def test_types_network_and_weights_are_described(api: Api) -> None:
    types = api.call("GET", "/v1/types")["types"]
    assert {kind["name"] for kind in types} >= {"range-min", "range-max", "filter"}
    for kind in types:
        assert kind.keys() >= {"name", "sql", "notify", "messages", "update", "transform"}
    assert api.call("GET", "/v1/network")["network"] == "local"


# -- problems ----------------------------------------------------------------------------------------------
PROBLEMS = [
    ("GET", "/nowhere", {}, 404),
    ("GET", "/v1/tables/nobody", {}, 404),
    ("GET", "/v1/subscriptions/nobody", {}, 404),
    ("GET", "/v1/subscriptions/nobody/result", {}, 404),
    ("DELETE", "/v1/subscriptions/nobody", {}, 404),
    ("POST", "/v1/tables/nobody/events", {"json": {"events": [insert(k=1)]}}, 404),
    ("PUT", "/v1/tables", {"json": {}}, 405),
    ("POST", "/v1/status", {"json": {}}, 405),
    ("POST", "/v1/tables", {"content": b"{"}, 400),
    ("POST", "/v1/tables", {"content": b"\xff\xfe"}, 400),
    ("POST", "/v1/tables", {"content": b"[" * 100_000}, 400),
    ("POST", "/v1/tables", {"json": []}, 422),
    ("POST", "/v1/tables", {"json": {"name": "x", "columns": []}}, 422),
    ("POST", "/v1/subscriptions", {"json": {"sql": "SELECT * FROM nobody"}}, 422),
    ("POST", "/v1/subscriptions", {"json": {"sql": "SELEC 1"}}, 422),
    ("POST", "/v1/subscriptions", {"json": {"sql": 5}}, 422),
    ("POST", "/v1/subscriptions", {"json": {"sql": "x", "durable": "yes"}}, 422),
    ("POST", "/v1/subscriptions/batch", {"json": {"sql": "x", "rows": []}}, 422),
    ("GET", "/v1/subscriptions?limit=0", {}, 422),
    ("GET", "/v1/subscriptions?limit=many", {}, 422),
    ("PATCH", "/v1/subscriptions/nobody", {"json": {}}, 422),
]


@pytest.mark.parametrize(("method", "path", "options", "status"), PROBLEMS)
def test_every_error_is_a_problem_document(
    api: Api, method: str, path: str, options: Any, status: int
) -> None:
    answer = api.http.request(method, path, **options)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem.keys() >= {"type", "title", "status", "detail"}
    assert problem["status"] == status
    assert problem["detail"]
    if status == 422:
        assert [error.keys() for error in problem["errors"]] == [{"at", "detail"}]
    if status == 405:
        assert answer.headers["allow"]


def test_an_error_of_the_language_shows_its_place(api: Api) -> None:
    table = api.table(COLUMNS, ["k"])
    with pytest.raises(Refused) as caught:
        api.subscribe(f"SELECT MIN(y)\nFROM {table}\nGROUP BY x")
    problem = caught.value.problem
    assert problem["errors"][0]["at"] == "/sql"
    assert problem["line"] == 3
    assert "GROUP BY" in problem["highlight"].upper()


# -- starting ----------------------------------------------------------------------------------------------
def test_the_life_of_a_server(own_server: ServerProcess) -> None:
    """503 while it starts, one a folder, 0 at the end."""
    own_server.start(wait=False)
    answers: list[httpx.Response] = []

    def is_ready() -> bool:
        try:
            answers.append(httpx.get(own_server.url + "/readyz", trust_env=False))
        except httpx.TransportError:
            return False
        if answers[-1].status_code == 503 and len(answers) == 1:
            refused = httpx.get(own_server.url + "/v1/subscriptions/x/result", trust_env=False)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["type"] == "urn:prosem:error:recovering"
            assert httpx.get(own_server.url + "/healthz", trust_env=False).status_code == 200
            assert httpx.get(own_server.url + "/metrics", trust_env=False).status_code == 200
        return answers[-1].status_code == 200

    until(is_ready, BOOT_S)
    starting = [answer for answer in answers if answer.status_code == 503]
    assert starting, "readiness was never refused"
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in starting)
    assert "recovery: done" in own_server.log

    second = run("serve", "--port", "0", "--data-dir", str(own_server.folder / "data"))
    assert second.returncode == 1
    assert "another prosem serve" in second.stderr
    assert "Traceback" not in second.stderr
    assert httpx.get(own_server.url + "/readyz", trust_env=False).status_code == 200
    assert own_server.process is not None
    own_server.process.send_signal(signal.SIGINT)  # Ctrl-C
    assert own_server.process.wait(40) == 0
    assert "Traceback" not in own_server.log


def test_a_database_of_ones_own(postgres: EmbeddedPostgres) -> None:
    url = empty_database(postgres)
    unready = run("serve", "--port", "0", "--database", url)
    assert unready.returncode == 1
    assert "run prosem migrate" in unready.stderr
    assert "Traceback" not in unready.stderr
    assert "migrated from an empty database" in run("migrate", "--database", url).stdout
    assert "up to date" in run("migrate", "--database", url).stdout
    served = ServerProcess("--database", url)
    try:
        with Api(served.start()) as api:
            table = api.table(COLUMNS, ["k"])
            assert api.publish(table, [insert(k=1, x=1, y=1)])["first_seq"] == 1
            second = run("serve", "--port", "0", "--database", url)
            assert second.returncode == 1
            assert "another prosem serve uses this database" in second.stderr
            assert api.publish(table, [insert(k=2, x=1, y=1)])["first_seq"] == 2
    finally:
        served.remove()


@pytest.mark.parametrize(
    ("command", "database", "text"),
    [
        (["serve", "--port", "0"], "mysql://x", "database address"),
        (["migrate"], "mysql://x", "could not be migrated"),
        (["migrate"], "postgresql://nobody@127.0.0.1:1/x", "Connection refused"),
    ],
)
def test_a_database_that_cannot_be_used(command: list[str], database: str, text: str) -> None:
    done = run(*command, "--database", database)
    assert done.returncode == 1
    assert text in done.stderr
    assert "Traceback" not in done.stderr
