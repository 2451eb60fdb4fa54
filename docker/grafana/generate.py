"""Writes the dashboard: `python docker/grafana/generate.py`. A test compares it with what the server measures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent / "dashboards" / "prosem.json"
SOURCE = {"type": "prometheus", "uid": "prometheus"}

# Title, unit, and queries with their legends; two panels per line.
PANELS: list[tuple[str, str, list[tuple[str, str]]]] = [
    (
        "Events and changes per second",
        "ops",
        [
            ("sum(rate(prosem_events_total[30s]))", "events"),
            ("sum(rate(prosem_changes_total[30s]))", "changes delivered"),
            ("sum(rate(prosem_changes_replayed_total[30s]))", "changes replayed"),
        ],
    ),
    (
        "Time of a commit",
        "s",
        [("rate(prosem_commit_seconds_total[30s]) / rate(prosem_commits_total[30s])", "mean")],
    ),
    (
        "CPU time per event, by plan",
        "s",
        [
            (
                "sum by (plan) (rate(prosem_plan_cpu_seconds_total[1m])) / sum by (plan) (rate(prosem_plan_runs_total[1m]))",
                "{{plan}}",
            )
        ],
    ),
    (
        "Messages per second, by plan",
        "ops",
        [("sum by (plan) (rate(prosem_outbox_messages_total[30s]))", "{{plan}}")],
    ),
    ("Events that wait", "short", [("prosem_backlog", "backlog")]),
    ("Subscriptions", "short", [("sum by (type) (prosem_subscriptions)", "{{type}}")]),
    (
        "Streams, and subscribers too slow",
        "short",
        [
            ("sum(prosem_attached)", "attached"),
            ("sum(rate(prosem_lagging_total[1m]))", "lagging per second"),
        ],
    ),
    (
        "Processes",
        "short",
        [("rate(prosem_process_cpu_seconds_total[30s])", "cores of {{instance}}")],
    ),
    ("Memory", "bytes", [("prosem_process_peak_memory_bytes", "peak of {{instance}}")]),
    ("Rows", "short", [("prosem_rows", "{{table}}")]),
    (
        "Webhooks: deliveries per second",
        "ops",
        [
            ("sum(rate(prosem_webhook_delivered_total[1m]))", "delivered"),
            ("sum(rate(prosem_webhook_failed_total[1m]))", "failed"),
            ("sum(rate(prosem_webhook_dead_total[1m]))", "given up"),
        ],
    ),
    ("Webhooks: seqs behind", "short", [("max(prosem_webhook_lag)", "the slowest receiver")]),
    (
        "Index nodes visited per second",
        "ops",
        [("rate(prosem_index_visits_total[30s])", "visits")],
    ),
    (
        "Ready, rebuilds after a failure, refused batches",
        "short",
        [
            ("prosem_ready", "ready {{instance}}"),
            ("increase(prosem_rebuilds_total[5m])", "rebuilds {{instance}}"),
            ("increase(prosem_batches_undone_total[5m])", "batches undone {{instance}}"),
        ],
    ),
]


def panel(number: int, title: str, unit: str, queries: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "id": number + 1,
        "title": title,
        "type": "timeseries",
        "datasource": SOURCE,
        "gridPos": {"x": 12 * (number % 2), "y": 8 * (number // 2), "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for at, (query, legend) in enumerate(queries)
        ],
    }


def dashboard() -> str:
    """The dashboard as Grafana reads it."""
    made = {
        "uid": "prosem",
        "title": "ProSem",
        "schemaVersion": 39,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "panels": [panel(number, *given) for number, given in enumerate(PANELS)],
    }
    return json.dumps(made, indent=1) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(dashboard())
