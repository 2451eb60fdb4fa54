"""The JetStream stream of a server's links, and how its loss is noticed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nats.aio.client import Client


class OwnStream:
    """A stream that this process makes, and that no other may replace.

    An intact stream never ends before what it has confirmed. A NATS server without its files, a deleted stream, or a
    restored backup lacks packets that were confirmed: these are never sent again. Held in memory (`on_disk` false) it spares
    a write to disk for each packet, and is lost with the process of NATS.
    """

    def __init__(self, name: str, subjects: str, replicas: int, on_disk: bool = True) -> None:
        self.name, self._subjects, self._replicas, self._on_disk = name, subjects, replicas, on_disk
        self._created: object = None
        self._stored = 0  # the highest number that was confirmed

    async def make(self, client: Client) -> None:
        """Make it, empty; an earlier one of this name is deleted."""
        from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
        from nats.js.errors import NotFoundError

        manager = client.jetstream(timeout=5)
        config = StreamConfig(
            name=self.name,
            subjects=[self._subjects],
            retention=RetentionPolicy.WORK_QUEUE,
            discard=DiscardPolicy.NEW,
            storage=StorageType.FILE if self._on_disk else StorageType.MEMORY,
            num_replicas=self._replicas,
        )
        with contextlib.suppress(NotFoundError):
            await manager.delete_stream(self.name)
        self._created = (await manager.add_stream(config)).created

    def confirmed(self, number: int) -> None:
        """NATS has stored a message under this number."""
        self._stored = max(self._stored, number)

    async def find_loss(self, client: Client) -> str:
        """What has happened to the stream; empty if it is intact."""
        from nats.js.errors import NotFoundError

        stored = self._stored  # before NATS is asked: more may be stored meanwhile
        try:
            found = await client.jetstream(timeout=5).stream_info(self.name)
        except NotFoundError:
            return f"the stream {self.name} is gone"
        if found.created != self._created:
            return f"the stream {self.name} was made anew by another process"
        if found.state.last_seq < stored:
            return f"the stream {self.name} was restored: it ends at {found.state.last_seq}, {stored} was confirmed"
        return ""
