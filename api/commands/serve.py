"""Run the application under uvicorn until a signal or a failure ends it."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import ssl
import sys
from types import FrameType

import uvicorn
from fastapi import FastAPI

from api.broker.app import make_broker_app
from api.broker.process import Broker
from api.commands.listening import bound
from api.commands.workers import Workers, end_with, number_of_workers
from api.http.app import make_app
from api.http.connections import LimitedHttp, Limits
from api.http.websocket_frames import FrameProtocol
from api.server.kernels import configure_kernels
from api.server.lifetime import ServerLifetime
from api.server.logs import configure_logging
from api.server.settings import BrokerSettings, Settings
from prosem.runtime.garbage import COLLECT, look_at_young
from prosem.values.errors import SetupError

log = logging.getLogger("prosem")
SWITCH_S = 0.001  # the loop must not wait 5 ms for the engine thread at each of the hops of an event


class Runner(uvicorn.Server):
    """Ends by itself after a signal, instead of by the signal: Ctrl-C is no failure."""

    is_signalled = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.is_signalled = True
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        look_at_young(counter)
        return await super().on_tick(counter)


def serve(settings: Settings) -> int:
    """Exit code 0 after a signal, 1 when the server could not start.

    A server that another has taken the database over from starts again from nothing: as a standby it waits, else it is
    refused like any second server.
    """
    configure_logging(settings.log_level, settings.log_format)
    configure_kernels(settings.kernels)
    count = number_of_workers(settings.workers)
    if not count:
        return _serve(settings, None)
    check_tls(settings.tls_certificate, settings.tls_key)
    with Workers(settings, count) as workers:
        return _serve(workers.settings, workers)


def _serve(settings: Settings, workers: Workers | None) -> int:
    while True:
        made = ServerLifetime(settings, workers.key if workers else "")
        if workers is not None:
            made.metrics.restarts = workers.restarts
        code, is_signalled = _run(made, make_app(made), settings, workers)
        if not made.is_superseded or is_signalled:
            return code
        log.warning("%s; starting again", made.failure)
        del made
        gc.unfreeze()
        gc.collect()


def serve_broker(settings: BrokerSettings) -> int:
    """The same for a broker."""
    configure_logging(settings.log_level, settings.log_format)
    if settings.lifeline_fd >= 0:
        end_with(settings.lifeline_fd)
    made = Broker(settings)
    return _run(made, make_broker_app(made), settings)[0]


def _run(
    made: ServerLifetime | Broker,
    app: FastAPI,
    settings: Settings | BrokerSettings,
    workers: Workers | None = None,
) -> tuple[int, bool]:
    """The exit code, and whether a signal ended it. With workers the server itself listens on a port for them alone."""
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*COLLECT)
    sockets = None
    if workers is not None:
        sockets = [workers.inner()]
    elif isinstance(settings, BrokerSettings) and settings.listen_fd >= 0:
        sockets = [socket.socket(fileno=settings.listen_fd)]
    else:
        bound(settings.host, settings.port).close()  # refused before anything is started
    runner = Runner(config(app, settings))

    def stop() -> None:
        runner.should_exit = True

    made.on_failure = stop
    if workers is not None:
        workers.start(stop)
    runner.run(sockets)
    is_failed = made.failure or (workers is not None and workers.is_failed)
    return (1 if is_failed and not runner.is_signalled else 0), runner.is_signalled


def check_tls(certificate: str, key: str) -> None:
    """SetupError if HTTPS is requested and cannot be served."""
    if bool(certificate) != bool(key):
        raise SetupError("HTTPS needs both files: --tls-certificate and --tls-key")
    if certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, lambda: "")
        except (OSError, ValueError) as error:
            raise SetupError(f"--tls-certificate and --tls-key cannot be used: {error}") from None


def config(app: FastAPI, settings: Settings | BrokerSettings) -> uvicorn.Config:
    check_tls(settings.tls_certificate, settings.tls_key)
    app.state.limits = Limits(
        settings.max_header_kb << 10,
        settings.header_timeout_s,
        settings.body_timeout_s,
        settings.write_timeout_s,
    )
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        http=LimitedHttp,
        ws=FrameProtocol,
        ws_max_size=settings.max_body_mb << 20,
        ws_per_message_deflate=False,
        ws_ping_interval=settings.ping_s,
        ws_ping_timeout=settings.ping_s,
        timeout_graceful_shutdown=3,
        ssl_certfile=settings.tls_certificate or None,
        ssl_keyfile=settings.tls_key or None,
    )
