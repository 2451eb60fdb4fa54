"""Keys at a broker: it knows none, and asks the server whose a key is. The answer holds for a few seconds.

What it keeps is a digest and the caller. A key with open sockets is asked for again and again, so that they are closed
soon after it was revoked.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

import httpx
from starlette.types import Scope

from api.broker.forward import Forwarder
from api.http.access import check_local
from api.server.keyring import Usage, refusal
from prosem.store.keys import digest_of
from prosem.values.access import KEYLESS, Caller
from prosem.values.errors import RecoveringError, UnauthorizedError

HOLDS_S = 3.0
MOST_KEPT = 100_000


class RemoteKeys:
    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self.usage = Usage()
        self.is_open = False  # the server has no keys
        self._is_asked = False
        self._known: dict[bytes, tuple[Caller, float]] = {}
        self._tokens: dict[int, str] = {}  # of keys with sockets

    async def caller(self, token: str | None) -> Caller:
        digest = digest_of(token or "")
        caller, until = self._known.get(digest, (None, 0.0))
        if caller is None or until < time.monotonic():
            try:
                caller = await self._ask(token)
            except UnauthorizedError:
                self._known.pop(digest, None)
                raise
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[digest] = caller, time.monotonic() + HOLDS_S
        if token is not None:
            self._tokens[caller.key] = token
        return caller

    async def check_host(self, scope: Scope) -> None:
        """What the server checks of the host that a browser names: here, since it sees the broker's request alone."""
        if not self._is_asked:
            with contextlib.suppress(UnauthorizedError):
                await self._ask(None)
        if self.is_open:
            check_local(scope)

    def learn(self, is_open: bool) -> None:
        """The server says whether it has no keys."""
        self.is_open, self._is_asked = is_open, True

    async def _ask(self, token: str | None) -> Caller:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            answer = await self._forwarder.ask("GET", "/v1/whoami", headers=headers)
        except (httpx.HTTPError, UnicodeError, ValueError) as error:
            raise RecoveringError("the server does not answer") from error
        if answer.status_code == 401:
            self.is_open = self.is_open and token is not None
            self._is_asked = self._is_asked or token is None
            raise refusal(token)
        if answer.status_code != 200:
            raise RecoveringError(f"the server answers {answer.status_code}; try again after a second")
        shown = answer.json()
        self.learn(shown["open"])
        return Caller.read(shown)

    async def watch(self) -> None:
        """Close the sockets of keys that were revoked; runs until it is cancelled."""
        while True:
            await asyncio.sleep(HOLDS_S)
            present = self.usage.open_keys()
            self._tokens = {key: token for key, token in self._tokens.items() if key in present}
            asked: dict[int, str | None] = dict(self._tokens)
            if KEYLESS.key in present:
                asked[KEYLESS.key] = None
            for key, token in asked.items():
                try:
                    await self._ask(token)
                except UnauthorizedError:
                    self._known.pop(digest_of(token or ""), None)
                    self.usage.close_all([key])
                except RecoveringError:
                    break
