"""A database that is set back: dumped by pg_dump and loaded again, as an operator restores a backup."""

from __future__ import annotations

import subprocess

import psycopg

from prosem.store.installation import _folders, _major

WAIT_S = 60  # for transactions that are under way


def dump(url: str) -> str:
    """The whole database as SQL that psycopg can load."""
    with psycopg.connect(url) as connection:
        major = str(connection.info.server_version // 10_000)
    program = next(folder for folder in _folders() if _major(folder) == major) / "bin" / "pg_dump"
    command = [str(program), "--inserts", "--rows-per-insert=200", "--no-owner", "--no-privileges", url]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return "\n".join(line for line in made.splitlines() if line and not line.startswith(("\\", "--"))) + "\n"


def restore(url: str, dumped: str) -> None:
    """As `pg_restore --clean` does: everything of ours is dropped and made again."""
    with psycopg.connect(url, options=f"-c lock_timeout={WAIT_S}s") as connection:
        schemas = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname = 'prosem' OR nspname LIKE 'tenant\\_%'"
        ).fetchall()
        for (schema,) in schemas:
            connection.execute(f'DROP SCHEMA "{schema}" CASCADE')  # type: ignore[call-overload]
        connection.execute(dumped)  # type: ignore[call-overload]
