"""The counters of the core for Prometheus. Nothing is counted here; each scrape reads what the core has counted."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from prosem.runtime.lateness import BOUNDS_MS, LoopLateness
from prosem.runtime.metrics import Metrics

if TYPE_CHECKING:
    from api.http.connections import Limits
    from api.server.lifetime import ServerLifetime  # a broker, which has metrics too, needs no server
    from api.server.running import RunningServer
    from api.webhooks.service import WebhookService
    from prosem.engine.view import EngineView


def exposition(made: ServerLifetime, limits: Limits | None = None) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Reader(made, limits))
    return generate_latest(registry)


class _Reader:
    def __init__(self, made: ServerLifetime, limits: Limits | None) -> None:
        self._made, self._limits = made, limits

    def collect(self) -> Iterator[Metric]:
        made, metrics = self._made, self._made.metrics
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield _gauge("prosem_ready", "1 while the server serves", int(made.is_ready))
        yield _counter(
            "prosem_process_cpu_seconds", "CPU time of the server process", usage.ru_utime + usage.ru_stime
        )
        yield _gauge(
            "prosem_process_peak_memory_bytes", "most memory the process has used", usage.ru_maxrss * 1024
        )
        yield _counter(
            "prosem_connections_refused",
            "connections refused because the process has too many open files",
            0 if self._limits is None else self._limits.refused,
        )
        yield _lateness(metrics.loop_lateness)
        yield _counter("prosem_events", "events committed or about to be", metrics.events)
        yield _counter("prosem_commits", "transactions committed", metrics.commits)
        yield _counter(
            "prosem_rebuilds",
            "times the engine's memory was rebuilt from the database after a failure",
            metrics.rebuilds,
        )
        yield _counter(
            "prosem_batches_undone",
            "times a batch that the database refused was taken back, with what was processed after it",
            metrics.undone,
        )
        yield _counter(
            "prosem_rows_read",
            "rows of which columns were read from the database because they are not in memory",
            metrics.rows_read,
        )
        yield _counter("prosem_commit_seconds", "time spent in commits", metrics.commit_seconds)
        yield _counter("prosem_changes", "changes folded for attached subscriptions", metrics.changes)
        yield _counter("prosem_changes_replayed", "changes replayed from the outbox", metrics.replayed)
        yield _counter(
            "prosem_lagging", "times a subscriber was too slow and was caught up later", metrics.lagging
        )
        yield _counter(
            "prosem_rearranged",
            "times a join got other partners or routing columns, and its streams were attached again",
            metrics.rearranged,
        )
        messages = CounterMetricFamily(
            "prosem_outbox_messages", "messages written to the outbox", labels=["plan"]
        )
        seconds = CounterMetricFamily(
            "prosem_plan_cpu_seconds", "CPU time of events in groups", labels=["plan"]
        )
        runs = CounterMetricFamily("prosem_plan_runs", "events taken by groups", labels=["plan"])
        for plan, count in list(metrics.messages.items()):
            messages.add_metric([plan], count)
        for plan, nanoseconds in list(metrics.plan_cpu_ns.items()):
            seconds.add_metric([plan], nanoseconds / 1e9)
            runs.add_metric([plan], metrics.plan_runs[plan])
        yield _gauge("prosem_alive", "0 once a thread of the engine has died", int(made.is_alive))
        yield from (messages, seconds, runs, task_restarts(metrics), faults(metrics))
        if made.is_ready:
            yield from self._sizes(made.running)

    def _sizes(self, running: RunningServer) -> Iterator[Metric]:
        view, engine = running.view, running.engine
        yield _gauge("prosem_seq", "last committed seq", engine.committed_seq)
        yield _gauge("prosem_backlog", "events that wait to be processed", engine.backlog)
        yield _gauge("prosem_attached", "subscriptions with a stream", running.attached)
        yield _counter(
            "prosem_index_visits",
            "index nodes visited",
            view.index_visits,
        )
        subscriptions = GaugeMetricFamily("prosem_subscriptions", "subscriptions", labels=["type", "group"])
        for group in view.groups.values():
            subscriptions.add_metric([group.type, group.name], view.size(group))
        rows = GaugeMetricFamily("prosem_rows", "rows", labels=["tenant", "table"])
        for table in (table for tables in view.by_tenant.values() for table in tables.values()):
            rows.add_metric([table.tenant, table.name], view.row_counts[table.id])
        yield from (subscriptions, rows)
        yield from _statistics(view)
        yield from self._webhooks(running.webhooks, engine.committed_seq)
        network = running.brokers.report()
        yield _gauge("prosem_brokers", "brokers in the network", len(network["brokers"]))
        yield from links(network["links"])
        brokers = {one["name"]: one.get("contents") for one in network["brokers"]}
        yield from contents({"server": network.get("contents"), **brokers})

    def _webhooks(self, webhooks: WebhookService, seq: int) -> Iterator[Metric]:
        yield _gauge("prosem_webhooks", "webhooks that are served", webhooks.size)
        yield _gauge("prosem_webhook_lag", "seqs that the slowest receiver is behind", webhooks.lag(seq))
        yield _counter("prosem_webhook_frames", "frames that receivers have taken", webhooks.counts.frames)
        counts = webhooks.counts
        yield _counter("prosem_webhook_delivered", "deliveries that receivers have taken", counts.delivered)
        yield _counter("prosem_webhook_failed", "attempts to deliver that failed", counts.failed)
        yield _counter("prosem_webhook_dead", "deliveries that were given up", counts.dead)


def _statistics(view: EngineView) -> Iterator[Metric]:
    """The age of the run in force, and how wrong estimates were lately."""
    age = GaugeMetricFamily(
        "prosem_statistics_age_seconds", "time since the statistics in force were computed", labels=[]
    )
    if view.statistics is not None:
        passed = datetime.now(UTC) - view.statistics["created"]
        age.add_metric([], max(0.0, passed.total_seconds()))
    yield age
    errors = GaugeMetricFamily(
        "prosem_estimate_error_ratio",
        "median factor between what was estimated and what was measured, of the last measured events; 1 is exact",
        labels=["metric"],
    )
    for metric, factor in view.estimate_errors.items():
        errors.add_metric([metric], factor)
    yield errors


def task_restarts(metrics: Metrics) -> Metric:
    restarts = CounterMetricFamily(
        "prosem_task_restarts", "times a background task failed and was started again", labels=["task"]
    )
    for task, count in list(metrics.restarts.items()):
        restarts.add_metric([task], count)
    return restarts


def faults(metrics: Metrics) -> Metric:
    """What went wrong between the server and its brokers, each time mended by starting over."""
    family = CounterMetricFamily(
        "prosem_network_faults",
        "faults between server and brokers: packet, consumer, stream, hang, root or broker",
        labels=["fault"],
    )
    for fault, count in list(metrics.network_faults.items()):
        family.add_metric([fault], count)
    return family


def links(report: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    """What each link of the network has carried since it exists."""
    for name, help in (
        ("messages", "messages carried by a link"),
        ("frames", "frames carried by a link"),
        ("bytes", "bytes of the frames carried by a link"),
    ):
        family = CounterMetricFamily(f"prosem_link_{name}", help, labels=["from", "to"])
        for link in report:
            family.add_metric([link["from"], link["to"]], link[name])
        yield family


def contents(reports: Mapping[str, Mapping[str, int] | None]) -> Iterator[Metric]:
    """What each node of a network that remembers contents (CN*) says of them."""
    known = {node: report for node, report in reports.items() if report}
    for name, family, help in (
        ("held", GaugeMetricFamily, "contents that a node remembers"),
        ("bytes", GaugeMetricFamily, "bytes of the contents that a node remembers"),
        ("hits", CounterMetricFamily, "contents named by a reference and the node had"),
        ("misses", CounterMetricFamily, "contents named by a reference and the node had to fetch"),
        ("spared", CounterMetricFamily, "contents that a node left out on a link"),
        ("asked", CounterMetricFamily, "contents that other brokers have asked a node for"),
    ):
        made = family(f"prosem_contents_{name}", help, labels=["node"])
        for node, report in known.items():
            made.add_metric([node], report.get(name, 0))  # an older broker has fewer
        yield made


def _counter(name: str, help: str, value: float) -> Metric:
    return CounterMetricFamily(name, help, value=value)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value=value)


def _lateness(lateness: LoopLateness) -> Metric:
    """As a histogram in seconds; Prometheus adds the buckets up."""
    counts = list(accumulate(lateness.counts))
    bounds = [*(str(bound / 1000) for bound in BOUNDS_MS), "+Inf"]
    found = HistogramMetricFamily("prosem_loop_late_seconds", "how late the event loop ran a timer")
    found.add_metric([], list(zip(bounds, counts, strict=True)), lateness.total_s)
    return found
