"""A PostgreSQL for one measurement, with the schema of a server and nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prosem.store.embedded import EmbeddedPostgres
from prosem.store.schema import migrate


@contextmanager
def migrated_postgres() -> Iterator[tuple[str, Path]]:
    """Its address, and a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="prosem-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the database's own user must reach it
        postgres = EmbeddedPostgres(folder / "data")
        url = postgres.start()
        try:
            migrate(url)
            yield url, folder
        finally:
            postgres.stop()
