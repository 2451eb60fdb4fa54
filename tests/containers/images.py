"""The images of docker/Dockerfile, built without a registry and without a container engine: by buildah, as root.

The base image is made by debootstrap and has the name that the Dockerfile begins with: the Python of Debian instead of that
of the official image, and otherwise the same commands. Instructions run in a chroot, with the network of this machine.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
NEEDED = ("buildah", "debootstrap")
SUITE = "bookworm"  # its Python is that of the Dockerfile
PACKAGES = "python3,libpython3-dev,python3-venv,python3-pip,python-is-python3,ca-certificates"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def base_name(dockerfile: str) -> str:
    """The image that every stage begins with that does not begin with another stage.

    >>> base_name("FROM a:1 AS x\\nFROM x AS y\\nFROM a:1 AS z\\n")
    'a:1'
    """
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", dockerfile, re.MULTILINE)
    (name,) = {begin for begin, _ in stages} - {stage for _, stage in stages}
    return name


def final_targets(dockerfile: str) -> list[str]:
    """The stages that no other one uses: building them builds every stage.

    >>> final_targets("FROM a:1 AS x\\nFROM a:1 AS y\\nCOPY --from=x /x /x\\nFROM a:1 AS z\\n")
    ['y', 'z']
    """
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", dockerfile, re.MULTILINE)
    used = {begin for begin, _ in stages} | set(re.findall(r"--from=(\S+)", dockerfile))
    return [stage for _, stage in stages if stage not in used]


def missing() -> list[str]:
    """The commands that building needs and this machine does not have."""
    return [name for name in NEEDED if shutil.which(name) is None]


@dataclass
class Images:
    """Images and containers in a folder of their own."""

    folder: Path

    def command(self, *arguments: str) -> list[str]:
        kept = ("--storage-driver", "vfs", "--root", str(self.folder / "storage"))
        return ["buildah", *kept, "--runroot", str(self.folder / "run"), *arguments]

    def buildah(self, *arguments: str) -> str:
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (
            f"buildah {' '.join(arguments)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
        return done.stdout.strip()

    def make_base(self, folder: Path) -> None:
        """The base image; `folder` is where debootstrap makes it, or has made it before."""
        name = base_name(DOCKERFILE.read_text())
        if not (folder / "usr" / "bin" / "pip").exists():
            command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(folder)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for marker in folder.glob("usr/lib/python3.*/EXTERNALLY-MANAGED"):
            marker.unlink()  # the official image lets pip install, too
        if CERTIFICATES.exists():
            shutil.copy(CERTIFICATES, folder / CERTIFICATES.relative_to("/"))
        container = self.buildah("from", "scratch")
        self.buildah("copy", "--quiet", container, str(folder), "/")
        self.buildah("config", "--env", f"PIP_CERT={CERTIFICATES}", "--cmd", "python", container)
        self.buildah("commit", "--quiet", "--rm", "--format", "docker", container, name)

    def build(self, target: str) -> float:
        """The image of a stage under its name; how long it took."""
        since = time.perf_counter()
        options = ("--isolation", "chroot", "--pull-never", "--format", "docker", "--target", target)
        ignored = ("--ignorefile", str(DOCKERFILE.with_name("Dockerfile.dockerignore")))
        self.buildah("bud", *options, *ignored, "--tag", target, "--file", str(DOCKERFILE), str(ROOT))
        return time.perf_counter() - since

    def describe(self, image: str) -> dict[str, Any]:
        """The image as it was configured: user, environment, command, health check."""
        found: dict[str, Any] = json.loads(self.buildah("inspect", "--type", "image", image))
        return found["Docker"]["config"]  # type: ignore[no-any-return]

    def sizes(self) -> dict[str, str]:
        lines = self.buildah("images", "--noheading", "--format", "{{.Name}} {{.Size}}").splitlines()
        return {line.split(" ", 1)[0].rpartition("/")[2]: line.split(" ", 1)[1].strip() for line in lines}


class Container:
    """A command in a container of an image, with its user and environment, as a process of this machine."""

    def __init__(
        self,
        images: Images,
        image: str,
        command: Iterable[str] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self._images = images
        self._config = images.describe(image)
        self._command = list(command) or self._config["Cmd"]
        self._name = images.buildah("from", "--pull-never", image)
        self._log = images.folder / f"{self._name}.log"
        self._variables = [
            option for item in (environment or {}).items() for option in ("--env", "=".join(item))
        ]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _run(self, command: Iterable[str]) -> list[str]:
        return self._images.command(
            "run", "--isolation", "chroot", *self._variables, self._name, "--", *command
        )

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._run(self._command), stdout=log, stderr=log, start_new_session=True
            )

    def check_health(self) -> bool:
        """The image's own health check."""
        assert self.process is not None
        assert self.process.poll() is None, f"the container ended:\n{self.log[-3000:]}"
        kind, *command = self._config["Healthcheck"]["Test"]
        assert kind == "CMD"
        return subprocess.run(self._run(command), capture_output=True, check=False).returncode == 0

    def finish(self) -> None:
        """Wait for a command that ends by itself; it must succeed."""
        assert self.process is not None
        assert self.process.wait() == 0, self.log[-3000:]
