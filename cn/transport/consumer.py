"""A durable JetStream consumer: applies packets in order, acknowledges them afterwards, and is made again when it is gone.

NATS removes a consumer whose process was away for too long, an operator may delete it, and a restored stream may lack it.
The stream keeps what was not acknowledged, so a consumer made again goes on without a gap: the numbers of the packets that
were applied are known here.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from cn.transport.packets import Incoming, read_packet

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

log = logging.getLogger("prosem.nats")
ACK_WAIT_S = 30.0
INACTIVE_S = 600.0  # consumers whose process is gone for so long are removed by NATS
UNAPPLIED = 128  # packets that a receiver is sent before it has acknowledged the first
Receive = Callable[[str, bytes], Awaitable[None]]
Failed = Callable[[str, Exception], None]


class Consumer:
    """Takes what is sent to `subject`: `receive(sender, list of items)`.

    When `receive` fails, or a packet cannot be read, `failed(sender, error)` is called and nothing more of that sender
    (empty: unknown) is applied: a part of the packet may have been, so it is not repeated. The receiver starts over.
    `is_known` says whether a sender is listened to; packets of others are acknowledged and dropped.
    """

    def __init__(
        self,
        stream: str,
        subject: str,
        name: str,
        receive: Receive,
        failed: Failed,
        is_known: Callable[[str], bool] | None = None,
        inactive_s: float = INACTIVE_S,
    ) -> None:
        self.stream, self.subject, self.name = stream, subject, name
        self._receive, self._failed, self._inactive_s = receive, failed, inactive_s
        self._is_known = is_known or (lambda sender: True)
        self._senders: dict[str, Incoming] = {}
        self._broken: set[str] = set()
        self._inbox = ""
        self._subscription: Any = None
        self._was_unbound = False

    # -- its existence -------------------------------------------------------------------------------------------
    async def open(self, client: Client) -> None:
        self._inbox = client.new_inbox()
        self._subscription = await client.subscribe(self._inbox, cb=self._take)
        await self._make(client)

    async def _make(self, client: Client) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig

        config = ConsumerConfig(
            durable_name=self.name,
            deliver_subject=self._inbox,
            filter_subject=self.subject,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=UNAPPLIED,
            inactive_threshold=self._inactive_s,
        )
        await client.jetstream(timeout=5).add_consumer(self.stream, config)

    async def restore(self, client: Client) -> bool:
        """Make the consumer again if NATS has it no longer, or does not deliver to this process; whether it did."""
        from nats.js.errors import NotFoundError

        manager = client.jetstream(timeout=5)
        try:
            found = await manager.consumer_info(self.stream, self.name)
        except NotFoundError:
            await self._make(client)
            return True
        is_unbound = found.push_bound is False or found.config.deliver_subject != self._inbox
        if is_unbound and self._was_unbound:  # not only in the moment of a reconnection
            await manager.delete_consumer(self.stream, self.name)
            await self._make(client)
            self._was_unbound = False
            return True
        self._was_unbound = is_unbound
        return False

    async def close(self, client: Client) -> None:
        """Take nothing more, and let NATS forget the consumer if it answers."""
        with contextlib.suppress(Exception):
            await self._subscription.unsubscribe()
        if client.is_connected:
            with contextlib.suppress(Exception):
                await client.jetstream(timeout=1).delete_consumer(self.stream, self.name)

    # -- packets -------------------------------------------------------------------------------------------------
    async def _take(self, message: Msg) -> None:
        if await self._apply(message.data):
            await message.ack()

    async def _apply(self, data: bytes) -> bool:
        """Whether NATS may forget the packet. One that came early is kept there: it comes again."""
        sender = ""
        try:
            packet = read_packet(data)
            sender = packet.sender
            if sender in self._broken or not self._is_known(sender):
                return True
            incoming = self._senders.setdefault(sender, Incoming())
            for body in incoming.take(packet):
                await self._receive(sender, body)
        except Exception as error:
            log.exception("a packet from %s cannot be applied", sender or "an unknown sender")
            self._broken.add(sender)
            self._senders.pop(sender, None)
            self._failed(sender, error)
            return True
        return packet.number <= incoming.number

    def forget(self, sender: str) -> None:
        """A sender is gone, and its name is never used again."""
        self._senders.pop(sender, None)
        self._broken.discard(sender)
