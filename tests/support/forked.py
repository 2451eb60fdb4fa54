"""Commands of ours as processes that need not import everything again.

A run of the tests starts hundreds of them, and a server takes a second of a core to import its modules. So one process
imports them once (`python -m tests.support.forked`) and forks itself for each command: the child has an environment,
a folder, files and a session of its own, and runs the command's `main`. Tests of the installation, of the documentation
and the acceptance kit start their commands with an interpreter of their own.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, NoReturn

from tests.support import authorities

PRELOADED = ("api.commands.serve", "api.attach.command", "api.poll.command", "prosem_client.client")
CAN_FORK = hasattr(os, "pidfd_open")  # how the forking process hears that a child ended
KEPT_B = 1 << 20  # bytes of one request: arguments and environment
ROOT = Path(__file__).parents[2]
_environment = dict(os.environ)  # of the process that forks, whatever a test changes


def _importing(environment: Mapping[str, str]) -> dict[str, str]:
    """What decides which modules a new interpreter imports."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith("PYTHON") or name == "PROSEM_KERNELS"
    }


class Forked:
    """A running command, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self.returncode: int | None = None
        self.pid = int(self._read_line())

    def poll(self) -> int | None:
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(["prosem"], timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _ended(self, wait_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], wait_s)[0]:
            self.returncode = int(self._read_line())
            self._status.close()
        return self.returncode

    def _read_line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            part = self._status.recv(1)
            assert part, "the process that forks commands has ended"
            line += part
        return line


Process = subprocess.Popen[bytes] | Forked


def start(
    *arguments: str,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: IO[bytes] | int = subprocess.DEVNULL,
    **variables: str,
) -> Process:
    """`prosem ARGUMENTS` in a session of its own; with an interpreter of its own where that would import other modules."""
    environment = os.environ | variables
    if not CAN_FORK or _importing(environment) != _importing(_environment):
        return subprocess.Popen(
            [sys.executable, "-m", "api.commands.cli", *arguments],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            start_new_session=True,
        )
    request = {"arguments": arguments, "environment": environment, "folder": os.getcwd()}
    mine, its = socket.socketpair()
    with its, open(os.devnull, "r+b") as nothing:
        files = [nothing if file == subprocess.DEVNULL else file for file in (stdin, stdout, stderr)]
        descriptors = [file if isinstance(file, int) else file.fileno() for file in files]
        _forking().ask(json.dumps(request).encode(), [*descriptors, its.fileno()])
    return Forked(mine)


def run(
    *arguments: str, stdin: str | None = None, timeout_s: float = 90, **variables: str
) -> subprocess.CompletedProcess[str]:
    """`prosem ARGUMENTS` to its end."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
    ):
        given.write((stdin or "").encode())
        given.seek(0)
        process = start(*arguments, stdin=given, stdout=out, stderr=errors, **variables)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(["prosem", *arguments], code, *texts)


class _Forking:
    """The process that forks, as its owner sees it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._requests, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._requests, its):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KEPT_B)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forked", str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd=ROOT,
                env=_environment,
            )
        atexit.register(self.close)

    def ask(self, request: bytes, descriptors: list[int]) -> None:
        with self._lock:
            socket.send_fds(self._requests, [request], descriptors)

    def close(self) -> None:
        if os.getpid() == self.owner:
            self._requests.close()
            self._process.wait()


_made: _Forking | None = None
_making = threading.Lock()


def _forking() -> _Forking:
    global _made
    with _making:
        if _made is None:
            _made = _Forking()
        return _made


# -- in the process that forks -----------------------------------------------------------------------------------
def _serve(requests: socket.socket) -> list[str] | None:
    """Fork for each request; the arguments in a child, and nothing here when the owner has ended."""
    events = selectors.DefaultSelector()
    events.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in events.select():
            if key.fileobj is not requests:
                ended, status = key.fd, key.data
                _, state = os.waitpid(status[0], 0)
                _say(status[1], os.waitstatus_to_exitcode(state))
                events.unregister(ended)
                os.close(ended)
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, KEPT_B, 4)
            if not message:
                return None
            *files, reply = descriptors
            status_socket = socket.socket(fileno=reply)
            pid = os.fork()
            if pid == 0:
                _close(events)
                return _become(json.loads(message), files, status_socket)
            for file in files:
                os.close(file)
            events.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status_socket))


def _close(events: selectors.BaseSelector) -> None:
    """What the process that forks has open is no business of its children."""
    for key in list(events.get_map().values()):
        if key.data is not None:
            key.data[1].close()
            os.close(key.fd)
    events.close()


def _say(status: socket.socket, number: int) -> None:
    with status, contextlib.suppress(BrokenPipeError):  # the test has ended without waiting for it
        status.sendall(b"%d\n" % number)


def _become(request: dict[str, object], files: list[int], status: socket.socket) -> list[str]:
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    folder, environment, arguments = request["folder"], request["environment"], request["arguments"]
    assert isinstance(folder, str)
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    _say(status, os.getpid())
    return arguments


def _end(main: Callable[[], None]) -> NoReturn:
    """Run to the end; what a dying interpreter takes apart piece by piece, half of what a short command costs, is let go."""
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        file.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _main() -> None:
    import gc
    import importlib

    from api.commands import cli

    for name in PRELOADED:
        importlib.import_module(name)
    authorities.shorten()
    gc.freeze()
    arguments = _serve(socket.socket(fileno=int(sys.argv[1])))
    if arguments is not None:
        sys.modules["__main__"] = cli
        sys.argv = [cli.__file__, *arguments]
        _end(cli.main)


if __name__ == "__main__":
    _main()
