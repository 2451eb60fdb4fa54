"""All webhooks of a server: made, listed, deleted, and each with its delivery worker while its key is valid."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
import uuid
from collections.abc import Callable, MutableMapping
from typing import Any

from api.webhooks.requests import WebhookRequest
from api.webhooks.sending import Sender
from api.webhooks.targets import Targets, UnreachableError
from api.webhooks.worker import DeliveryCounts, DeliveryWorker, RetryPolicy
from prosem.delivery.subscriber import Subscriber
from prosem.runtime.supervise import end, supervise
from prosem.store.webhooks import Delivery, Webhook, WebhookStore
from prosem.values.access import Caller, Role, Scope
from prosem.values.errors import InputError, NotFoundError, ProsemError

log = logging.getLogger("prosem.webhooks")
READY_S = 0.05
SECRET_PREFIX = "whsec_"


class WebhookService:
    """On the loop's thread. `is_revoked` says of a key's number whether it is good no more."""

    def __init__(
        self,
        store: WebhookStore,
        targets: Targets,
        subscriber: Callable[[Scope], Subscriber],
        is_revoked: Callable[[int], bool],
        retry_policy: RetryPolicy,
        timeout_s: float,
        largest: int,
        restarts: MutableMapping[str, int],
    ) -> None:
        self.counts = DeliveryCounts()
        self._store, self._targets, self._subscriber = store, targets, subscriber
        self._is_revoked, self._retry_policy = is_revoked, retry_policy
        self._timeout_s, self._largest, self._restarts = timeout_s, largest, restarts
        self._workers: dict[str, DeliveryWorker] = {}
        self._tls: ssl.SSLContext | None = None
        self._is_closed = False
        self._starting: asyncio.Task[None] | None = None

    def start(self, is_ready: Callable[[], bool]) -> None:
        """Go on with all that is stored, as soon as the server serves."""
        self._starting = supervise("webhooks", lambda: self._start(is_ready), self._restarts)

    async def _start(self, is_ready: Callable[[], bool]) -> None:
        while True:
            try:
                while not is_ready():
                    await asyncio.sleep(READY_S)
                for webhook in await self._store.all():
                    await self._employ(webhook)
                return
            except ProsemError as error:
                log.warning("webhooks wait: %s", error)
                await asyncio.sleep(1.0)

    async def close(self) -> None:
        """What is under way stays stored."""
        self._is_closed = True
        await end(self._starting)
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))
        self._workers.clear()
        self._targets.close()
        await self._store.close()

    async def review(self) -> None:
        """Keys have changed: what was made with one that is revoked is sent nothing more."""
        for worker in [each for each in self._workers.values() if self._is_revoked(each.webhook.scope.key)]:
            await self._dismiss(worker.webhook.id)

    async def _employ(self, webhook: Webhook) -> None:
        if self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        if self._is_closed or self._is_revoked(webhook.scope.key) or webhook.id in self._workers:
            return  # asked after the wait: the start of all of them may have met a new one
        self._workers[webhook.id] = DeliveryWorker(
            webhook,
            self._store,
            Sender(self._targets, webhook, self._timeout_s, self._tls),
            self._subscriber,
            self._retry_policy,
            self._largest,
            self.counts,
            self._restarts,
        )

    async def _dismiss(self, id: str) -> None:
        worker = self._workers.pop(id, None)
        if worker is not None:
            await worker.close()

    # -- what callers ask for ------------------------------------------------------------------------------------
    async def create(self, caller: Caller, requested: WebhookRequest) -> dict[str, Any]:
        """A new webhook; its secret is in the answer if the server made it, this once."""
        url = requested.url
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._targets.resolve(url.raw_host.decode("ascii"), url.port or 443)
        except UnreachableError as error:
            raise InputError(str(error), "/url") from None
        except TimeoutError:
            raise InputError(
                f"the host {url.host} was not found within {self._timeout_s:g} s", "/url"
            ) from None
        id, secret = (
            "hook_" + secrets.token_hex(12),
            requested.secret or SECRET_PREFIX + secrets.token_urlsafe(32),
        )
        most = caller.limits.webhooks
        made = await self._store.create(id, caller.scope, str(url), secret, requested.subscriptions, most)
        await self._employ(made)
        shown = await self._detailed(made)
        return shown if requested.secret else {"secret": secret, **shown}

    async def page(self, caller: Caller, after: str, limit: int) -> list[dict[str, Any]]:
        found = await self._store.page(caller.tenant, _key(caller), after, limit)
        return [self._shown(webhook) for webhook in found]

    async def show(self, caller: Caller, id: str) -> dict[str, Any]:
        return await self._detailed(await self.one(caller, id))

    async def delete(self, caller: Caller, id: str) -> dict[str, Any]:
        """After it nothing more is sent."""
        webhook = await self.one(caller, id)
        await self._dismiss(id)
        await self._store.delete(id)
        return {"id": webhook.id, "deleted": True}

    async def one(self, caller: Caller, id: str) -> Webhook:
        """A key's own webhook; for an admin, any of its tenant."""
        return await self._store.one(id, caller.tenant, _key(caller))

    # -- dead letters --------------------------------------------------------------------------------------------
    async def dead_letters(self, caller: Caller, id: str) -> list[dict[str, Any]]:
        webhook = await self.one(caller, id)
        return [letter.shown() for letter in await self._store.dead_letters(webhook.id)]

    async def dead_letter(self, caller: Caller, id: str, delivery: str) -> Delivery:
        webhook = await self.one(caller, id)
        return await self._store.dead_letter(webhook.id, _uuid(delivery))

    async def redeliver(self, caller: Caller, id: str, deliveries: list[uuid.UUID] | None) -> int:
        """Send dead letters again, with the ids they had; how many."""
        webhook = await self.one(caller, id)
        count = await self._store.revive(webhook.id, deliveries)
        self._kick(id)
        return count

    async def discard(self, caller: Caller, id: str, delivery: str) -> None:
        webhook = await self.one(caller, id)
        if not await self._store.discard(webhook.id, _uuid(delivery)):
            raise NotFoundError(f"there is no dead letter {delivery[:40]!r} of this webhook")
        self._kick(id)

    def _kick(self, id: str) -> None:
        with contextlib.suppress(KeyError):
            self._workers[id].kick()

    # -- how they are shown --------------------------------------------------------------------------------------
    def _shown(self, webhook: Webhook) -> dict[str, Any]:
        worker = self._workers.get(webhook.id)
        problem = "the key that it was made with is revoked" if worker is None else worker.problem
        return {
            "id": webhook.id,
            "url": webhook.url,
            "key": webhook.scope.key,
            "created": webhook.created,
            "active": worker is not None,
            "problem": problem,
        }

    async def _detailed(self, webhook: Webhook) -> dict[str, Any]:
        positions = await self._store.positions(webhook.id)
        return {
            **self._shown(webhook),
            "subscriptions": [{"id": id, "seq": seq} for id, seq in positions.items()],
            "pending": [delivery.shown() for delivery in await self._store.waiting(webhook.id)],
            "dead_letters": await self._store.count_dead(webhook.id),
        }

    # -- what is measured ----------------------------------------------------------------------------------------
    @property
    def size(self) -> int:
        """Webhooks that are served."""
        return len(self._workers)

    def lag(self, seq: int) -> int:
        """How many seqs the slowest receiver is behind this one."""
        return max((max(0, seq - worker.handed) for worker in self._workers.values()), default=0)


def _key(caller: Caller) -> int | None:
    """Whose webhooks the caller sees: its own; an admin those of its tenant."""
    return None if Role.ADMIN in caller.roles else caller.key


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise NotFoundError(f"there is no dead letter {text[:40]!r} of this webhook") from None
