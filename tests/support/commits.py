"""What happens in the place of a commit: a session that breaks before it, in it or after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from prosem.store.log import Writer
from prosem.store.partitions import Connection
from prosem.store.round_trip import Statement


def replace_commit(monkeypatch: pytest.MonkeyPatch, writer: Writer, commit: Callable[[], Any]) -> None:
    """Batches of the writer's present session are sent without their commit, and `commit` is called instead."""
    session, trip = writer.session.require(), writer._round_trip
    run = trip.run

    def run_apart(
        connection: Connection,
        statements: Iterable[Statement],
        ending: bytes | None,
        sent: Callable[[], None],
    ) -> None:
        if connection is session and ending == b"COMMIT":
            run(connection, statements, None, sent)
            commit()
        else:
            run(connection, statements, ending, sent)

    monkeypatch.setattr(trip, "run", run_apart)
