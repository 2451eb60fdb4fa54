"""Builds every image and runs it, for `make soak`: needs root, buildah and debootstrap, and the package index.

The services of docker/compose.yaml that use our images run as containers with the commands and variables that are written
there; PostgreSQL and NATS are processes of this machine, which the names `postgres` and `nats` lead to. The health check of
the image must pass, and a subscriber at a broker must receive what a publisher sends.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from prosem_client import Client

from api.commands.process import free_port
from prosem.brokers.embedded_nats import EmbeddedNats
from prosem.store.embedded import EmbeddedPostgres
from tests.containers.images import DOCKERFILE, NEEDED, ROOT, Container, Images, final_targets, missing
from tests.support.waiting import until

HEALTHY_S = 180.0
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
IMAGES = {"prosem": "server", "prosem-statistics": "statistics"}  # by the names in compose.yaml


class Services:
    """The services of compose.yaml on this machine: names of services in values are replaced by where they are."""

    def __init__(self, images: Images, addresses: dict[str, str]) -> None:
        self._images, self._addresses = images, addresses
        self._values = {name: secrets.token_hex(24) for name in _variables(COMPOSE)}

    def value(self, name: str) -> str:
        return self._values[name]

    def container(self, name: str, command: list[str] | None = None, **variables: str) -> Container:
        service = COMPOSE["services"][name]
        given = {variable: self._filled(str(text)) for variable, text in service["environment"].items()}
        return Container(
            self._images, IMAGES[service["image"]], command or service.get("command", ()), given | variables
        )

    def _filled(self, text: str) -> str:
        text = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: self._values[found[1]], text)
        for written, address in self._addresses.items():
            text = text.replace(written, address)
        return text


def _variables(document: Any) -> set[str]:
    return set(re.findall(r"\$\{(\w+):\?", str(document)))


@contextmanager
def running(container: Container) -> Iterator[Container]:
    container.start()
    assert container.process is not None
    try:
        yield container
    finally:
        os.killpg(container.process.pid, signal.SIGTERM)
        container.process.wait()


def run_services(images: Images, folder: Path) -> None:
    with ExitStack() as opened:
        postgres = EmbeddedPostgres(folder / "postgres")
        opened.callback(postgres.stop)
        nats = EmbeddedNats(folder / "nats")
        opened.callback(nats.stop)
        port, broker_port = free_port(), free_port()
        services = Services(
            images,
            {
                "nats://nats:4222": nats.start(),
                "http://server:8080": f"http://127.0.0.1:{port}",
            },
        )
        database = {"PROSEM_DATABASE": postgres.start()}
        migrate = services.container("migrate", **database)
        migrate.start()
        migrate.finish()
        server = services.container("server", **database, PROSEM_PORT=str(port))
        broker = services.container("broker-1", PROSEM_PORT=str(broker_port))
        for container in (server, broker):
            opened.enter_context(running(container))
            until(container.check_health, HEALTHY_S, lambda one=container: one.log[-3000:])
        _publish(port, broker_port, services.value("PROSEM_ADMIN_KEY"))
        print(
            "migrated; server and broker are healthy, and the broker delivers what was published", flush=True
        )
        # A container engine makes the name of the host known in the container; a chroot has none.
        statistics = services.container("statistics", _refresh(), **database, SPARK_LOCAL_IP="127.0.0.1")
        statistics.start()
        statistics.finish()
        print("statistics were computed", flush=True)


def _refresh() -> list[str]:
    """The command that the service runs every night."""
    (_, _, script) = COMPOSE["services"]["statistics"]["command"]
    (found,) = re.findall(r"(prosem stats refresh .*?) \|\|", script)
    return found.split()  # type: ignore[no-any-return]


def _publish(port: int, broker_port: int, key: str) -> None:
    with (
        Client(f"http://127.0.0.1:{port}", api_key=key) as publisher,
        Client(f"http://127.0.0.1:{broker_port}", api_key=key) as subscriber,
    ):
        publisher.create_table("t", {"k": "integer"}, ["k"])
        followed = subscriber.subscribe("SELECT COUNT(*) FROM t")
        publisher.publish("t", [{"op": "insert", "row": {"k": number}} for number in range(100)])
        found = followed.next(60)
        while found.result != {"value": 100}:
            found = followed.next(60)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.containers", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where images are kept (default: a temporary folder)")
    given = parser.parse_args()
    if os.geteuid() != 0 or missing():
        print(f"building images needs root, and the commands {' and '.join(NEEDED)}")
        return 1
    folder = given.folder or Path(tempfile.mkdtemp(prefix="prosem-images-"))
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    try:
        images = Images(folder)
        since = time.perf_counter()
        images.make_base(folder / "base")
        print(f"base: {time.perf_counter() - since:.0f} s", flush=True)
        for target in final_targets(DOCKERFILE.read_text()):
            seconds = images.build(target)
            print(f"{target}: {seconds:.0f} s, {images.sizes()[target]}", flush=True)
        with tempfile.TemporaryDirectory(prefix="prosem-services-") as made:
            Path(made).chmod(0o755)
            run_services(images, Path(made))
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
