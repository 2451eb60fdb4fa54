"""A server as a process of its own, for the demo and the benchmarks."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from prosem.runtime.tls import tls_for, verified

BOOT_S = 90.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def start_server(port: int, data_dir: Path, log: Path, *options: str) -> subprocess.Popen[bytes]:
    """`prosem serve` in a session of its own, so that Ctrl-C in the terminal reaches only us."""
    return start_command(log, "serve", "--port", str(port), "--data-dir", str(data_dir), *options)


def start_broker(port: int, server: str, name: str, log: Path) -> subprocess.Popen[bytes]:
    """`prosem broker`, likewise."""
    return start_command(log, "broker", "--port", str(port), "--server", server, "--name", name)


def start_command(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Any command of ours, likewise."""
    command = [sys.executable, "-m", "api.commands.cli", *arguments]
    with open(log, "ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)


def wait_ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Whether the server serves before its time is up."""
    deadline = time.monotonic() + BOOT_S
    with httpx.Client(trust_env=False, verify=verified(tls_for(url))) as client:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if client.get(url + "/readyz").status_code == 200:
                    return True
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
    return False
