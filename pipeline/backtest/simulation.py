"""The server's own engine and edge over archived rows and events: no database, no sockets, no clock.

Everything between a validated event and a change at a subscriber is the product's code: tables, views, spaces, plans,
the network, the fold. Only validation is left out, since the log holds what was found valid, and so are commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
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
from prosem.runtime.clock import ManualClock
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import complete
from prosem.store.recovery import StoredView
from prosem.values.access import Scope
from prosem.values.model import JsonObject, Row, Table
from prosem.views.subscription import named_view

EVENTS_A_BATCH = 500  # that are applied and delivered together
_NEVER = 1 << 62
Notified = Callable[[int, int, int, bytes], None]  # number of the subscription, seq, its moment, change


class Statement(NamedTuple):
    """What all subscriptions of a backtest have in common."""

    query: Query
    notify: JsonObject | None
    tenant: str


class Event(NamedTuple):
    """One event of the log: the last seq of its request, its moment (µs since 1970), and the row before and after it."""

    seq: int
    request_end: int
    at: int
    table_id: int
    old: Row | None
    new: Row | None


class Simulation:
    """One server in memory; `notified` is called for each notification, in the order of the log.

    Rows come first (`load`, `roll`), then `subscribe`, then events in the order of their seqs (`take`). Rows that are not
    needed do not exist: an event that makes a row one that is needed inserts it.

    The engine numbers the events that it takes one by one, so that those of many requests are one batch even where the log
    has others in between; `_Sink.origins` has their seqs. With `per: transaction` each request is applied by itself.
    """

    def __init__(
        self,
        tables: Iterable[Table],
        views: Sequence[StoredView],
        notified: Notified,
        is_needed: Callable[[Row], bool] | None = None,
    ) -> None:
        metrics = Metrics()
        # Measuring plans takes time and changes no notification; nor does arranging spaces anew. Nothing is taken back.
        self._state = EngineState(Chooser(share=0), metrics, look_events=_NEVER, clock=ManualClock())
        self._state.undo.is_on = False
        self._edge = Edge(metrics, LocalNetwork, _no_replay, lambda sid: None)
        self._publishing = Publishing(self._state)
        self._sink = _Sink(notified)
        self._tables: dict[int, Table] = {}
        self._views, self._is_needed = views, is_needed
        self._effects: list[tuple[Table, Effect]] = []  # that are not applied yet
        self._last: Event | None = None
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
        is_needed = self._is_needed
        if is_needed is not None:
            if old is not None and not is_needed(old):
                old = None
            if new is not None and not is_needed(new):
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
    def take(self, events: Iterable[Event]) -> None:
        """The next events of the log, as far as they concern the tables. One that comes twice in a row counts once."""
        tables, origins, last = self._tables, self._sink.origins, self._last
        for event in events:
            seq, request_end, at, table_id, old, new = event
            if last is not None:
                if last.seq == seq:
                    continue  # a row that went from one value to another comes to a slice that needs both by either
                if last.request_end != request_end:
                    self._end_request(last)
            table = tables[table_id]
            effect = self._effect(table, old, new)
            if effect is not None:
                self._effects.append((table, effect))
                origins.append((seq, at))
            last = event
        self._last = last

    def _end_request(self, last: Event) -> None:
        """With its last event, which may concern another table: `per: transaction` notifies at its seq."""
        origins = self._sink.origins
        if self._is_per_transaction and self._effects:
            origins[-1] = last.request_end, last.at
            self._apply()
        if len(origins) >= EVENTS_A_BATCH:
            self._deliver()

    def finish(self) -> None:
        if self._last is not None:
            self._end_request(self._last)
        self._deliver()

    def _apply(self) -> None:
        effects, self._effects = self._effects, []
        by_table = groupby(effects, itemgetter(0))
        self._publishing.apply([Run(table, [effect for _, effect in some], str) for table, some in by_table])

    def _deliver(self) -> None:
        """Apply what is not applied yet, and notify of everything so far."""
        if self._effects:
            self._apply()
        batch = self._state.begin()
        complete(self._edge.release(batch.frames, self._state.seq))
        self._sink.origins.clear()
        self._sink.first = self._state.seq + 1


def _no_replay(stream: Stream, frame: c.Hosted) -> None:
    raise AssertionError("a backtest attaches where its log begins")


class _Sink:
    """Takes what the edge gives each stream; it never lags, so that a fault of the edge is not a missing notification.

    `origins`: the seqs that the log has for the engine's own, beginning with `first`, and their moments.
    """

    is_lagging = False

    def __init__(self, notified: Notified) -> None:
        self._notified = notified
        self.numbers: dict[str, int] = {}
        self.origins: list[tuple[int, int]] = []
        self.first = 0

    def accept(self, stream: Stream, token: int) -> bool:
        return True

    def attached(self, stream: Stream) -> None:
        pass

    def offer(self, stream: Stream, kind: str, seq: int, body: bytes) -> bool:
        self._notified(self.numbers[stream.id], *self.origins[seq - self.first], body)
        return True

    def lag(self) -> None:
        raise RuntimeError("the edge failed; the log above says why")

    def renew(self, stream: Any) -> None:
        raise AssertionError("spaces of a backtest are not arranged anew")

    def gone(self, stream: Stream) -> None:
        raise AssertionError("subscriptions of a backtest are not deleted")

    def progress(self, seq: int) -> None:
        pass
