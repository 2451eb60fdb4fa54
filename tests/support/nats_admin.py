"""What an operator, or an accident, may do to NATS while a server and its brokers use it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import nats
from nats.js.errors import NotFoundError
from nats.js.manager import JetStreamManager

from prosem.brokers.embedded_nats import EmbeddedNats


class NatsAdmin:
    """Connects anew for each step."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, work: Callable[[JetStreamManager], Awaitable[Any]]) -> Any:
        async def step() -> Any:
            client = await nats.connect(self.url)
            try:
                return await work(client.jsm())
            finally:
                await client.close()

        return asyncio.run(step())

    def streams(self) -> list[str]:
        async def names(manager: JetStreamManager) -> list[str]:
            return [info.config.name or "" for info in await manager.streams_info()]

        found: list[str] = self.run(names)
        return found

    def consumers(self, stream: str) -> list[str]:
        async def names(manager: JetStreamManager) -> list[str]:
            return [info.name for info in await manager.consumers_info(stream)]

        found: list[str] = self.run(names)
        return found

    def delete_consumers(self, stream: str, prefix: str = "") -> int:
        """How many there were whose names begin so."""
        names = [name for name in self.consumers(stream) if name.startswith(prefix)]

        async def delete(manager: JetStreamManager) -> None:
            for name in names:
                with contextlib.suppress(NotFoundError):
                    await manager.delete_consumer(stream, name)

        self.run(delete)
        return len(names)

    def delete_stream(self, stream: str, *, again: bool) -> None:
        """Delete it; `again`: make an empty one of the same name at once."""

        async def delete(manager: JetStreamManager) -> None:
            config = (await manager.stream_info(stream)).config
            await manager.delete_stream(stream)
            if again:
                await manager.add_stream(config)

        self.run(delete)

    def publish(self, subject: str, data: bytes) -> None:
        async def send() -> None:
            client = await nats.connect(self.url)
            await client.jetstream().publish(subject, data)
            await client.close()

        asyncio.run(send())


@contextlib.contextmanager
def running_nats(folder: Path) -> Iterator[EmbeddedNats]:
    made = EmbeddedNats(folder)
    made.start()
    try:
        yield made
    finally:
        made.stop()
