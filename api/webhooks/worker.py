"""The delivery worker of one webhook: listen, store, send, and again.

A worker is a subscriber like a socket: its queue is bounded, and when the receiver is slow it lags and is caught up
from the outbox later, without holding up others. One delivery is under way at a time, so frames arrive in order.
Whatever goes wrong on our side (the database, an attach) ends this round, and the next one begins from what is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, replace

from api.webhooks.batches import batches
from api.webhooks.sending import Sender
from prosem.delivery.subscriber import Item, Subscriber
from prosem.runtime.backoff import Backoff
from prosem.runtime.supervise import end, supervise
from prosem.store.webhooks import Delivery, Webhook, WebhookStore
from prosem.values.access import Scope
from prosem.values.errors import BusyError, ProsemError

log = logging.getLogger("prosem.webhooks")
MAX_DEAD = 1_000  # dead letters of a webhook before it waits for the operator
LONGEST_WAIT_S = 300.0
PROGRESS_S = 30.0  # how often it is stored that nothing has changed
AGAIN_S = (0.2, 10.0)  # waits before another round


@dataclass(slots=True)
class DeliveryCounts:
    """What all webhooks of the server have done."""

    delivered: int = 0
    failed: int = 0
    dead: int = 0
    frames: int = 0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a delivery is tried, and how long before it is tried again."""

    attempts: int
    first_wait_s: float

    def wait_s(self, attempts: int, asked_s: float = 0.0) -> float:
        """Twice as long each time, shortened by up to half at random; at least what the receiver asked for.

        >>> 2.0 <= RetryPolicy(5, 1.0).wait_s(3) <= 4.0, RetryPolicy(5, 1.0).wait_s(1, 7.0)
        (True, 7.0)
        """
        longest = min(self.first_wait_s * 2.0 ** min(attempts - 1, 40), LONGEST_WAIT_S)
        return max(longest * random.uniform(0.5, 1.0), min(asked_s, LONGEST_WAIT_S))


class DeliveryWorker:
    """`handed` is the seq up to which the receiver has everything, or its dead letters hold it."""

    def __init__(
        self,
        webhook: Webhook,
        store: WebhookStore,
        sender: Sender,
        subscriber: Callable[[Scope], Subscriber],
        retry_policy: RetryPolicy,
        largest: int,
        counts: DeliveryCounts,
        restarts: MutableMapping[str, int],
    ) -> None:
        self.webhook = webhook
        self.handed = 0
        self._refusal: str | None = None  # of the receiver
        self._fault: str | None = None  # on our side
        self._store, self._sender, self._subscriber = store, sender, subscriber
        self._retry_policy, self._largest, self._counts = retry_policy, largest, counts
        self._progress = self._stored_progress = 0
        self._timeline = ""  # that both are of
        self._stored_at = time.monotonic()
        self._kick = asyncio.Event()
        self._task = supervise("webhook-delivery", self._run, restarts)

    async def close(self) -> None:
        await end(self._task)
        await self._sender.close()

    @property
    def problem(self) -> str | None:
        """Why it does not go on, or what went wrong last."""
        return self._fault or self._refusal

    def kick(self) -> None:
        """Dead letters were revived or discarded."""
        self._kick.set()

    # -- rounds --------------------------------------------------------------------------------------------------
    async def _run(self) -> None:
        backoff = Backoff(*AGAIN_S)
        while True:
            began = time.monotonic()
            try:
                await self._round()
            except BusyError as error:
                log.warning("webhook %s begins again: %s", self.webhook.id, error)
            except Exception as error:
                self._fault = f"an error of the server: {type(error).__name__}"
                raise
            if time.monotonic() - began > AGAIN_S[1]:
                backoff.reset()
            await backoff.wait()

    async def _round(self) -> None:
        """From what is stored, until something goes wrong."""
        await self._empty()
        positions = await self._store.positions(self.webhook.id)
        subscriber = self._subscriber(self.webhook.scope)
        with contextlib.closing(subscriber):
            for id, seq in positions.items():
                subscriber.attach(id, seq)
            if positions and None not in positions.values():
                self.handed = min(seq for seq in positions.values() if seq is not None)
            listening: asyncio.Task[list[Item]] = asyncio.create_task(subscriber.fetch())
            try:
                while True:
                    kicked = asyncio.create_task(self._kick.wait())
                    await asyncio.wait((listening, kicked), return_when=asyncio.FIRST_COMPLETED)
                    kicked.cancel()
                    if self._kick.is_set():
                        await self._empty()
                    if listening.done():
                        items = listening.result()
                        await self._hand_over(items)
                        listening = asyncio.create_task(subscriber.fetch())
            finally:
                listening.cancel()
                with contextlib.suppress(ProsemError):
                    await self._keep_progress()

    async def _empty(self) -> None:
        """Send what is stored, then wait until there is room for dead letters."""
        while True:
            self._kick.clear()
            while (delivery := await self._store.pending(self.webhook.id)) is not None:
                self.handed = max(self.handed, delivery.first_seq - 1)
                await self._deliver(delivery)
            if await self._store.count_dead(self.webhook.id) < MAX_DEAD:
                self._fault = None
                return
            self._fault = f"{MAX_DEAD} dead letters wait: deliver them again, or discard them"
            log.warning("webhook %s is blocked: %s", self.webhook.id, self._fault)
            await self._kick.wait()

    async def _hand_over(self, items: list[Item]) -> None:
        for batch in batches(self.webhook.id, items, self._largest):
            delivery = await self._store.put(self.webhook.id, *batch)
            self.handed = max(self.handed, batch.first_seq - 1)
            if not await self._deliver(delivery):
                await self._empty()
        if items and items[-1].kind == "progress":
            if items[-1].timeline != self._timeline:
                self._timeline, self._stored_progress = items[-1].timeline, 0
            self.handed = self._progress = items[-1].seq
            if time.monotonic() - self._stored_at > PROGRESS_S:
                await self._keep_progress()

    async def _keep_progress(self) -> None:
        """So that a restart need not look at what did not concern these subscriptions."""
        if self._progress > self._stored_progress:
            await self._store.progress(self.webhook.id, self._progress, self._timeline)
            self._stored_progress, self._stored_at = self._progress, time.monotonic()

    # -- one delivery --------------------------------------------------------------------------------------------
    async def _deliver(self, delivery: Delivery) -> bool:
        """Try until the receiver has it, or it is dead; False in the latter case."""
        while True:
            outcome = await self._sender.attempt(delivery)
            if outcome.error is None:
                await self._store.delivered(delivery.id)
                self._counts.delivered += 1
                self._counts.frames += delivery.frames
                self._refusal = None
                return True
            delivery = replace(delivery, attempts=delivery.attempts + 1, error=outcome.error)
            is_dead = delivery.attempts >= self._retry_policy.attempts
            await self._store.failed(delivery.id, delivery.attempts, outcome.error, is_dead)
            self._counts.failed += 1
            self._refusal = outcome.error
            log.log(
                logging.WARNING if is_dead else logging.INFO,
                "webhook %s: delivery %s failed (attempt %d of %d%s): %s",
                self.webhook.id,
                delivery.id,
                delivery.attempts,
                self._retry_policy.attempts,
                ", given up" if is_dead else "",
                outcome.error,
            )
            if is_dead:
                self._counts.dead += 1
                return False
            await asyncio.sleep(self._retry_policy.wait_s(delivery.attempts, outcome.retry_after_s))
