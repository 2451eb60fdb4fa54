"""A Spark standalone cluster on this machine: a master and workers with one core each, as processes of their own.

Nothing of ours is in the environment of the workers: their `PYTHONPATH` has packages with our names that cannot be imported,
so that an executor runs what the driver ships to it, and nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pyspark

from api.commands.process import free_port
from pipeline.statistics.java import find_java
from pipeline.statistics.session import SHIPPED
from tests.support.waiting import until

HOME = Path(pyspark.__file__).parent
MEMORY = "512m"  # of an executor, and so of a worker
_WHOLE = 100  # seconds that the start and the end of a process may take


@dataclass
class Cluster:
    """A running master with its workers; `folder` has what they say, and below `worker-N` the work of its executors."""

    folder: Path
    environment: dict[str, str]
    master: str = ""
    console: str = ""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def launch(self, name: str, kind: str, *arguments: str) -> None:
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
            )
        self.processes.append(process)

    def alive_workers(self) -> int:
        """As the master counts them; 0 while it does not answer."""
        assert all(process.poll() is None for process in self.processes), self.said()
        try:
            state = httpx.get(f"{self.console}/json/", trust_env=False)
        except httpx.HTTPError:
            return 0
        return int(state.json()["aliveworkers"]) if state.is_success else 0

    def executors(self) -> dict[str, set[str]]:
        """The applications that each worker has had an executor of."""
        return {
            worker.name: {path.parent.name for path in worker.glob("app-*/*") if path.is_dir()}
            for worker in sorted(self.folder.glob("worker-*"))
            if worker.is_dir()
        }

    def said(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2_000:] for path in self.folder.glob("*.log"))

    def stop(self) -> None:
        """Workers end their executors when they are asked to end; what does not end is killed."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(_WHOLE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster whose workers are registered; ended with the block, however that ends."""
    java = find_java(folder)
    hidden = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    environment = hidden | {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYTHONPATH": str(_refusing(folder / "refusing")),
    }
    if java.home is not None:
        environment["JAVA_HOME"] = str(java.home)
    made = Cluster(folder, environment)
    with ExitStack() as stack:
        stack.callback(made.stop)
        port, console = free_port(), free_port()
        made.master, made.console = f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{console}"
        host = ("--host", "127.0.0.1")
        made.launch("master", "master.Master", *host, "--port", str(port), "--webui-port", str(console))
        for number in range(workers):
            name = f"worker-{number}"
            limits = ("--cores", "1", "--memory", MEMORY, "--webui-port", "0")
            work = ("--work-dir", str(folder / name), made.master)
            made.launch(name, "worker.Worker", *host, *limits, *work)
        until(lambda: made.alive_workers() == workers, _WHOLE, made.said)
        yield made


def _refusing(folder: Path) -> Path:
    """Packages with the names of ours, none of which can be imported."""
    for name in SHIPPED:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise ImportError('this is no code that was shipped')\n")
    return folder
