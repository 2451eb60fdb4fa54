"""Clients generated from the OpenAPI document: responses are as described, and generated clients make subscriptions."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.http.models import operation_responses as o
from api.http.models import preview_responses as p
from api.http.models import responses as r
from tests.support.live import Api, insert
from tests.support.node import tool

PYTHON = """
import sys
from generated.client import Client
from generated.api.subscriptions import subscriptions_result, subscriptions_subscribe
from generated.models.new_subscription import NewSubscription

url, table = sys.argv[1:]
with Client(base_url=url, httpx_args={"trust_env": False}) as client:
    body = NewSubscription.from_dict({"sql": f"SELECT MIN(x) FROM {table} WHERE x > :x", "params": {"x": 1}})
    made = subscriptions_subscribe.sync(client=client, body=body)
    answer = subscriptions_result.sync(made.id, client=client)
    print(made.type_, made.fold.type_, answer.result.to_dict()["value"])
"""
TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { argv: string[] };
const [, , url, table] = process.argv;
const client = createClient<paths>({ baseUrl: url });
const { data, error } = await client.POST("/v1/subscriptions", {
  body: { sql: `SELECT MIN(x) FROM ${table} WHERE x > :x`, params: { x: 1 } },
});
if (data === undefined) throw new Error(JSON.stringify(error));
const id: string = data.id;
const found = await client.GET("/v1/subscriptions/{id}/result", { params: { path: { id } } });
console.log(data.type, data.fold.type, found.data?.result.value);
// @ts-expect-error the response has no such member
data.nothing;
"""


@pytest.fixture
def table(api: Api) -> str:
    made = api.table({"k": "integer", "x": "integer"}, ["k"])
    api.publish(made, [insert(k=1, x=1), insert(k=2, x=5)])
    return made


def test_responses_are_as_described(api: Api, table: str) -> None:
    def check(kind: type[r.ResponseModel], method: str, path: str, **options: Any) -> Any:
        answer = api.http.request(method, path, **options)
        assert answer.is_success, answer.text
        return msgspec.json.decode(answer.content, type=kind)

    again = check(r.TableDefinition, "GET", f"/v1/tables/{table}")
    check(r.TableDefinition, "POST", "/v1/tables", json=msgspec.to_builtins(again))
    check(r.TableList, "GET", "/v1/tables")
    view = {"name": f"{table}_view", "sql": f"SELECT x, COUNT(*) AS n FROM {table} GROUP BY x"}
    check(r.ViewDefinition, "POST", "/v1/views", json=view)
    check(r.Published, "POST", f"/v1/tables/{table}/events", json={"events": [insert(k=3, x=2)]})
    check(r.Published, "POST", "/v1/events", json={"events": [{"table": table, **insert(k=4, x=2)}]})
    lines = json.dumps(insert(k=5, x=2)) + "\nnothing\n"
    ndjson = {"content": lines, "headers": {"Content-Type": "application/x-ndjson"}}
    assert check(r.Published, "POST", f"/v1/tables/{table}/events", **ndjson).errors
    for sql in (
        f"SELECT MIN(x) FROM {table}",
        f"SELECT * FROM {table} WHERE x > 1",
        f"SELECT k, x FROM {table} ORDER BY x DESC LIMIT 2",
        f"SELECT x, COUNT(*) AS n FROM {table} GROUP BY x",
        f"SELECT DISTINCT x FROM {table}",
    ):
        made = check(r.NewSubscriptionResult, "POST", "/v1/subscriptions", json={"sql": sql})
        check(r.SubscriptionResult, "GET", f"/v1/subscriptions/{made.id}/result")
        check(r.SubscriptionDescription, "GET", f"/v1/subscriptions/{made.id}")
        check(r.MovedSubscription, "PATCH", f"/v1/subscriptions/{made.id}", json={"active": False})
        check(o.DeletedSubscription, "DELETE", f"/v1/subscriptions/{made.id}")
    batch = {"sql": f"SELECT COUNT(*) FROM {table} WHERE x > :x", "rows": [{"params": {"x": 1}}]}
    check(r.BatchResult, "POST", "/v1/subscriptions/batch", json=batch)
    check(r.SubscriptionList, "GET", "/v1/subscriptions?limit=5")
    assert check(o.ServerStatus, "GET", "/v1/status").tables[table] == 5
    assert check(o.GroupList, "GET", "/v1/groups").groups
    assert len(check(o.TypeList, "GET", "/v1/types").types) > 5
    assert check(o.ViewList, "GET", "/v1/views").views
    assert check(o.ViewDescription, "GET", f"/v1/views/{view['name']}").uses == [table]
    check(o.Whoami, "GET", "/v1/whoami")
    check(o.KeyList, "GET", "/v1/keys")
    check(o.WebhookList, "GET", "/v1/webhooks")
    weights = check(o.MetricWeights, "GET", "/v1/optimizer/weights")
    check(o.MetricWeights, "PUT", "/v1/optimizer/weights", json=msgspec.to_builtins(weights))
    api.subscribe(f"SELECT MIN(x) FROM {table} WHERE k >= :lo", {"lo": 0})
    api.publish(table, [insert(k=6, x=-1)])
    check(o.Dropped, "DELETE", f"/v1/views/{view['name']}")
    assert check(o.DecisionList, "GET", "/v1/optimizer/decisions").decisions
    check(o.StatisticsRun, "GET", "/v1/optimizer/statistics")


def test_previews_are_as_described(api: Api, table: str) -> None:
    def check(kind: type[r.ResponseModel], path: str, body: Any) -> Any:
        answer = api.http.post(path, json=body)
        assert answer.is_success, answer.text
        return msgspec.json.decode(answer.content, type=kind)

    other = api.table({"k": "integer", "y": "integer"}, ["k"])
    api.publish(other, [insert(k=1, y=1)])
    minimum = f"SELECT MIN(x) FROM {table} WHERE k >= :lo AND k <= :hi"
    queries = [
        minimum,
        f"SELECT * FROM {table} WHERE x > :lo",
        f"SELECT k, x FROM {table} WHERE x > :lo ORDER BY x LIMIT 2",
        f"SELECT x, SUM(k) FROM {table} GROUP BY x",
        f"SELECT DISTINCT x FROM {table} WHERE k > :lo",
        f"SELECT * FROM {table} JOIN {other} USING (k) WHERE x >= :lo AND x <= :hi",
    ]
    for sql in queries:
        params = {name: at for at, name in enumerate(("lo", "hi")) if f":{name}" in sql}
        assert check(p.QueryDescription, "/v1/describe", {"sql": sql, "params": params}).place is not None
        described = check(p.QueryDescription, "/v1/describe", {"sql": sql})
        assert described.missing == list(params)
        api.subscribe(sql, params)
    event = insert(k=1, x=3) | {"op": "upsert"}
    for analyze in (False, True):
        asked = {"table": table, "event": event, "analyze": analyze}
        explained = check(p.ExplainedEvent, "/v1/explain", asked)
        assert len({group.type for group in explained.groups}) > 2
        assert any(group.arrangement for group in explained.groups)
    group = check(p.QueryDescription, "/v1/describe", {"sql": minimum}).group
    assert check(p.EventPicture, "/v1/geometry", {"group": group, "event": event}).panels
    assert msgspec.json.decode(api.http.get("/v1/network").content, type=p.NetworkDescription).links


def test_every_operation_has_a_name_of_its_own(api: Api) -> None:
    document = api.call("GET", "/openapi.json")
    names = [one["operationId"] for operations in document["paths"].values() for one in operations.values()]
    assert len(names) == len(set(names))
    assert "subscriptions_subscribe" in names


@pytest.mark.slow
def test_openapi_python_client_makes_a_subscription(api: Api, table: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [python, "-m", "pip", "install", "--quiet", "openapi-python-client"]
    installed = subprocess.run(command, env=plain, capture_output=True, text=True, timeout=300)
    if installed.returncode:
        pytest.skip(f"openapi-python-client cannot be installed: {installed.stderr[-300:]}")
    (tmp_path / "openapi.json").write_text(json.dumps(api.call("GET", "/openapi.json")))
    (tmp_path / "config.yaml").write_text("post_hooks: []\nuse_path_prefixes_for_title_model_names: false\n")
    generate = [
        *(
            tmp_path / "venv" / "bin" / "openapi-python-client",
            "generate",
            "--meta",
            "none",
            "--fail-on-warning",
        ),
        *("--config", "config.yaml", "--path", "openapi.json", "--output-path", "generated"),
    ]
    generated = subprocess.run(generate, cwd=tmp_path, env=plain, capture_output=True, text=True, timeout=300)
    assert generated.returncode == 0, generated.stdout + generated.stderr
    (tmp_path / "program.py").write_text(PYTHON)
    done = subprocess.run(
        [python, "program.py", api.url, table],
        cwd=tmp_path,
        env=plain,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "range-min integer 5\n", done.stderr


@pytest.mark.slow
def test_openapi_typescript_makes_a_subscription(api: Api, table: str, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"type": "module"}')
    packages = ("openapi-typescript", "openapi-fetch", "typescript@5")
    fetched = subprocess.run(
        [tool("npm"), "install", "--silent", "--no-audit", "--no-fund", *packages],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if fetched.returncode:
        pytest.skip(f"npm has no openapi-typescript to offer: {fetched.stderr[-300:]}")
    (tmp_path / "openapi.json").write_text(json.dumps(api.call("GET", "/openapi.json")))
    (tmp_path / "program.ts").write_text(TYPESCRIPT)
    bin = tmp_path / "node_modules" / ".bin"
    options = [
        "--strict",
        "--target",
        "ES2022",
        "--module",
        "NodeNext",
        "--skipLibCheck",
        "--lib",
        "ES2022,DOM",
    ]
    for command in (
        [bin / "openapi-typescript", "openapi.json", "-o", "schema.d.ts"],
        [bin / "tsc", *options, "program.ts"],
    ):
        made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    done = subprocess.run(
        [tool("node"), "program.js", api.url, table], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "range-min integer 5\n", done.stderr
