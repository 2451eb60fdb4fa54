"""`prosem view`: create, list, show and drop views of a running server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from prosem_client import Client, ProsemError
from rich.console import Console

from api.commands.plain_table import plain_table
from api.commands.terminal import complain


def create(url: str, api_key: str, name: str, sql: str) -> int:
    """A large view is built while the server goes on; this waits for it."""
    return _call(url, api_key, lambda client: _created(client.create_view(name, sql)))


def _created(view: dict[str, Any]) -> None:
    Console(stderr=True).print(
        f"view {view['name']}: {len(view['columns'])} columns, key {', '.join(view['primary_key'])}",
        highlight=False,
    )


def listing(url: str, api_key: str, as_json: bool) -> int:
    return _call(url, api_key, lambda client: _listed(client.views(), as_json))


def _listed(views: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(views, ensure_ascii=False))
        return
    table = plain_table("view", "rows", "uses", "used by", numbers=["rows"], whole=["rows"])
    for view in views:
        used = view["used_by"]
        by = [*used["views"], *([f"{used['subscriptions']} subscriptions"] if used["subscriptions"] else [])]
        table.add_row(view["name"], f"{view['rows']:,}", ", ".join(view["uses"]), ", ".join(by))
    Console().print(table)


def show(url: str, api_key: str, name: str, as_json: bool) -> int:
    return _call(url, api_key, lambda client: _shown(client.view(name), as_json))


def _shown(view: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(view, ensure_ascii=False))
        return
    console = Console()
    console.print(view["sql"], highlight=False, markup=False)
    table = plain_table("column", "type", "nullable", "key")
    for column in view["columns"]:
        is_key = "yes" if column["name"] in view["primary_key"] else ""
        table.add_row(column["name"], column["type"], "yes" if column["nullable"] else "", is_key)
    console.print(table)
    used = view["used_by"]
    console.print(f"{view['rows']:,} rows; uses {', '.join(view['uses'])}", highlight=False)
    if used["views"] or used["subscriptions"]:
        by = [*used["views"], f"{used['subscriptions']:,} subscriptions"]
        console.print(f"used by {', '.join(by)}", highlight=False)


def drop(url: str, api_key: str, name: str) -> int:
    return _call(url, api_key, lambda client: client.drop_view(name))


def _call(url: str, api_key: str, work: Callable[[Client], None]) -> int:
    try:
        with Client(url, api_key=api_key) as client:
            work(client)
    except ProsemError as error:
        return complain(error)
    return 0
