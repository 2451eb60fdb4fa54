"""`make first-answer`: the time from `git clone` to an answer that changes in the browser, step by step."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from api.commands.process import free_port
from tests.api.test_console import ARGUMENTS, CHROMIUM

ROOT = Path(__file__).parents[1]


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="prosem-first-answer-"))
    folder.chmod(0o755)  # the database runs as another user
    clock = _Clock()
    variables = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    try:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "clone")], check=True)
        clock.lap("git clone")
        subprocess.run(["make", "--silent", "install"], cwd=folder / "clone", env=variables, check=True)
        clock.lap("make install")
        _demo(folder, variables, clock)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{time.monotonic() - clock.started:6.1f} s in all")
    return 0


def _demo(folder: Path, variables: dict[str, str], clock: _Clock) -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    command = [
        ".venv/bin/prosem",
        "demo",
        "--port",
        url.rsplit(":", 1)[1][:-1],
        "--data-dir",
        str(folder / "data"),
    ]
    demo = subprocess.Popen(
        command,
        cwd=folder / "clone",
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert demo.stdout is not None
        print("  ", demo.stdout.readline().strip())
        clock.lap("prosem demo prints the address")
        while "Ready" not in (line := demo.stdout.readline()):
            assert line, "the demo ended"
        clock.lap("the server is ready")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
            page = browser.new_page()
            page.goto(url)
            page.locator(".card .changed").first.wait_for(timeout=60_000)
            clock.lap("an answer has changed in the browser")
            browser.close()
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        demo.wait(60)


class _Clock:
    def __init__(self) -> None:
        self.started = self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        print(f"{now - self._last:6.1f} s  {name}", flush=True)
        self._last = now


if __name__ == "__main__":
    sys.exit(main())
