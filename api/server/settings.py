"""Every setting of the server, in one place: command line, environment and documentation are made from it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs


def default_data_dir() -> Path:
    """Where the embedded PostgreSQL keeps its files. Root's home is closed to the user PostgreSQL runs as."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/prosem")
    return Path(platformdirs.user_data_dir("prosem", appauthor=False))


def setting(default: object, help: str) -> object:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Settings:
    """Each field is an option `--like-this` of `prosem serve` and a variable `PROSEM_LIKE_THIS`."""

    host: str = setting("127.0.0.1", "address to listen on")  # type: ignore[assignment]
    port: int = setting(8080, "port to listen on")  # type: ignore[assignment]
    data_dir: str = setting("", "folder of the embedded PostgreSQL (default: the user's data folder)")  # type: ignore[assignment]
    database: str = setting("", "postgresql://… to use your own PostgreSQL instead of the embedded one")  # type: ignore[assignment]
    standby: bool = setting(False, "wait while another server uses the database, then take over")  # type: ignore[assignment]
    new_timeline: bool = setting(
        False, "begin a new timeline: the database was set back in a way that the server cannot notice"
    )  # type: ignore[assignment]
    takeover_s: int = setting(
        10, "seconds without a heartbeat after which a standby takes over from this server (0: never)"
    )  # type: ignore[assignment]
    plan: str = setting(
        "auto",
        "auto (by cost), auto:<plan> (by cost, with what edges hold for this plan), random:<seed>, or the name of a plan to"
        " use wherever a group offers it",
    )  # type: ignore[assignment]
    estimator_entries: int = setting(
        1_000, "measurements of a plan in a group that the optimizer estimates from"
    )  # type: ignore[assignment]
    measure_percent: int = setting(
        2, "time the optimizer may spend on measuring plans, in percent of the events' (0: none)"
    )  # type: ignore[assignment]
    measurements: int = setting(200_000, "measurements of plans kept for the statistics job")  # type: ignore[assignment]
    archive: str = setting(
        "", "folder of the Parquet archive that backtests read (default: archive in the data folder)"
    )  # type: ignore[assignment]
    spark_master: str = setting("", "Spark's master for backtests (default: all cores of this machine)")  # type: ignore[assignment]
    max_backlog: int = setting(50_000, "events that may wait before publishers are answered 503")  # type: ignore[assignment]
    max_backlog_mb: int = setting(128, "MiB of requests that may wait before publishers are answered 503")  # type: ignore[assignment]
    max_batch: int = setting(2_000, "events after which a transaction takes no further request")  # type: ignore[assignment]
    max_batch_mb: int = setting(4, "MiB after which a transaction takes no further request")  # type: ignore[assignment]
    max_request_events: int = setting(
        1_000_000, "most events of one request, which is one transaction (NDJSON bodies have no limit)"
    )  # type: ignore[assignment]
    commit_timeout_s: int = setting(60, "seconds after which a commit that makes no progress is broken off")  # type: ignore[assignment]
    max_body_mb: int = setting(64, "largest JSON body in MiB (NDJSON bodies have no limit)")  # type: ignore[assignment]
    max_header_kb: int = setting(64, "largest request line with its headers in KiB")  # type: ignore[assignment]
    header_timeout_s: int = setting(10, "seconds within which the headers of a request must be complete")  # type: ignore[assignment]
    body_timeout_s: int = setting(30, "seconds that a request's body may pause")  # type: ignore[assignment]
    write_timeout_s: int = setting(40, "seconds without progress after which a response is broken off")  # type: ignore[assignment]
    ping_s: int = setting(20, "seconds between two pings of a socket, and that its answer may take")  # type: ignore[assignment]
    max_batch_rows: int = setting(100_000, "most subscriptions of one batch request")  # type: ignore[assignment]
    queue: int = setting(
        10_000, "frames that may wait for one slow subscriber before it is caught up from the outbox"
    )  # type: ignore[assignment]
    queue_mb: int = setting(8, "the same in MiB: a queue is full when either is reached")  # type: ignore[assignment]
    retention_events: int = setting(
        20_000_000, "how many seqs back a subscriber can resume without a fresh snapshot"
    )  # type: ignore[assignment]
    partition_events: int = setting(1_000_000, "seqs of one partition of the event log and the outbox")  # type: ignore[assignment]
    max_boxes: int = setting(
        128,
        "boxes that the regions of one event may have, with several ranges, before the rest is enumerated",
    )  # type: ignore[assignment]
    look_events: int = setting(
        20_000, "events after which the server looks whether joins should be decomposed another way"
    )  # type: ignore[assignment]
    columns_in_memory: str = setting(
        "all",
        "all, or used: columns that no key, group or view uses stay in PostgreSQL, and events read them there",
    )  # type: ignore[assignment]
    kernels: str = setting("auto", "auto: compiled structures where they are installed; off: those in Python")  # type: ignore[assignment]
    ephemeral_s: int = setting(
        60, 'seconds after which a subscription with "durable": false that was never streamed ends'
    )  # type: ignore[assignment]
    admin_key: str = setting("", "a key of at least 24 characters that is made an admin's at the start")  # type: ignore[assignment]
    metrics_key: str = setting("", "the same with the role metrics: for Prometheus")  # type: ignore[assignment]
    broker_key: str = setting("", "the same with the role broker: for brokers' --api-key")  # type: ignore[assignment]
    tls_certificate: str = setting("", "file with the certificate (and its chain) to serve HTTPS, PEM")  # type: ignore[assignment]
    tls_key: str = setting("", "file with the certificate's private key, PEM")  # type: ignore[assignment]
    origins: str = setting(
        "", "origins of pages that are served elsewhere and may call this server, with commas, or *"
    )  # type: ignore[assignment]
    webhook_hosts: str = setting(
        "",
        "where webhooks may lead: hosts, *.suffixes, networks and public, with commas (default: public addresses;"
        " for a server without keys also private ones and this machine)",
    )  # type: ignore[assignment]
    webhook_attempts: int = setting(12, "attempts to deliver to a webhook before it is a dead letter")  # type: ignore[assignment]
    webhook_timeout_s: int = setting(10, "seconds that a webhook's receiver has for its answer")  # type: ignore[assignment]
    webhook_wait_ms: int = setting(
        1_000, "wait before the second attempt; it doubles with each one, up to five minutes"
    )  # type: ignore[assignment]
    otlp: str = setting("", "http://… of an OpenTelemetry collector that takes traces (OTLP over HTTP)")  # type: ignore[assignment]
    nats: str = setting(
        "", "nats://… of a NATS server with JetStream, or embedded for one of our own: brokers may join"
    )  # type: ignore[assignment]
    nats_replicas: int = setting(1, "copies that a NATS cluster keeps of what is on its way to brokers")  # type: ignore[assignment]
    nats_storage: str = setting(
        "file", "file or memory: where NATS keeps it; from memory brokers start over when NATS has ended"
    )  # type: ignore[assignment]
    workers: str = setting(
        "0",
        "processes of this machine that hold the subscribers' sockets and share the port: a number, or auto for one a core"
        " but the first",
    )  # type: ignore[assignment]
    network: str = setting("unicast", "network that carries messages to brokers")  # type: ignore[assignment]
    network_options: str = setting("", "options of the network, as name=number with commas: fan_out=4,lub=1")  # type: ignore[assignment]
    stage_order: str = setting(
        "",
        "network stages: columns from the most general to the least, as table=column,column with semicolons between tables",
    )  # type: ignore[assignment]
    lease_s: int = setting(10, "seconds that a broker may be silent before it is out of the network")  # type: ignore[assignment]
    log_level: str = setting("info", "debug, info, warning or error")  # type: ignore[assignment]
    log_format: str = setting("text", "text for people, json for a log collector: one object a line")  # type: ignore[assignment]

    @property
    def folder(self) -> Path:
        return Path(self.data_dir).expanduser().resolve() if self.data_dir else default_data_dir()


@dataclass(frozen=True)
class BrokerSettings:
    """Each field is an option `--like-this` of `prosem broker` and a variable `PROSEM_LIKE_THIS`."""

    server: str = setting(
        "http://127.0.0.1:8080", "address of the server; with a standby those of both, with a comma"
    )  # type: ignore[assignment]
    host: str = setting("127.0.0.1", "address to listen on")  # type: ignore[assignment]
    port: int = setting(8081, "port to listen on")  # type: ignore[assignment]
    name: str = setting("", "name in the network, its own for each broker (default: from host and port)")  # type: ignore[assignment]
    advertise: str = setting(
        "",
        "address by which clients reach this broker, for redirects, or none (default: that which it listens on)",
    )  # type: ignore[assignment]
    stage: int = setting(
        0,
        "network stages: the stage of this broker, 1 nearest to subscribers (default: by the brokers below it)",
    )  # type: ignore[assignment]
    api_key: str = setting("", "a key of the role broker, if the server needs keys")  # type: ignore[assignment]
    tls_certificate: str = setting("", "file with the certificate (and its chain) to serve HTTPS, PEM")  # type: ignore[assignment]
    tls_key: str = setting("", "file with the certificate's private key, PEM")  # type: ignore[assignment]
    origins: str = setting(
        "", "origins of pages that are served elsewhere and may call this server, with commas, or *"
    )  # type: ignore[assignment]
    nats: str = setting("", "nats://… if this broker reaches NATS by another address than the server")  # type: ignore[assignment]
    listen_fd: int = setting(
        -1, "descriptor of a socket that listens on that port already, as workers of a server have it"
    )  # type: ignore[assignment]
    lifeline_fd: int = setting(
        -1, "descriptor of a pipe: the broker ends at once when its other end is closed"
    )  # type: ignore[assignment]
    queue: int = setting(
        10_000, "frames that may wait for one slow subscriber before it is caught up from the outbox"
    )  # type: ignore[assignment]
    queue_mb: int = setting(8, "the same in MiB: a queue is full when either is reached")  # type: ignore[assignment]
    max_body_mb: int = setting(64, "largest frame of a socket in MiB")  # type: ignore[assignment]
    max_header_kb: int = setting(64, "largest request line with its headers in KiB")  # type: ignore[assignment]
    header_timeout_s: int = setting(10, "seconds within which the headers of a request must be complete")  # type: ignore[assignment]
    body_timeout_s: int = setting(30, "seconds that a request's body may pause")  # type: ignore[assignment]
    write_timeout_s: int = setting(40, "seconds without progress after which a response is broken off")  # type: ignore[assignment]
    ping_s: int = setting(20, "seconds between two pings of a socket, and that its answer may take")  # type: ignore[assignment]
    log_level: str = setting("info", "debug, info, warning or error")  # type: ignore[assignment]
    log_format: str = setting("text", "text for people, json for a log collector: one object a line")  # type: ignore[assignment]
