"""Requests that PostgreSQL may refuse: tried in the database before memory takes them.

A refusal that validation did not foresee has its whole batch undone and carried out again, each command alone. So what is
known of it is remembered for a while: the tables of a request that was refused in a trial (events of these are tried first
from then on, also other events), and the request itself if only its own batch was refused, where a trial had not
shown it (the same request is refused at once). Changes of the schema are always tried, and so are events of tables with so
many columns that a row may not fit a page, which depends on how well PostgreSQL compresses its values (see `sizes.py`).
Cost: a trial is a round trip, and a command that is tried is a batch of its own.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace

from prosem.engine import commands as c
from prosem.engine.backlog import Entry, weight_of
from prosem.engine.publishing import trial_of
from prosem.engine.state import EngineState
from prosem.engine.tables import Tables
from prosem.store.log import WriteSet
from prosem.values.errors import ProsemError

REMEMBERED_S = 600.0
MOST = 1_000


class Suspects:
    """Owned by the engine thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tables: OrderedDict[tuple[str, str], float] = OrderedDict()  # tenant, table → until when
        self._requests: OrderedDict[bytes, tuple[float, type, int, ProsemError]] = OrderedDict()

    def refused_in_trial(self, command: c.Command) -> None:
        """A trial of this command was refused: so may others of its tables be."""
        for table in _tables(command):
            self._tables[command.scope.tenant, table] = self._clock() + REMEMBERED_S  # type: ignore[union-attr]
            self._tables.move_to_end((command.scope.tenant, table))  # type: ignore[union-attr]
        while len(self._tables) > MOST:
            self._tables.popitem(last=False)

    def refused_alone(self, command: c.Command, error: ProsemError) -> None:
        """The command was refused although it was alone."""
        self.refused_in_trial(command)
        self._requests[_digest(command)] = (
            self._clock() + REMEMBERED_S, type(command), weight_of(command), error
        )  # fmt: skip
        while len(self._requests) > MOST:
            self._requests.popitem(last=False)

    def check(self, command: c.Command) -> None:
        """Raise what the same command was refused with."""
        if not self._requests:
            return
        now = self._clock()
        while self._requests and next(iter(self._requests.values()))[0] < now:
            self._requests.popitem(last=False)
        shape = type(command), weight_of(command)
        if any(entry[1:3] == shape for entry in self._requests.values()):
            known = self._requests.get(_digest(command))
            if known is not None:
                raise known[3]

    def wants_trial(self, entry: Entry, tables: Tables) -> bool:
        command = entry.command
        if entry.is_suspect or isinstance(command, c.CreateTable | c.DropTable):
            return entry.writes
        if not (self._tables or tables.wide) or not isinstance(command, c.Publish | c.Transact):
            return False
        now, tenant = self._clock(), command.scope.tenant
        known = tables.of(tenant)
        return any(
            self._tables.get((tenant, name), 0.0) > now or (name in known and known[name].id in tables.wide)
            for name in _tables(command)
        )


def trial_writes(state: EngineState, command: c.Command) -> WriteSet | None:
    """What the command would write to tenants' tables, None if that is not known before it is carried out.

    Changes nothing; raises what the command would.
    """
    if isinstance(command, c.Publish | c.Transact):
        return trial_of(state, command)
    if isinstance(command, c.CreateTable):
        requested, is_new = state.requested(command)
        return WriteSet(last_seq=state.seq, created=requested) if is_new else None
    if isinstance(command, c.DropTable):
        return WriteSet(last_seq=state.seq, dropped=state.droppable(command))
    return None


def _tables(command: c.Command) -> Iterator[str]:
    """The tables that the command names, as far as it is well formed."""
    if isinstance(command, c.Publish):
        yield command.table
    elif isinstance(command, c.Transact):
        seen = {event.get("table") for event in command.events if isinstance(event, dict)}
        yield from (name for name in seen if isinstance(name, str))


def _digest(command: c.Command) -> bytes:
    if isinstance(command, c.Publish | c.Transact):
        command = replace(command, idempotency=None)  # the same events under another key are the same
    return hashlib.blake2b(repr(command).encode(errors="replace"), digest_size=16).digest()
