"""A PostgreSQL of our own, as a child process.

    <data_dir>/cluster        the database, owned by the user PostgreSQL runs under
    <data_dir>/password       of the database user `prosem`; only ours to read
    <data_dir>/port           the last port, used again if it is free
    <data_dir>/postgres.log   what PostgreSQL says
    <data_dir>/lock           held while a server uses the folder; let go by the kernel if the server dies

Invariants: one running server per data folder; a new cluster appears under its name only when it is
complete; the child runs in a session of its own, so that Ctrl-C reaches only us. If a server was
killed, its PostgreSQL keeps running and is adopted.
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
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import psycopg
from psycopg import sql

from prosem.store import postmaster
from prosem.store.installation import Account, account, installation
from prosem.values.errors import SetupError

USER = DATABASE = "prosem"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_connections": "50",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "synchronous_commit": "on",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "logging_collector": "off",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_LOG_LIMIT_BYTES = 16 * 2**20
_PAUSE_S = 0.05
_AGAIN = ("pre-existing shared memory block", "already exists", "Address already in use", "could not bind")


def url_of(data_dir: Path, port: int) -> str:
    """The address of the PostgreSQL of a data folder, with the password in it: not for logs."""
    password = (data_dir / "password").read_text().strip()
    return f"postgresql://{USER}:{password}@127.0.0.1:{port}/{DATABASE}?sslmode=disable&gssencmode=disable"


class EmbeddedPostgres:
    """Starts, adopts, watches and stops the PostgreSQL of one data folder. Used by one thread at a time."""

    def __init__(
        self, data_dir: Path, log: logging.Logger | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.cluster = self.data_dir / "cluster"
        self.log_file = self.data_dir / "postgres.log"
        self.port: int | None = None
        self.adopted = False
        self._log = log or logging.getLogger("prosem.postgres")
        self._settings = {**SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._lock: IO[str] | None = None
        self._launched_at = 0  # the size of the log file then

    # -- public ----------------------------------------------------------------------------------------------
    def start(
        self, timeout_s: float = 90.0, *, standby: bool = False, cancelled: Callable[[], bool] = lambda: False
    ) -> str:
        """Make PostgreSQL answer; its address. `standby` waits while another server uses the folder."""
        if self.port is not None and self.is_alive() and self._refusal() is None:
            return self.url  # asked, too: a postmaster that is being killed looks alive a moment longer
        self.port = None
        if self._process is not None and self._process.poll() is not None:
            self._process = None  # it has ended, and is reaped by the poll
        self._make_folder()
        self._take_lock(standby, cancelled)
        try:
            user = account(self.cluster)
            self._check_reach(user)
            if not self.cluster.exists():
                self._initialise(user)
            elif user.switch and self.cluster.stat().st_uid != user.uid:
                user.own(self.cluster)
            self._bring_up(user, time.monotonic() + timeout_s)
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self, timeout_s: float = 30.0) -> None:
        """End PostgreSQL (open sessions are cut, everything committed is kept) and let go of the folder."""
        if self._pid is not None and self.is_alive():
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
                try:
                    os.kill(self._pid, number)
                except ProcessLookupError:
                    break
                if self._gone(timeout_s):
                    break
                self._log.warning("PostgreSQL (process %d) did not end by signal %d", self._pid, number)
        if self._process is not None:
            self._process.wait()
        self._process = self._pid = self.port = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def is_alive(self) -> bool:
        """Whether the postmaster runs; a child that has ended is reaped here."""
        if self._process is not None:
            return self._process.poll() is None
        return self._pid is not None and postmaster.is_running(self._pid, self.cluster)

    @property
    def url(self) -> str:
        """The address for psycopg, with the password in it: not for logs."""
        if self.port is None:
            raise SetupError("the embedded PostgreSQL is not running")
        return url_of(self.data_dir, self.port)

    @property
    def pid(self) -> int | None:
        """The postmaster's process id, while there is one."""
        return self._pid

    # -- the folder ------------------------------------------------------------------------------------------
    def _make_folder(self) -> None:
        try:
            if not self.data_dir.exists():
                self.data_dir.mkdir(parents=True)
                self.data_dir.chmod(0o755)
            elif (
                os.geteuid() == 0
            ):  # the database's user must be able to enter; what is private in it has its own mode
                self.data_dir.chmod(self.data_dir.stat().st_mode | 0o011)
        except OSError as error:
            raise SetupError(
                f"cannot use the data folder {self.data_dir}: {error.strerror or error}"
            ) from error

    def _take_lock(self, standby: bool, cancelled: Callable[[], bool]) -> None:
        if self._lock is not None:
            return
        try:
            handle = open(self.data_dir / "lock", "a+", encoding="ascii")  # noqa: SIM115 (held until stop)
        except OSError as error:
            raise SetupError(f"cannot write in the data folder {self.data_dir}: {error.strerror}") from error
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if standby and not cancelled():
                    time.sleep(0.2)
                    continue
                handle.seek(0)
                owner = handle.read().strip() or "unknown"
                handle.close()
                raise SetupError(
                    f"another prosem serve (process {owner}) uses the data folder {self.data_dir}; "
                    "stop it, give another --data-dir, or wait for it with --standby"
                ) from None
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        self._lock = handle

    def _check_reach(self, user: Account) -> None:
        if user.switch and (barrier := user.barrier(self.cluster)) is not None:
            raise SetupError(
                f"as root, PostgreSQL runs under the user '{user.name}', which cannot enter {barrier}; "
                "give a --data-dir that all users can reach, such as /var/lib/prosem, or run as an ordinary user"
            )

    def _initialise(self, user: Account) -> None:
        """initdb into a folder beside, then one rename: a half-made cluster is never taken for one."""
        binaries = installation(user, self.cluster, self.data_dir / "postgresql")
        partial, password_file = self.data_dir / "cluster.partial", self.data_dir / "password.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        password_file.unlink(missing_ok=True)
        with open(os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
            handle.write(secrets.token_urlsafe(24) + "\n")
        if user.switch:
            user.own(partial)
            os.chown(password_file, user.uid, user.gid)
        self._log.info("making a new PostgreSQL cluster in %s", self.cluster)
        done = subprocess.run(
            [
                *(binaries / "bin" / "initdb", "-D", partial, "-U", USER, "--encoding=UTF8", "--locale=C"),
                *("--auth=scram-sha-256", f"--pwfile={password_file}"),
                *(["--no-sync"] if self._settings.get("fsync") == "off" else []),
            ],
            **user.child(),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SetupError(f"initdb failed in {partial}:\n{done.stdout[-2000:]}")
        if user.switch:
            os.chown(password_file, os.geteuid(), os.getegid())
        password_file.rename(self.data_dir / "password")
        partial.rename(self.cluster)

    # -- the process -----------------------------------------------------------------------------------------
    def _bring_up(self, user: Account, deadline: float) -> None:
        while True:
            running = postmaster.find(self.cluster)
            if running is not None and running.stopping:
                self._wait(deadline, "the PostgreSQL of a former server does not end")
                continue
            if running is not None and self._process is not None and running.pid == self._process.pid:
                self.port, self.adopted = running.port, True  # our own child, about to end or to answer again
            elif running is not None and running.port is not None:
                self._process, self._pid, self.port, self.adopted = None, running.pid, running.port, True
                self._log.info(
                    "adopting the running PostgreSQL (process %d, port %d)", running.pid, running.port
                )
            elif running is None:
                self._launch(user)
            if self.port is not None and self._ready(deadline):
                break
            self._wait(deadline, "PostgreSQL ends again and again")
        self._create_database()

    def _launch(self, user: Account) -> None:
        if self._process is not None:
            self._process.wait()  # the former one has ended: reap it
        binaries = installation(user, self.cluster, self.data_dir / "postgresql")
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_LIMIT_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        self._launched_at = self.log_file.stat().st_size if self.log_file.exists() else 0
        port = _free_port(self.data_dir / "port")
        options = [part for item in self._settings.items() for part in ("-c", "=".join(item))]
        command = [str(binaries / "bin" / "postgres"), "-D", str(self.cluster), "-p", str(port), *options]
        with open(self.log_file, "ab") as output:
            process: subprocess.Popen[bytes] = subprocess.Popen(command, **user.child(), stdout=output)
        self._process, self._pid, self.port, self.adopted = process, process.pid, port, False
        (self.data_dir / "port").write_text(str(port))

    def _ready(self, deadline: float) -> bool:
        """Wait until a session can be opened; False if the process ended and a second try may help."""
        while True:
            alive = self.is_alive()
            if (reason := self._refusal()) is None:
                return True
            if not alive:
                if any(text in self._tail(self._launched_at) for text in _AGAIN) or self.adopted:
                    return False
                raise SetupError(f"PostgreSQL does not start; the end of {self.log_file}:\n{self._tail()}")
            if "password authentication failed" in reason:
                raise SetupError(f"{self.data_dir / 'password'} does not hold the password of {self.cluster}")
            self._wait(deadline, f"PostgreSQL does not answer ({reason})")

    def _refusal(self) -> str | None:
        """Why no session can be opened at this moment, or None."""
        try:
            with psycopg.connect(self.url, dbname="postgres", connect_timeout=3):
                return None
        except psycopg.OperationalError as error:
            return str(error).strip()

    def _wait(self, deadline: float, complaint: str) -> None:
        if time.monotonic() > deadline:
            raise SetupError(f"{complaint}; the end of {self.log_file}:\n{self._tail()}")
        time.sleep(_PAUSE_S)

    def _tail(self, since: int = 0) -> str:
        try:
            with open(self.log_file, "rb") as handle:
                handle.seek(max(since, handle.seek(0, os.SEEK_END) - 2000))
                return handle.read().decode(errors="replace")
        except OSError:
            return ""

    def _create_database(self) -> None:
        with psycopg.connect(self.url, dbname="postgres", autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).fetchall():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))

    def _gone(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE_S)
        return True


def _free_port(last: Path) -> int:
    """The port of the last time if it is still free, so that open pools find the database again; else any."""
    try:
        preferred = int(last.read_text())
    except (OSError, ValueError):
        preferred = 0
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return int(probe.getsockname()[1])
    raise SetupError("no free TCP port on 127.0.0.1")
