"""`prosem serve --workers`: processes of the same machine that hold the subscribers' sockets, so that the engine's process
has none.

A worker is a broker that takes its connections from the server's own listening socket. What it cannot answer itself goes
on to the server, which listens on a loopback port for its workers alone. Messages reach them over the embedded NATS server,
held in memory: no write to disk is on the way. A worker that ends is started again; workers end with their server, however
that ends, since they hold one end of a pipe to it.

It pays where many sockets are attached and there are cores for them: folding and sending then take none of the engine's
time. It loses for publishers, whose requests take one more hop.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from types import TracebackType

from api.commands.listening import bound
from api.server.settings import BrokerSettings, Settings
from prosem.runtime.supervise import supervise_thread
from prosem.values.errors import SetupError

log = logging.getLogger("prosem.workers")
MOST = 64
BACKLOG = 2048  # connections that wait to be taken
AGAIN_S = 0.5  # until a worker that has ended is started again
END_S = 10.0  # that workers have to close their sockets
_OWN = frozenset({"server", "name", "advertise", "api_key", "nats", "listen_fd", "lifeline_fd"})
_SHARED = sorted(
    {one.name for one in fields(Settings)} & {one.name for one in fields(BrokerSettings)} - _OWN
)  # settings of server and worker


def number_of_workers(text: str) -> int:
    """How many there are to be; SetupError if that is no number.

    >>> number_of_workers("2")
    2
    """
    if text == "auto":
        return max(1, (os.cpu_count() or 1) - 1)
    if not text.isdigit() or int(text) > MOST:
        raise SetupError(f"--workers is a number up to {MOST} or auto, not {text!r}")
    return int(text)


class Workers:
    """Used on the main thread; one thread waits for each worker. `settings` are those of the server behind them.

    `restarts` counts how often each was started again.
    """

    def __init__(self, settings: Settings, count: int) -> None:
        self.key = secrets.token_urlsafe(32)
        self.is_failed = False
        self.restarts: dict[str, int] = defaultdict(int)
        self._count, self._public = count, settings
        self.settings = replace(settings, tls_certificate="", tls_key="")
        if not settings.nats:
            self.settings = replace(self.settings, nats="embedded", nats_storage="memory")
        self._listener = bound(settings.host, settings.port)
        self._listener.listen(BACKLOG)
        self._inner = socket.create_server(("127.0.0.1", 0))
        self._lifeline, self._held = os.pipe()
        self._closing = threading.Event()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []
        self._fail: Callable[[], None] = lambda: None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def inner(self) -> socket.socket:
        """A socket that listens where the workers ask; the server closes it."""
        return self._inner.dup()

    def start(self, fail: Callable[[], None]) -> None:
        """Start them, unless they run. `fail` is called when one refuses to serve: it has said why."""
        self._fail = fail
        if not self._threads:
            self._threads = [
                supervise_thread(
                    f"worker-{number}", partial(self._keep, number), self.restarts, self._closing
                )
                for number in range(1, self._count + 1)
            ]
            for thread in self._threads:
                thread.start()

    def close(self) -> None:
        """End them, and give the port back."""
        self._closing.set()
        self._inner.close()  # the goodbye of a worker, which is not answered any more, is refused at once
        for process in list(self._processes.values()):
            process.terminate()
        for thread in self._threads:
            thread.join(END_S)
        os.close(self._held)  # those that are left end now
        os.close(self._lifeline)
        self._listener.close()

    def _keep(self, number: int) -> None:
        while not self._closing.is_set():
            process = self._processes[number] = self._launch(number)
            if self._closing.is_set():
                process.terminate()
            code = process.wait()
            if self._closing.is_set():
                return
            if code == 1:
                self.is_failed = True
                self._fail()
                return
            log.warning("worker %d has ended (%d); starting it again", number, code)
            self.restarts[f"worker-{number}"] += 1
            self._closing.wait(AGAIN_S)

    def _launch(self, number: int) -> subprocess.Popen[bytes]:
        port = self._inner.getsockname()[1]
        options = {name: getattr(self._public, name) for name in _SHARED}
        options |= {"server": f"http://127.0.0.1:{port}", "name": f"worker-{number}", "nats": ""}
        options |= {"advertise": "none"}  # all have one address: no client can be sent to one of them
        options |= {"listen_fd": self._listener.fileno(), "lifeline_fd": self._lifeline}
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        return subprocess.Popen(
            [sys.executable, "-m", "api.commands.cli", "broker", *arguments],
            env=os.environ | {"PROSEM_API_KEY": self.key},
            pass_fds=(self._listener.fileno(), self._lifeline),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the server
        )


def end_with(lifeline: int) -> None:
    """End this process at once when the other end of the pipe is closed."""

    def wait() -> None:
        os.read(lifeline, 1)
        os._exit(0)

    threading.Thread(target=wait, name="prosem-lifeline", daemon=True).start()
