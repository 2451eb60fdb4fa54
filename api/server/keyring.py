"""The keys of a running server in memory, and what comes with them: open sockets and what their limits have left."""

from __future__ import annotations

import contextlib
import ipaddress
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prosem.store.keys import StoredKey, digest_of
from prosem.values.access import KEYLESS, Caller, Role
from prosem.values.errors import LimitError, RecoveringError, UnauthorizedError

WORKER = Caller(roles=frozenset({Role.BROKER}), key=-1, name="workers")


class Keys(Protocol):
    """The caller of a key: the server knows it, a broker asks the server."""

    usage: Usage

    async def caller(self, token: str | None) -> Caller:
        """UnauthorizedError if a key is needed and this is none."""

    @property
    def is_open(self) -> bool:
        """Whether no key is needed, because there never was one."""


class Keyring:
    """All keys by their digests. Until they are loaded every request is refused. A `worker_key` is never stored."""

    def __init__(self, worker_key: str = "") -> None:
        self.usage = Usage()
        self._own = {digest_of(worker_key): WORKER} if worker_key else {}
        self._callers: dict[bytes, Caller] | None = None
        self._ever = False
        self._revoked: frozenset[int] = frozenset()

    def replace(self, keys: Iterable[StoredKey]) -> None:
        """Take over the keys as they are now. Closes the sockets of revoked keys, and with the first key those without."""
        keys = list(keys)
        if keys and self.is_open:
            self.usage.close_all([KEYLESS.key])
        self._ever = bool(keys)
        self._callers = self._own | {key.digest: key.caller for key in keys if key.revoked is None}
        self._revoked = frozenset(key.caller.key for key in keys if key.revoked is not None)
        self.usage.close_all(self._revoked)

    @property
    def is_open(self) -> bool:
        return self._callers is not None and not self._ever

    def is_revoked(self, number: int) -> bool:
        """Whether there was a key of this number and is no more."""
        return number in self._revoked

    @property
    def is_loaded(self) -> bool:
        return self._callers is not None

    async def caller(self, token: str | None) -> Caller:
        if self._callers is None:
            raise RecoveringError("the server does not serve yet: the keys have not been read")
        if not self._ever:
            return KEYLESS
        found = None if token is None else self._callers.get(digest_of(token))
        if found is None:
            raise refusal(token)
        return found


def refusal(token: str | None) -> UnauthorizedError:
    if token is None:
        return UnauthorizedError("send a key as Authorization: Bearer <key>; prosem keys create makes one")
    return UnauthorizedError("this key is not known, or it was revoked")


class Usage:
    """What keys use in this process: sockets, and events against a rate. On the loop's thread alone."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sockets: dict[int, set[Callable[[], None]]] = {}
        self._credit: dict[int, tuple[float, float]] = {}  # key → events left, as of when

    @contextlib.contextmanager
    def socket(self, caller: Caller, close: Callable[[], None]) -> Iterator[None]:
        """A socket or an event stream is open; `close` is called when the key is revoked."""
        self.check_room(caller)
        mine = self._sockets.setdefault(caller.key, set())
        mine.add(close)
        try:
            yield
        finally:
            mine.discard(close)
            if not mine:
                self._sockets.pop(caller.key, None)

    def check_room(self, caller: Caller) -> None:
        """LimitError if the key has all the sockets that it may have."""
        limit = caller.limits.sockets
        if limit is not None and len(self._sockets.get(caller.key, ())) >= limit:
            raise LimitError(f"this key may have {limit} sockets; close one first", retry_after_s=5)

    def open_keys(self) -> set[int]:
        """The keys with a socket."""
        return set(self._sockets)

    def close_all(self, keys: Iterable[int]) -> None:
        for key in keys:
            for close in list(self._sockets.get(key, ())):
                close()

    def spend(self, caller: Caller, events: int) -> None:
        """Take events from the key's rate; LimitError says when to come again.

        A bucket holds one second's events. A request is let in while something is left, and may overdraw it: so a
        request larger than the rate has its turn too, and the next ones wait until it is paid for.
        """
        rate = caller.limits.events_per_second
        if rate is None:
            return
        left, since = self._credit.get(caller.key, (float(rate), self._now()))
        now = self._now()
        left = min(float(rate), left + (now - since) * rate)
        if left <= 0:
            self._credit[caller.key] = left, now
            wait_s = max(1, math.ceil((1 - left) / rate))
            raise LimitError(f"this key may publish {rate} events per second", retry_after_s=wait_s)
        self._credit[caller.key] = left - events, now


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "[::1]", "0.0.0.0", "", "example.org")]
    [True, True, True, True, False, False, False]
    """
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
