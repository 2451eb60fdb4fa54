"""Is there a living PostgreSQL on this cluster? The pid file alone does not say: it may be stale, its
number may belong to another program by now, and an unreaped child looks alive to `kill(pid, 0)`.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What `postmaster.pid` says of a living postmaster; no port while it is about to start."""

    pid: int
    port: int | None
    stopping: bool


def find(cluster: Path) -> Postmaster | None:
    """The postmaster that runs on this cluster, or None; a stale pid file is PostgreSQL's to replace."""
    try:
        lines = (cluster / "postmaster.pid").read_text(errors="replace").splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    if pid <= 0 or not is_running(pid, cluster):
        return None
    port = int(lines[3]) if len(lines) > 3 and lines[3].strip().isdigit() else None
    return Postmaster(pid, port, stopping=len(lines) > 7 and lines[7].strip() == "stopping")


def is_running(pid: int, cluster: Path) -> bool:
    """Whether `pid` is a postgres on this cluster that is neither dead nor a zombie."""
    reap(pid)
    state, command = _inspect(pid)
    return state not in ("", "Z", "X") and "postgres" in command and str(cluster) in command


def reap(pid: int) -> None:
    """Collect the process if it is an ended child of ours (an earlier server in this same process)."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _inspect(pid: int) -> tuple[str, str]:
    """The state letter and the command line of a process; empty if there is none."""
    if os.path.isdir("/proc/self"):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
                state = handle.read().rpartition(")")[2].split()[0]
            with open(f"/proc/{pid}/cmdline", "rb") as handle:
                return state, os.fsdecode(handle.read().replace(b"\0", b" "))
        except (OSError, IndexError):
            return "", ""
    output = subprocess.run(
        ["ps", "-ww", "-o", "stat=,command=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    state, _, command = output.strip().partition(" ")
    return state[:1], command
