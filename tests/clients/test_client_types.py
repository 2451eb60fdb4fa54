"""prosem-types: the types of a running server's rows, as a compiler takes them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.clients.test_client_react import BIN, REACT
from tests.support.live import Api
from tests.support.node import FOLDER, tool

PROGRAM = """
import { Client } from "prosem-client";
import type { Cheapest, Tables } from "./prosem.js";

export async function allowed(client: Client): Promise<string | undefined> {
  const rows = await client.subscribe<Tables["TABLE"]>("SELECT * FROM TABLE");
  const price: string | null | undefined = rows.result?.rows?.[0]?.price;
  const key: number | undefined = rows.result?.rows?.[0]?.k;
  const first = await client.subscribe<Cheapest>("…");
  // @ts-expect-error the query does not select it
  first.result?.rows?.[0]?.flag;
  // @ts-expect-error a numeric is text
  const wrong: number | undefined = first.result?.rows?.[0]?.price;
  return `${price} ${key} ${wrong}`;
}
"""


def types(url: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [tool("node"), str(FOLDER / "bin" / "prosem-types.js"), url, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(not (BIN / "tsc").exists(), reason="TypeScript is not installed: make tools does it")
def test_a_compiler_takes_the_types_of_a_server(api: Api, tmp_path: Path) -> None:
    table = api.table({"k": "integer", "price": "numeric(12,2)", "flag": "boolean"}, ["k"])
    view = {"name": f"{table}_prices", "sql": f"SELECT price, COUNT(*) AS n FROM {table} GROUP BY price"}
    api.call("POST", "/v1/views", json=view)
    queries = {"cheapest": f"SELECT k, price FROM {table} ORDER BY price LIMIT 5"}
    (tmp_path / "queries.json").write_text(json.dumps(queries))
    done = types(api.url, "--queries", str(tmp_path / "queries.json"))
    assert done.returncode == 0, done.stderr
    assert f"{table}_prices: " in done.stdout
    (tmp_path / "prosem.d.ts").write_text(done.stdout)
    (tmp_path / "program.ts").write_text(PROGRAM.replace("TABLE", table))
    (tmp_path / "node_modules").symlink_to(REACT / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    options = {"noEmit": True, "strict": True, "module": "NodeNext", "lib": ["ES2022", "DOM"], "types": []}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["program.ts"]}))
    compiled = subprocess.run(
        [BIN / "tsc", "-p", "."], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stdout


def test_what_is_wrong_is_said(api: Api, tmp_path: Path) -> None:
    assert types("--nothing").returncode == 2
    (tmp_path / "queries.json").write_text('{"wrong": "SELECT * FROM no_such_table"}')
    done = types(api.url, "--queries", str(tmp_path / "queries.json"))
    assert done.returncode == 1
    assert "no_such_table" in done.stderr
