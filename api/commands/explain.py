"""`prosem explain`: the plans of an event as a table in the terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from api.commands.plain_table import plain_table
from api.commands.terminal import NO_KEY, NOT_THERE
from prosem.runtime.tls import tls_for, verified

_errors = Console(stderr=True)
_COLUMNS = {
    "server_time": "server µs",
    "response_time": "response µs",
    "server_stress": "bytes out",
    "bandwidth": "network bytes",
    "affected": "affected",
    "cost": "cost",
}


def explain(url: str, api_key: str, table: str, source: str, analyze: bool, as_json: bool) -> int:
    """Ask the server and print; 1 if it refuses, 2 if the event cannot be read."""
    if source != "-" and not Path(source).is_file():
        _errors.print(
            f"[red]there is no file {source}[/red]; give a file with one event, or - for standard input"
        )
        return 2
    text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    try:
        event = json.loads(text)
    except ValueError as error:
        _errors.print(f"[red]{source} is not JSON: {error}[/red]", highlight=False)
        return 2
    body = {"table": table, "event": event, "analyze": analyze}
    try:
        answer = httpx.post(
            f"{url.rstrip('/')}/v1/explain",
            json=body,
            timeout=60,
            trust_env=False,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
            verify=verified(tls_for(url)),
        )
    except httpx.HTTPError as error:
        _errors.print(f"[red]{url} cannot be reached: {error}[/red]\n{NOT_THERE}", highlight=False)
        return 1
    report: dict[str, Any] = answer.json()
    if not answer.is_success:
        _errors.print(f"[red]{report.get('detail', answer.text)}[/red]", highlight=False)
        if answer.status_code == 401:
            _errors.print(NO_KEY, highlight=False)
        return 1
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        show(Console(), report, analyze)
    return 0


def show(console: Console, report: dict[str, Any], analyze: bool) -> None:
    """One table per group, in the order of evaluation.

    Below each plan are the ways of the network, where there are two, and with `analyze` what it was measured to cost.
    """
    if not report["groups"]:
        console.print("the event concerns no subscription")
    for group in report["groups"]:
        console.print(f"{group['group']} ({group['type']})", highlight=False)
        table = plain_table("plan", *_COLUMNS.values(), numbers=[*_COLUMNS.values()], whole=["plan"])
        for row in group["plans"]:
            style = "bold green" if row["chosen"] else None
            cells = [_cell(row[name]) for name in _COLUMNS]
            table.add_row(("→ " if row["chosen"] else "  ") + row["plan"], *cells, style=style)
            for way in row.get("ways", ()):
                name = ("  → " if way["chosen"] else "    ") + way["way"]
                table.add_row(name, *[_cell(way[metric]) for metric in _COLUMNS], style="dim")
            if analyze:
                table.add_row(
                    "    measured", *[_cell(row["measured"][name]) for name in _COLUMNS], style="dim"
                )
        console.print(table)
        for line in _reasons(group):
            console.print(f"  {line}", style="dim", highlight=False)
    weights = ", ".join(f"{name} {weight:g}" for name, weight in report["weights"].items())
    console.print(f"[dim]weights: {weights}; as of seq {report['seq']}; nothing was applied[/dim]")


def _reasons(group: dict[str, Any]) -> list[str]:
    """What the plans were estimated by, when the group is evaluated, and how a join is arranged."""
    named: dict[str, list[str]] = {}  # by the statistic: the plans
    for row in group["plans"]:
        named.setdefault(row["statistic"], []).append(row["plan"])
    lines = [
        f"{'estimates' if len(named) == 1 else ', '.join(plans)}: {statistic}"
        for statistic, plans in named.items()
    ]
    order = group["order"]
    lines.append(f"ordered by {order['server_cost']:,.1f} µs per subscription: {order['statistic']}")
    if "arrangement" in group:
        routing, partners = group["arrangement"]["routing"], group["arrangement"]["partners"]
        columns = ", ".join(f"{table}.{column}" for table, column in routing["columns"].items()) or "none"
        pairs = ", ".join(f"{table} by {partner}" for table, partner in partners["tables"].items())
        lines.append(f"routing columns {columns}: {routing['statistic']}")
        lines.append(f"reduced {pairs}: {partners['statistic']}")
    return lines


def _cell(value: float | None) -> str:
    return "?" if value is None else f"{value:,.1f}"
