"""`prosem backup` and `prosem restore`: the whole database in one file, and back, with progress on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from api import VERSION
from api.commands.database import database_of
from prosem.store.backup import back_up
from prosem.store.backup_file import BackupReader, Manifest
from prosem.store.backup_file import Progress as Report
from prosem.store.restoring import restore as restore_backup
from prosem.values.errors import SetupError


def backup(database: str, folder: Path, output: str) -> int:
    """Write a backup; the path of the file alone goes to standard output."""
    path = Path(output or f"prosem-{datetime.now(UTC):%Y%m%d-%H%M%S}.backup").expanduser().absolute()
    if not database and not (folder / "cluster").exists():
        raise SetupError(f"there is no database in {folder}: give --data-dir or --database")
    with database_of(database, folder, is_migrated=False) as url, _reported() as (progress, task):
        manifest = back_up(url, path, VERSION, _report(progress, task, "saving"))
    _say(f"saved {_described(manifest)}; the file has {decimal(path.stat().st_size)}")
    print(path)
    return 0


def restore(database: str, folder: Path, source: str, is_replacing: bool) -> int:
    """Restore a backup into a database that no server uses."""
    path = Path(source).expanduser().absolute()
    with BackupReader.open(path) as opened:  # refused before a PostgreSQL is started
        total = 2 * opened.manifest.size_bytes  # read once to verify, once to load
    with database_of(database, folder, is_migrated=False) as url, _reported(total) as (progress, task):
        manifest, timeline = restore_backup(
            url, path, _report(progress, task, "restoring"), is_replacing=is_replacing
        )
    _say(
        f"restored {_described(manifest)}; timeline {timeline.id} begins. Start the server with prosem serve"
    )
    return 0


def _described(manifest: Manifest) -> str:
    tables = sum(part.member.startswith("tables/") for part in manifest.parts)
    rows = sum(part.rows for part in manifest.parts if part.member.startswith("tables/"))
    return (
        f"{tables} tables with {rows:,} rows and {manifest.subscriptions:,} subscriptions as of seq"
        f" {manifest.last_seq:,} (schema {manifest.schema}, {decimal(manifest.size_bytes)})"
    )


def _say(text: str) -> None:
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)


@contextmanager
def _reported(total: int | None = None) -> Iterator[tuple[Progress, TaskID]]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield progress, progress.add_task("", total=total)


def _report(progress: Progress, task: TaskID, verb: str) -> Report:
    def report(name: str, size_bytes: int) -> None:
        progress.update(task, description=f"{verb} {name}", advance=size_bytes)

    return report
