"""Commands of ours as processes, started the way a user starts them."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import httpx

from api.commands.process import free_port
from tests.support import forked, secrets, template
from tests.support.waiting import until

BOOT_S = 90.0


def open_folder(prefix: str) -> Path:
    """A folder that the database's own user can reach."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o755)
    return folder


class CommandProcess:
    """A command of ours as a user starts it, in a process group of its own; what it says goes to a file."""

    process: forked.Process | None = None
    _said: Path | None = None

    def launch(self, said: Path, *arguments: str) -> None:
        secrets.note_options(arguments)
        self._said = said
        with open(said, "ab") as log:
            self.process = forked.start(*arguments, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._check_logs()

    def stop(self) -> int:
        """End it as Ctrl-C does; its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(40)
        self._check_logs()
        return code

    def _check_logs(self) -> None:
        """What it said, and what its PostgreSQL and NATS said, has no secret in it."""
        if self._said is None:
            return
        password = self._said.parent / "data" / "password"
        if password.exists():
            secrets.note(password.read_text().strip())
        secrets.check_folder(self._said.parent)


class ServerProcess(CommandProcess):
    """`prosem serve` or `prosem broker`."""

    def __init__(
        self, *options: str, folder: Path | None = None, command: str = "serve", port: int | None = None
    ) -> None:
        self.options, self.command, self.port = options, command, port
        self.folder = folder or open_folder("prosem-server-")
        self.url = ""

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def start(self, wait: bool = True) -> str:
        port = self.port or free_port()
        self.url = f"http://127.0.0.1:{port}"
        arguments = [self.command, "--port", str(port), *self.options]
        if self.command == "serve" and "--database" not in self.options:
            template.fill(self.folder / "data")
            arguments += ["--data-dir", str(self.folder / "data")]
        self.launch(self.folder / "server.log", *arguments)
        if wait:
            self.wait_ready()
        return self.url

    def wait_ready(self) -> None:
        until(self._is_ready, BOOT_S, lambda: f"the server did not become ready:\n{self.log[-3000:]}")

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the server ended:\n{self.log[-3000:]}"
        try:
            return httpx.get(self.url + "/readyz", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
