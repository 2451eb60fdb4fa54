"""Follows what others announce in the database: changed keys, and a new run of the statistics job."""

from __future__ import annotations

import asyncio
import logging

from api.server.memory import MemoryBuilder
from api.server.running import RunningServer
from prosem.store.keys import CHANNEL as KEYS_CHANNEL
from prosem.store.keys import load_keys
from prosem.store.statistics import CHANNEL as STATISTICS_CHANNEL
from prosem.store.statistics import Listener, active_run, load_statistics

log = logging.getLogger("prosem")
PAUSE_S = 0.1


class Following:
    """Runs from the start of the server to its end."""

    def __init__(self, made: RunningServer, memory: MemoryBuilder) -> None:
        self._made, self._memory = made, memory
        self._listeners = [
            Listener(lambda: made.database.url, changed, channel, made.metrics.restarts)
            for changed, channel in (
                (self._statistics_changed, STATISTICS_CHANNEL),
                (self._keys_changed, KEYS_CHANNEL),
            )
        ]
        for listener in self._listeners:
            listener.start()

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.close()

    async def _keys_changed(self) -> None:
        await reload_keys(self._made)

    async def _statistics_changed(self) -> None:
        """Take the active run over if it is another one; events go on meanwhile."""
        made = self._made
        while not made.is_ready:
            await asyncio.sleep(PAUSE_S)
        view, url = made.view, made.database.url
        run = None if view.statistics is None else view.statistics["run"]
        if await asyncio.to_thread(active_run, url) == run:
            return
        statistics = await asyncio.to_thread(load_statistics, url, 0)
        await made.call(await asyncio.to_thread(self._memory.adoption, made.view, statistics))
        log.info("statistics: run %s is in force", None if statistics.run is None else statistics.run["run"])


async def reload_keys(made: RunningServer) -> None:
    """Take keys over as they are stored now."""
    made.keys.replace(await asyncio.to_thread(load_keys, made.database.url))
    await made.webhooks.review()
