"""The JavaScript client: its own tests under Node.js, against a running server, and what would be published."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.node import FOLDER, tool


def test_under_node_against_a_server(server: str) -> None:
    done = subprocess.run(
        [tool("node"), "--test", "--test-reporter=spec", "test/"],
        cwd=FOLDER,
        env=os.environ | {"PROSEM_URL": server},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "skipped 0" in done.stdout


def test_the_package_holds_the_sources_and_nothing_else() -> None:
    done = subprocess.run(
        [tool("npm"), "pack", "--dry-run", "--json", "--offline"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    (package,) = json.loads(done.stdout)
    packed = {entry["path"] for entry in package["files"]}
    sources = {f"{folder}/{path.name}" for folder in ("src", "bin") for path in (FOLDER / folder).iterdir()}
    assert packed == sources | {"package.json", "README.md"}
    definition = json.loads((FOLDER / "package.json").read_text())
    assert "dependencies" not in definition
    for target in (definition["main"], definition["types"]):
        assert target.removeprefix("./") in packed


@pytest.mark.slow
def test_the_declarations_hold_for_typescript(tmp_path: Path) -> None:
    """The compiler comes from npm, so only where that can be reached."""
    fetched = subprocess.run(
        [
            tool("npm"),
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
            str(tmp_path),
            "typescript@5",
        ],
        capture_output=True,
        text=True,
        timeout=240,
    )
    if fetched.returncode:
        pytest.skip(f"npm has no TypeScript to offer: {fetched.stderr[-300:]}")
    compiler = tmp_path / "node_modules" / ".bin" / "tsc"
    done = subprocess.run(
        [str(compiler), "--project", str(FOLDER / "test")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout
