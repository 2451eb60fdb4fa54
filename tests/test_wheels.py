"""What is published: the wheels hold everything, and run where there is no checkout."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prosem_client import Client

from api.commands.process import free_port
from tests.support.processes import open_folder
from tests.support.waiting import until

ROOT = Path(__file__).parents[1]
CLIENT = ROOT / "clients" / "python"
ASYNCIO_ALONE = """
import pytest

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pip() -> Iterator[Path]:
    """A Python that has pip: the environment of the tests need not have it (one made by uv has not)."""
    folder = open_folder("prosem-pip-")
    venv.create(folder / "venv", with_pip=True)
    yield folder / "venv" / "bin" / "python"
    shutil.rmtree(folder, ignore_errors=True)


def built(pip: Path, folder: Path, into: Path) -> Path:
    """The wheel of a project, made from a copy: building leaves files behind."""
    into = into / f"wheel-of-{folder.name}"
    copy = into / "source"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "build", "*.egg-info", "__pycache__", "node_modules", ".*_cache"
    )
    shutil.copytree(folder, copy, ignore=ignored)
    command = [str(pip), "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(into), str(copy)],
        env=os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")},  # setuptools is lent
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = into.glob("*.whl")
    return wheel


class Installed:
    """A virtual environment with some wheels in it; what they need is lent by the environment of the tests."""

    def __init__(self, pip: Path, folder: Path, *wheels: Path) -> None:
        self.folder = folder
        self._pip = pip
        venv.create(folder / "venv", with_pip=False)
        self.bin = folder / "venv" / "bin"
        self.variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PROSEM"))
        } | {"PYTHONPATH": sysconfig.get_path("purelib"), "HOME": str(folder)}
        self.pip("install", "--no-deps", "--no-index", *map(str, wheels))

    def pip(self, *words: str) -> None:
        pip = [str(self._pip), "-m", "pip", "--python", str(self.bin / "python"), "--quiet"]
        done = subprocess.run([*pip, *words], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr

    def where(self, module: str) -> str:
        """The file of a module, relative to the environment; empty if there is none in it."""
        done = self.run("python", "-c", f"import {module}; print({module}.__file__)")
        return done.stdout.strip() if done.stdout.startswith(str(self.folder)) else ""

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=300,
        )


@pytest.fixture
def folder() -> Iterator[Path]:
    made = open_folder("prosem-wheel-")
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_one_wheel_is_uninstalled_and_the_other_still_works(pip: Path, folder: Path) -> None:
    server, client = built(pip, ROOT, folder), built(pip, CLIENT, folder)
    packages = [{name.partition("/")[0] for name in names_of(wheel)} for wheel in (server, client)]
    assert {name for name in packages[0] & packages[1] if not name.endswith(".dist-info")} == set()
    (metadata,) = [name for name in names_of(server) if name.endswith("METADATA")]
    assert "Requires-Dist: prosem-client" in zipfile.ZipFile(server).read(metadata).decode()
    installed = Installed(pip, folder, server, client)
    assert installed.where("prosem_client")
    assert installed.where("api.commands.cli")
    installed.pip("uninstall", "--yes", "prosem")
    assert installed.where("prosem_client")
    assert not (installed.bin / "prosem").exists()
    installed.pip("install", "--no-deps", "--no-index", str(server))
    installed.pip("uninstall", "--yes", "prosem-client")
    assert installed.where("prosem.values.access")
    assert not installed.where("prosem_client")
    installed.pip("install", "--no-deps", "--no-index", str(client))
    assert installed.run("prosem", "--version").stdout.startswith("prosem ")


def names_of(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


def test_the_server_runs_from_its_wheel(pip: Path, folder: Path) -> None:
    wheel = built(pip, ROOT, folder)
    names = names_of(wheel)
    migrations = {path.name for path in (ROOT / "migrations" / "versions").glob("*.py")}
    assert {f"migrations/versions/{name}" for name in migrations} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "clients", "docs", "prosem_client"))]
    installed = Installed(pip, folder, wheel, built(pip, CLIENT, folder))
    where = installed.run(
        "python", "-c", "import api, prosem_client; print(api.__file__, prosem_client.__file__)"
    )
    assert where.stdout.count(str(folder)) == 2, where.stdout + where.stderr
    assert installed.run("prosem", "--version").stdout.startswith("prosem ")

    url = f"http://127.0.0.1:{free_port()}"
    log = (folder / "server.log").open("wb")
    server = subprocess.Popen(
        [
            str(installed.bin / "prosem"),
            "serve",
            "--port",
            url.rsplit(":", 1)[1],
            "--data-dir",
            str(folder / "data"),
        ],
        cwd=folder,
        env=installed.variables,
        stdout=log,
        stderr=log,
    )
    try:
        with httpx.Client(base_url=url, trust_env=False) as http:
            until(lambda: server.poll() is not None or _is_ready(http))
            assert server.poll() is None, (folder / "server.log").read_text()
            for page in ("/", "/docs"):
                files = re.findall(r'(?:src|href)="(/console/[^"]+)"', http.get(page).text)
                assert len(files) >= 4
                for file in files:
                    assert http.get(file).status_code == 200, file
            base = files[0].rsplit("/", 1)[0]
            sources = [path.name for path in (ROOT / "clients" / "js" / "src").glob("*.js")]
            assert all(http.get(f"{base}/client/{name}").status_code == 200 for name in sources)
        with Client(url) as client:
            client.create_table("t", {"k": "integer"}, ["k"])
            rows = client.subscribe("SELECT * FROM t WHERE k > 0")
            client.publish("t", [{"op": "insert", "row": {"k": 1}}])
            assert rows.next(30).result == {"rows": [{"k": 1}]}
    finally:
        server.terminate()
        assert server.wait(60) == 0
        log.close()


def test_the_demo_runs_from_the_wheels_as_uvx_and_pipx_run_it(pip: Path, folder: Path) -> None:
    """The first line says where to look; then answers change, also where there is no terminal."""
    installed = Installed(pip, folder, built(pip, ROOT, folder), built(pip, CLIENT, folder))
    with subprocess.Popen(
        [
            str(installed.bin / "prosem"),
            "demo",
            "--port",
            str(free_port()),
            "--data-dir",
            str(folder / "data"),
        ],
        cwd=folder,
        env=installed.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        try:
            lines = [demo.stdout.readline()]
            assert (found := re.match(r"Console: (http://\S+/) ", lines[0])), lines
            while not re.search(r"^seq \d+: SELECT", lines[-1]):
                lines.append(demo.stdout.readline())
                assert lines[-1], "".join(lines)
            assert httpx.get(found[1], trust_env=False).status_code == 200
        finally:
            demo.send_signal(signal.SIGINT)
        lines.append(demo.stdout.read())
        assert demo.wait(60) == 0, "".join(lines)
        assert "\x1b" not in "".join(lines)


def _is_ready(http: httpx.Client) -> bool:
    try:
        return http.get("/readyz").status_code == 200
    except httpx.HTTPError:
        return False


def test_the_client_passes_its_tests_from_its_wheel(pip: Path, folder: Path) -> None:
    wheel = built(pip, CLIENT, folder)
    names = set(names_of(wheel))
    assert "prosem_client/py.typed" in names
    sources = (ROOT / "clients" / "python" / "prosem_client").iterdir()
    assert {f"prosem_client/{path.name}" for path in sources if path.is_file()} <= names
    installed = Installed(pip, folder, wheel)
    for file in ("clients/test_client.py", "support/waiting.py"):
        (folder / "tests" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / file, folder / "tests" / file)
    (folder / "conftest.py").write_text(ASYNCIO_ALONE)
    tests = "tests/clients/test_client.py"
    options = ("-q", "-p", "no:cacheprovider", "--import-mode", "importlib", "--anyio-mode", "auto")
    done = installed.run("python", "-m", "pytest", *options, tests)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "import prosem_client" in (folder / tests).read_text()
    where = installed.run("python", "-c", "import prosem_client; print(prosem_client.__file__)")
    assert where.stdout.startswith(str(folder))
