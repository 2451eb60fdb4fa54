"""Containers, as far as no engine is needed: the health check, what the server says without a key, keys of the services."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.commands.health import check
from api.commands.process import free_port
from tests.support.processes import ServerProcess

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker" / "compose.yaml").read_text()
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    """A server on HTTPS at a port of its own, and the file of its certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    public, private = str(folder / "server.pem"), str(folder / "server-key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=a.example",
         "-out", public, "-keyout", private],
        check=True, capture_output=True,
    )  # fmt: skip
    made = ServerProcess("--tls-certificate", public, "--tls-key", private)
    made.start(wait=False)
    yield made, public
    made.remove()


def health(**variables: str) -> int:
    """The exit code of the image's health check in an environment like the container's."""
    found = re.search(r'^HEALTHCHECK .*CMD \["prosem", "(\w+)"\]$', DOCKERFILE, re.MULTILINE)
    assert found is not None
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROSEM")}
    command = [sys.executable, "-m", "api.commands.cli", found[1]]
    return subprocess.run(command, env=kept | variables, capture_output=True, timeout=60).returncode


def test_the_health_check_follows_port_and_tls(https: tuple[ServerProcess, str]) -> None:
    server, certificate = https
    port = server.url.rsplit(":", 1)[1]
    wait = lambda: health(PROSEM_HOST="0.0.0.0", PROSEM_PORT=port, PROSEM_TLS_CERTIFICATE=certificate)
    assert server.process is not None
    while wait() and server.process.poll() is None:
        pass
    assert wait() == 0, server.log
    assert health(PROSEM_PORT=port) == 1, "it speaks HTTPS"
    assert check("127.0.0.1", free_port(), False) == 1


def test_a_server_without_a_key_says_what_to_pass() -> None:
    made = ServerProcess("--host", "0.0.0.0")
    made.start(wait=False)
    assert made.process is not None
    assert made.process.wait(90) == 1
    assert "PROSEM_ADMIN_KEY" in made.log
    assert "docker run --env PROSEM_ADMIN_KEY" in made.log
    made.remove()


def test_the_documented_lines_set_every_secret_that_compose_needs() -> None:
    needed = set(re.findall(r"\$\{(\w+):\?", COMPOSE))
    assert needed == {"POSTGRES_PASSWORD", "PROSEM_ADMIN_KEY", "PROSEM_BROKER_KEY", "PROSEM_METRICS_KEY"}
    guide = (ROOT / "docs" / "howto" / "own-database.md").read_text()
    for text in (COMPOSE.partition("\nname:")[0], guide):
        (named,) = re.findall(r"for name in ([A-Z_ ]+); do", text)
        assert set(named.split()) == needed
        assert "Compose v2" in text


def test_services_have_keys_of_their_own_roles() -> None:
    assert 'PROSEM_API_KEY: "${PROSEM_BROKER_KEY:?is not set}"' in COMPOSE
    assert "environment: PROSEM_METRICS_KEY" in COMPOSE
    assert "/run/secrets/metrics-key" in (ROOT / "docker" / "prometheus.yaml").read_text()
    assert COMPOSE.count("{PROSEM_ADMIN_KEY") == 1


def test_the_image_has_every_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {name.rstrip(".*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    taken = set((ROOT / "docker" / "Dockerfile.dockerignore").read_text().splitlines())
    assert {f"!{name}" for name in packages} <= taken


def test_the_image_installs_the_client_beside_the_server() -> None:
    assert "--no-build-isolation ./clients/python .\n" in DOCKERFILE
    assert "python -c" not in DOCKERFILE + COMPOSE
