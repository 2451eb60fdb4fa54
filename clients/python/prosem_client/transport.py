"""Calls and sockets to one server: what is repeated, and how a refusal becomes an error.

A call is repeated while it cannot have been carried out (no connection, or 429 or 503 with Retry-After: nothing of a
refused request is applied), and after a lost connection if carrying it out twice equals once. `reconnect_s`
bounds the attempts after lost connections, `busy_s` those after 429 and 503: a server that recovers or has a full backlog
is waited for. Of several addresses (a server and its standby, or brokers) the next one is used when one does not answer, or
answers 503: a standby does, until it has taken over.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from prosem_client.backoff import Backoff
from prosem_client.errors import ConnectionLost, ProsemError
from prosem_client.values import encode

NAMED_S = 5.0  # that a broker which was named may take to answer


class Transport:
    """A server's address with the connections to it; or several, separated by commas."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        reconnect_s: float = 10.0,
        busy_s: float = 120.0,
        alive_s: float = 15.0,
        proxy: str | None = None,
        http_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._urls = deque(one.strip().rstrip("/") for one in url.split(","))
        self.url = self._urls[0]  # the one in use
        for one in self._urls:
            if not one.startswith(("http://", "https://")):
                detail = f"the address of a server is like http://127.0.0.1:8080, with http:// or https://, not {one!r}"
                raise ProsemError(0, "bad-address", detail)
        self.timeout_s = timeout_s
        self.reconnect_s, self.busy_s, self.alive_s = reconnect_s, busy_s, alive_s
        self._headers = dict(headers or {})
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._proxy = proxy
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=self._headers,
            timeout=timeout_s,
            proxy=proxy,
            trust_env=False,
            limits=httpx.Limits(keepalive_expiry=2.0),  # well before a server gives an idle connection up
            transport=http_transport,
            # without https none is read: the list of all authorities takes 40 ms
            verify=ssl.create_default_context()
            if "https:" in url
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    def backoff(self) -> Backoff:
        """Waits between attempts; of several addresses one may serve at any moment, so they are short."""
        return Backoff() if len(self._urls) == 1 else Backoff(longest_s=1.0)

    def _fail_over(self, failed: str) -> None:
        """Use the next address from now on, unless another call has seen to that already."""
        if len(self._urls) > 1 and self.url == failed:
            self._urls.rotate(-1)
            self.url = self._urls[0]
            self._http.base_url = httpx.URL(self.url)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
        timeout_s: float | None = None,
    ) -> Any:
        """The JSON of a 2xx answer; ProsemError if the server refuses, ConnectionLost if none answers.

        `timeout_s` is of one attempt, where it is not that of the client.
        """
        content = None if body is None else encode(body)
        sent_headers = {"Content-Type": "application/json", **(headers or {})}
        return await self.send(
            method, path, content, sent_headers, repeatable=repeatable, timeout_s=timeout_s
        )

    async def send(
        self,
        method: str,
        path: str,
        content: str | None,
        headers: Mapping[str, str],
        *,
        repeatable: bool = True,
        timeout_s: float | None = None,
    ) -> Any:
        """The same for a body that is already text."""
        now = asyncio.get_running_loop().time
        began = heard = now()  # `heard`: when an address last answered
        backoff = self.backoff()
        lost, was_lost = 0, False
        sent_headers = headers if content is not None else None
        while True:
            used = self.url
            try:
                response = await self._http.request(
                    method, path, content=content, headers=sent_headers, timeout=timeout_s or self.timeout_s
                )
                if method == "DELETE" and was_lost and response.status_code == 404:
                    return {}  # the attempt whose answer was lost has done it
                problem = _problem(response)
                if problem is None:
                    return response.json() if response.content else {}
                wait_s, until = _retry_after_s(response), began + self.busy_s
                if response.status_code == 503 and wait_s is not None and len(self._urls) > 1:
                    self._fail_over(used)
                    wait_s = min(wait_s, backoff.next_s())
                heard, lost = now(), 0
            except httpx.TransportError as error:
                problem = ConnectionLost(f"{method} {used}{path} was not answered: {_reason(error)}")
                never_left = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                was_lost = was_lost or not never_left
                lost += 1
                self._fail_over(used)
                wait_s = backoff.next_s() if repeatable or never_left else None
                until = heard + self.reconnect_s if lost >= len(self._urls) else math.inf  # each is tried
            if wait_s is None or now() + wait_s > until:
                raise problem
            await asyncio.sleep(wait_s)

    async def open_socket(self, path: str, url: str = "") -> ClientConnection:
        """An open WebSocket. OSError, TimeoutError or a WebSocketException if it cannot be had at present,
        ProsemError if the server does not want this client at all (4xx). `url`: of a broker that was named."""
        used = url or self.url
        try:
            return await connect(
                "ws" + used.removeprefix("http") + path,
                additional_headers=self._headers,
                proxy=self._proxy,
                open_timeout=min(self.timeout_s, NAMED_S) if url else self.timeout_s,
                close_timeout=2.0,
                ping_interval=self.alive_s,
                ping_timeout=self.alive_s,
                max_size=None,
                compression=None,
            )
        except (OSError, TimeoutError, WebSocketException) as error:
            if not isinstance(error, InvalidStatus) or not 400 <= error.response.status_code < 500:
                self._fail_over(used)
                raise
            refused, body = error.response, (error.response.body or b"").decode(errors="replace")
            try:
                raise ProsemError.of_problem(json.loads(body), refused.status_code) from None
            except ValueError:
                detail = f"{path} was refused with {refused.status_code}: {body[:300]}"
            raise ProsemError(refused.status_code, f"http-{refused.status_code}", detail) from None

    async def close(self) -> None:
        await self._http.aclose()


def _problem(response: httpx.Response) -> ProsemError | None:
    if response.is_success:
        return None
    try:
        document = response.json()
    except ValueError:
        document = response.text
    return ProsemError.of_problem(document, response.status_code)


def _retry_after_s(response: httpx.Response) -> float | None:
    """The wait a busy server asks for, or None if the answer stands."""
    wait = response.headers.get("Retry-After", "")
    return float(wait) if response.status_code in (429, 503) and wait.replace(".", "", 1).isdigit() else None


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
