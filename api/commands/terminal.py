"""`prosem subscribe` and `prosem publish`: the client from the command line."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from prosem_client import AsyncClient, Change, Client, ConnectionLost, PartlyPublished, ProsemError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from api.commands.live_table import LiveTable

NOT_THERE = "Is the server running? `prosem serve` starts one; --url or PROSEM_URL names another."
NO_KEY = "--api-key or PROSEM_API_KEY gives a key; `prosem keys create` makes one."
_errors = Console(stderr=True)


def subscribe(
    url: str,
    api_key: str,
    sql: str,
    params: dict[str, Any],
    notify: dict[str, Any] | None,
    per: str,
    limit: int,
    as_json: bool,
) -> int:
    """Show the answer and then every change until Ctrl-C (or `limit` changes): a table that is drawn anew on a terminal,
    JSON lines elsewhere.
    """
    try:
        client = AsyncClient(url, api_key=api_key)
        asyncio.run(_follow(client, sql, params, notify, per, limit, as_json))
    except KeyboardInterrupt:
        pass
    except ProsemError as error:
        return complain(error)
    return 0


async def _follow(
    opened: AsyncClient,
    sql: str,
    params: dict[str, Any],
    notify: dict[str, Any] | None,
    per: str,
    limit: int,
    as_json: bool,
) -> None:
    console = Console()
    is_drawn = console.is_terminal and not as_json
    async with opened as client:
        count = 0
        made = client.subscribe(sql, params, notify=notify, per=per, durable=False, snapshot=True)
        with LiveTable(console, sql) if is_drawn else nullcontext() as table:
            async for change in made:
                if table is None:
                    _print(change)
                else:
                    table.show(change)
                count += not change.snapshot
                if limit and count >= limit:
                    return


def _print(change: Change) -> None:
    shown = {"snapshot": change.result} if change.snapshot else {"change": change.change}
    print(json.dumps({"id": change.id, "seq": change.seq} | shown, ensure_ascii=False), flush=True)


def publish(url: str, api_key: str, table: str, source: str) -> int:
    """Send an NDJSON file (or standard input, `-`); says how many lines are committed, and the first bad one."""
    if source != "-" and not Path(source).is_file():
        _errors.print(f"[red]there is no file {source}[/red]; give an NDJSON file, or - for standard input")
        return 2
    try:
        return _publish(url, api_key, table, source)
    except ProsemError as error:
        return complain(error)


def _publish(url: str, api_key: str, table: str, source: str) -> int:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_errors) as progress, Client(url, api_key=api_key) as client:
        task = progress.add_task(f"events to {table}", total=None if source == "-" else _count(source))
        try:
            done = client.publish_ndjson(
                table, _lines(source), lambda count: progress.update(task, completed=count)
            )
        except PartlyPublished as error:
            progress.stop()
            _errors.print(f"{error.published.count:,} events are committed; then: [red]{error.detail}[/red]")
            return 1
        except ProsemError:
            progress.stop()
            raise
    _errors.print(f"{done.count:,} events committed, seq {done.first_seq} to {done.last_seq}")
    return 0


def _lines(source: str) -> Iterator[str]:
    with sys.stdin if source == "-" else open(source, encoding="utf-8") as stream:
        for line in stream:
            if line.strip():
                yield line


def _count(source: str) -> int:
    with open(source, "rb") as stream:
        return sum(1 for line in stream if line.strip())


def complain(error: ProsemError) -> int:
    """Report an error of the server with the place in the query, and the command that helps."""
    _errors.print(f"[red]{error.detail}[/red]", highlight=False)
    if error.highlight:
        _errors.print(error.highlight, highlight=False, markup=False)
    if isinstance(error, ConnectionLost):
        _errors.print(NOT_THERE, highlight=False)
    elif error.status == 401:
        _errors.print(NO_KEY, highlight=False)
    return 1
