"""One attempt to hand a delivery over: signed, to an address that was checked, no redirects, and not for long."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass

import httpx
from prosem_client.webhooks import sign

from api import VERSION
from api.webhooks.targets import Targets, UnreachableError
from prosem.runtime.retry_after import retry_after_s
from prosem.store.webhooks import Delivery, Webhook

_READ_BYTES = 64 << 10  # of the receiver's answer; it only keeps the connection usable
_LONGEST_ERROR = 500


@dataclass(frozen=True, slots=True)
class Outcome:
    """`error` is None when the receiver has it; `retry_after_s` is what the receiver asked for, if it did."""

    error: str | None = None
    retry_after_s: float = 0.0


class Sender:
    """Sends for one webhook, over a connection of its own: none is shared, so none leads elsewhere."""

    def __init__(self, targets: Targets, webhook: Webhook, timeout_s: float, tls: ssl.SSLContext) -> None:
        self._targets, self._webhook, self._timeout_s = targets, webhook, timeout_s
        self._url = httpx.URL(webhook.url)
        self._http = httpx.AsyncClient(
            verify=tls,
            trust_env=False,
            follow_redirects=False,
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=1, keepalive_expiry=30.0),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def attempt(self, delivery: Delivery) -> Outcome:
        """Whatever goes wrong is an outcome; only a cancellation is raised."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._send(delivery)
        except (TimeoutError, httpx.TimeoutException):
            return Outcome(f"no answer within {self._timeout_s:g} s")
        except UnreachableError as error:
            return Outcome(str(error))
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return Outcome(f"{type(error).__name__}: {error}"[:_LONGEST_ERROR])

    async def _send(self, delivery: Delivery) -> Outcome:
        url, host = self._url, self._url.raw_host.decode("ascii")
        address = await self._targets.resolve(host, url.port or (443 if url.scheme == "https" else 80))
        headers = {
            "Host": url.netloc.decode("ascii"),
            "Content-Type": "application/json",
            "User-Agent": f"ProSem/{VERSION}",
            "X-ProSem-Webhook": self._webhook.id,
            "X-ProSem-Delivery": delivery.id,
            "X-ProSem-Attempt": str(delivery.attempts + 1),
            "X-ProSem-Signature": sign(delivery.body, self._webhook.secret, int(time.time())),
        }
        request = self._http.build_request(
            "POST",
            url.copy_with(host=address),
            headers=headers,
            content=delivery.body,
            extensions={"sni_hostname": host},  # what the certificate must be for
        )
        response = await self._http.send(request, stream=True)
        try:
            read = 0
            async for part in response.aiter_raw():
                read += len(part)
                if read > _READ_BYTES:
                    break
        finally:
            await response.aclose()
        if response.is_success:
            return Outcome()
        hint = "; redirects are not followed" if response.is_redirect else ""
        return Outcome(f"the answer was {response.status_code}{hint}", retry_after_s(response))
