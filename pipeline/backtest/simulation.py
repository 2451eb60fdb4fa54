"""The server's own engine and edge over archived rows and events: no database, no sockets, no clock.

Everything between a validated event and a change at a subscriber is the product's code: tables, views, spaces, plans,
the network, the fold. Only validation is left out, since the log holds what was found valid, and so are commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from cn.networks.local import LocalNetwork
from optimizer.choose import Chooser
from prosem.delivery.edge import Edge, Stream
from prosem.engine import commands as c
from prosem.engine.effect import Effect
from prosem.engine.publishing import Publishing
from prosem.engine.state import EngineState
from prosem.engine.transaction import Run
from prosem.language.syntax import Query
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import complete
from prosem.store.recovery import StoredView
from prosem.values.access import Scope
from prosem.values.model import JsonObject, Row, Table
from prosem.views.subscription import named_view

EVENTS_A_BATCH = 500  # that are delivered together
_NEVER = 1 << 62
Told = Callable[[int, int, bytes], None]  # number of the subscription, seq, change


class Statement(NamedTuple):
    """What all subscriptions of a backtest have in common."""

    query: Query
    notify: JsonObject | None
    tenant: str


class Event(NamedTuple):
    """One event of the log: the row before and after it, and the last seq of its request."""

    seq: int
    table_id: int
    old: Row | None
    new: Row | None
    request_end: int


class Simulation:
    """One server in memory; `told` is called for each notification, in the order of the log.

    Rows come first (`load`, `roll`), then `subscribe`, then events in the order of their seqs (`take`). Rows that are not
    needed do not exist: an event that makes a row one that is needed inserts it.
    """

    def __init__(
        self,
        tables: Iterable[Table],
        views: Sequence[StoredView],
        told: Told,
        is_needed: Callable[[Row], bool] = lambda row: True,
    ) -> None:
        metrics = Metrics()
        # Measuring plans takes time and changes no notification; nor does arranging spaces anew.
        self._state = EngineState(Chooser(share=0), metrics, look_events=_NEVER)
        self._edge = Edge(metrics, LocalNetwork, _no_replay, lambda sid: None)
        self._publishing = Publishing(self._state)
        self._sink = _Sink(told)
        self._tables: dict[int, Table] = {}
        self._views, self._is_needed = views, is_needed
        self._waiting = 0
        self._is_per_transaction = False
        for table in tables:
            self._state.table_store.add(table)
            self._tables[table.id] = table

    # -- the state before the first event --------------------------------------------------------------------
    def load(self, table_id: int, rows: Sequence[Row]) -> None:
        self._state.table_store.load(self._tables[table_id], rows)

    def roll(self, table_id: int, before: Row | None, after: Row | None) -> None:
        """A row was or becomes another one, before there are subscriptions."""
        table = self._tables[table_id]
        found = self._effect(table, before, after)
        if found is not None:
            self._state.table_store.put(table, found.key, found.new)

    def _effect(self, table: Table, old: Row | None, new: Row | None) -> Effect | None:
        """What an event does to the rows that are needed; None: nothing."""
        if old is not None and not self._is_needed(old):
            old = None
        if new is not None and not self._is_needed(new):
            new = None
        row = old if new is None else new
        return None if row is None else Effect("event", table.key_of(row), old, new)

    def subscribe(
        self, statement: Statement, subscriptions: Sequence[tuple[int, JsonObject]], seq: int
    ) -> None:
        """All at this seq, by their numbers."""
        state, scope = self._state, Scope(statement.tenant)
        state.seq = seq
        for view in self._views:
            catalog = state.tables(view.tenant)
            state.views.open(named_view(view.sql, catalog, view.id, view.name, view.tenant))
        self._is_per_transaction = statement.query.per == "transaction"
        rows = [(None, params) for _, params in subscriptions]
        made = state.execute(c.Subscribe(statement.query, statement.notify, rows, batch=True, scope=scope))
        for (number, _), id in zip(subscriptions, made["ids"], strict=True):
            self._sink.numbers[id] = number
            state.execute(c.Attach(id, seq, self._sink, scope=scope))
        self._deliver()

    # -- the log ---------------------------------------------------------------------------------------------
    def take(self, events: Sequence[Event]) -> bool:
        """The events of one request, as far as they concern the tables; whether all notifications so far were given."""
        steps = []
        for event in events:
            table = self._tables[event.table_id]
            effect = self._effect(table, event.old, event.new)
            if effect is not None:
                steps.append(Step(event.seq, table, effect))
        if self._is_per_transaction:
            # at the seq of the request's last event, which may concern another table
            self._apply(steps, events[-1].request_end)
        else:
            for part in consecutive(steps):
                self._apply(part, part[-1].seq)
        self._waiting += len(events)
        if self._waiting < EVENTS_A_BATCH:
            return False
        self._deliver()
        return True

    def finish(self) -> None:
        self._deliver()

    def _apply(self, steps: Sequence[Step], last: int) -> None:
        self._state.seq = last - len(steps)
        by_table = groupby(steps, attrgetter("table"))
        self._publishing.apply([Run(table, [step.effect for step in some], str) for table, some in by_table])

    def _deliver(self) -> None:
        batch = self._state.begin()
        complete(self._edge.release(batch.frames, self._state.seq))
        self._waiting = 0


class Step(NamedTuple):
    """What an event does."""

    seq: int
    table: Table
    effect: Effect


def consecutive(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps in parts without a gap between their seqs.

    >>> nothing: Any = None
    >>> steps = [Step(seq, nothing, nothing) for seq in (1, 2, 4)]
    >>> [[one.seq for one in part] for part in consecutive(steps)]
    [[1, 2], [4]]
    """
    parts: list[list[Step]] = []
    for step in steps:
        if parts and parts[-1][-1].seq + 1 == step.seq:
            parts[-1].append(step)
        else:
            parts.append([step])
    return parts


def _no_replay(stream: Stream, frame: c.Hosted) -> None:
    raise AssertionError("a backtest attaches where its log begins")


class _Sink:
    """Takes what the edge gives each stream; it never lags, so that a fault of the edge is not a missing notification."""

    is_lagging = False

    def __init__(self, told: Told) -> None:
        self._told = told
        self.numbers: dict[str, int] = {}

    def accept(self, stream: Stream, token: int) -> bool:
        return True

    def attached(self, stream: Stream) -> None:
        pass

    def offer(self, stream: Stream, kind: str, seq: int, body: bytes) -> bool:
        self._told(self.numbers[stream.id], seq, body)
        return True

    def lag(self) -> None:
        raise RuntimeError("the edge failed; the log above says why")

    def renew(self, stream: Any) -> None:
        raise AssertionError("spaces of a backtest are not arranged anew")

    def gone(self, stream: Stream) -> None:
        raise AssertionError("subscriptions of a backtest are not deleted")

    def progress(self, seq: int) -> None:
        pass
