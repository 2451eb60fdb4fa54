"""The database of a server: opened, owned and, if it is the embedded one, started again when it has ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from api.server.settings import Settings
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.heartbeat import Heartbeat
from prosem.store.keys import ensure_key
from prosem.store.log import Writer
from prosem.store.schema import migrate
from prosem.values.access import Role

log = logging.getLogger("prosem")


@dataclass(frozen=True, slots=True)
class Database:
    """Made by `open`."""

    writer: Writer
    _open: ExitStack

    @property
    def url(self) -> str:
        """The address, which changes when the embedded PostgreSQL is started again."""
        return self.writer.session.url

    @classmethod
    def open(
        cls,
        settings: Settings,
        on_superseded: Callable[[], object],
        cancelled: Callable[[], bool],
        restarts: MutableMapping[str, int],
    ) -> Database:
        """Own the database; the embedded one is started if no other is given.

        Blocks. A failure leaves nothing open.
        """
        with ExitStack() as stack:
            url, revive = settings.database, _external
            if not url:
                log.info("starting the embedded PostgreSQL in %s", settings.folder)
                postgres = EmbeddedPostgres(settings.folder)
                stack.callback(postgres.stop)
                url = postgres.start(standby=settings.standby, cancelled=cancelled)
                migrate(url)
                revive = partial(_revive, postgres, threading.Lock(), cancelled)
            writer = Writer.connect(
                url,
                wait_s=5.0,
                standby=settings.standby,
                partition_size=settings.partition_events,
                lease_s=settings.takeover_s,
                cancelled=cancelled,
                revive=revive,
                on_superseded=on_superseded,
            )
            stack.callback(writer.close)
            heartbeat = Heartbeat(writer.session, restarts)
            heartbeat.start()
            stack.callback(heartbeat.close)
            for role in (Role.ADMIN, Role.METRICS, Role.BROKER):
                if chosen := getattr(settings, f"{role}_key"):
                    ensure_key(url, chosen, role)
            return cls(writer, stack.pop_all())

    def close(self) -> None:
        """Blocks."""
        self._open.close()


def _external() -> str | None:
    """A database of the operator's own is not started by the server."""
    return None


def _revive(postgres: EmbeddedPostgres, lock: threading.Lock, cancelled: Callable[[], bool]) -> str | None:
    """Start the embedded PostgreSQL again if it has ended; its address, None during a shutdown."""
    if cancelled():
        return None
    with lock:
        if not postgres.is_alive():
            log.warning("the embedded PostgreSQL has ended; starting it again")
        return postgres.start()
