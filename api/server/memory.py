"""The engine's memory from PostgreSQL, with the optimizer's weights and statistics: at a start and after a failure."""

from __future__ import annotations

import gc
import logging

from api.server.settings import Settings
from optimizer.choose import Chooser, chooser
from optimizer.cost import Weights
from optimizer.estimate import Entry
from prosem.engine import commands as c
from prosem.engine.recovery import recover
from prosem.engine.state import EngineState
from prosem.engine.traffic import Traffic
from prosem.engine.view import EngineView, whole_view
from prosem.runtime.metrics import Metrics
from prosem.store.log import Writer
from prosem.store.statistics import Statistics, load_statistics
from prosem.store.stored_rows import StoredRows
from prosem.store.timeline import establish
from prosem.values.errors import SetupError
from prosem.values.timeline import Timelines

log = logging.getLogger("prosem")


class MemoryBuilder:
    """`retained_after`: what happened after this seq can still be replayed. `traffic`: None without brokers."""

    def __init__(self, settings: Settings, metrics: Metrics, writer: Writer, traffic: Traffic | None) -> None:
        self._settings, self._metrics, self._writer, self._traffic = settings, metrics, writer, traffic
        self._stored = _stored(settings.columns_in_memory, writer)
        self._has_begun = self._has_served = self._is_established = False
        self.retained_after = 0

    def recover(self, seen: int) -> EngineState:
        """The state from PostgreSQL; `seen`: the last seq that this server committed.

        The one before is collected first: memory never holds two.
        """
        if self._has_begun:
            gc.unfreeze()
            gc.collect()
        self._has_begun = True
        gc.freeze()  # the collection below looks at the new state alone
        url = self._writer.recover()
        gc.disable()  # nothing becomes garbage while the state grows
        try:
            state = self._build(url, seen)
        finally:
            gc.enable()
        self._has_served = True
        gc.collect()
        gc.freeze()  # what was recovered stays: no later collection need look at it
        return state

    def _build(self, url: str, seen: int) -> EngineState:
        settings = self._settings
        state = EngineState(
            self._chooser(),
            self._metrics,
            lambda: self.retained_after,
            settings.max_boxes,
            settings.plan,
            settings.look_events,
            self._traffic,
            settings.ephemeral_s,
            stored=self._stored,
        )
        statistics = load_statistics(url, settings.measurements // 10)
        state.group_store.figures = statistics.figures  # spaces are opened by them, and by the weights
        state.apply_weights(Weights.of(statistics.weights))
        self.retained_after = recover(
            url, state, log.info, restart=not self._has_served, epoch=self._writer.session.epoch
        )
        state.execute(self.adoption(whole_view(state), statistics))
        state.timelines = self._timelines(url, seen)
        return state

    def _timelines(self, url: str, seen: int) -> Timelines:
        """Begins one where that is due: before anything is committed on this state."""
        made = establish(url, new=self._settings.new_timeline and not self._is_established, seen=seen)
        self._is_established = True
        return made

    def _chooser(self) -> Chooser:
        settings = self._settings
        return chooser(settings.plan, settings.estimator_entries, settings.measure_percent / 100)

    def adoption(self, view: EngineView, statistics: Statistics) -> c.Adopt:
        """The command that takes statistics over, with all that takes time done before it."""
        training: dict[int, dict[str, list[Entry]]] = {}
        for (number, part), plans in statistics.training.items():
            space = view.measured_spaces.get((number, part))
            if space is not None:  # it may be a part of several groups
                known = training.setdefault(space, {})
                for plan, entries in plans.items():
                    known.setdefault(plan, []).extend(entries)
        run = None if statistics.run is None else statistics.run["run"]
        prepared = self._chooser().prepare(training, run)
        return c.Adopt(statistics.run, prepared, statistics.figures)

    def retired(self, retained_after: int) -> None:
        self.retained_after = max(self.retained_after, retained_after)

    def close(self) -> None:
        """After the engine, whose thread reads."""
        if self._stored is not None:
            self._stored.close()


def _stored(columns_in_memory: str, writer: Writer) -> StoredRows | None:
    if columns_in_memory not in ("all", "used"):
        raise SetupError(f"--columns-in-memory is all or used, not {columns_in_memory!r}")
    return StoredRows(lambda: writer.url) if columns_in_memory == "used" else None
