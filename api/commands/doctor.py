"""`prosem doctor`: is anything wrong with this installation?"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from api.server.settings import Settings
from cn.match import kernels
from prosem.values.errors import ProsemError
from prosem.values.redaction import redacted

Finding = tuple[bool, str]
_PACKAGES = (
    "fastapi",
    "uvicorn",
    "msgspec",
    "numpy",
    "psycopg",
    "sqlglot",
    "sortedcontainers",
    "alembic",
    "websockets",
)


def doctor(settings: Settings) -> int:
    """Look at every part; exit code 1 if something needs attention."""
    console, is_well = Console(), True
    for name, check in _checks(settings):
        try:
            fine, text = check()
        except ProsemError as error:
            fine, text = False, error.detail
        except Exception as error:
            fine, text = False, f"{type(error).__name__}: {error}"
        is_well = is_well and fine
        mark = "[green]ok[/green]   " if fine else "[red]wrong[/red]"
        console.print(f"{mark} {name}: {redacted(text)}", highlight=False)
    return 0 if is_well else 1


def _checks(settings: Settings) -> Iterator[tuple[str, Callable[[], Finding]]]:
    yield "Python", _python
    yield "packages", _packages
    yield "kernels", lambda: _kernels(settings.kernels)
    if settings.database:
        yield "database", lambda: _database(settings.database)
    else:
        yield "data folder", lambda: _folder(settings.folder)
        yield "embedded PostgreSQL", _embedded


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return sys.version_info >= (3, 11), f"{version} (3.11 or newer is needed)"


def _packages() -> Finding:
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            return False, f"{name} is missing; run make install"
    return True, ", ".join(found)


def _kernels(setting: str) -> Finding:
    """Both implementations are fine; a broken or outdated installation of the compiled one is not."""
    kernels.select(setting)
    return kernels.found() is not kernels.Found.UNUSABLE, kernels.describe()


def _folder(folder: Path) -> Finding:
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(nearest, os.W_OK):
        return False, f"{nearest} is not writable; choose another with --data-dir"
    free_gb = shutil.disk_usage(nearest).free / 1e9
    return (
        free_gb > 1,
        f"{folder} ({free_gb:.0f} GB free{'' if free_gb > 1 else '; more than 1 GB is needed'})",
    )


def _embedded() -> Finding:
    """Make a throw-away cluster, start it, ask it something, stop it."""
    import psycopg

    from prosem.store.embedded import EmbeddedPostgres
    from prosem.store.schema import migrate

    with tempfile.TemporaryDirectory(prefix="prosem-doctor-") as folder:
        os.chmod(folder, 0o755)
        postgres = EmbeddedPostgres(Path(folder) / "data")
        url = postgres.start()
        try:
            migrate(url)
            with psycopg.connect(url) as connection:
                row = connection.execute("SHOW server_version").fetchone()
        finally:
            postgres.stop()
    assert row is not None
    return True, f"version {row[0]} starts, takes the schema and stops"


def _database(url: str) -> Finding:
    import psycopg

    from prosem.store.schema import check_revision

    with psycopg.connect(url, connect_timeout=5) as connection:
        row = connection.execute("SHOW server_version").fetchone()
        check_revision(connection)
    assert row is not None
    return True, f"PostgreSQL {row[0]} answers and has the schema of this version"
