"""A broker as the server sees it, and the replays that the server runs for its streams."""

from __future__ import annotations

from collections.abc import Callable

from prosem.brokers import control
from prosem.brokers.protocol import PROTOCOL
from prosem.brokers.requests import LeaseRenewal
from prosem.delivery.edge import Stream

CHANGES = 256  # of a replay that travel together


class Member:
    """One membership session of one broker.

    `node` is its name in the network, never used again; `name` is the same in all sessions.
    """

    def __init__(
        self,
        name: str,
        node: str,
        url: str,
        room_bytes: int,
        parent: str,
        protocol: int = PROTOCOL,
        advertised: str = "",
    ) -> None:
        self.name, self.node, self.url, self._room_bytes = name, node, url, room_bytes
        self.advertised = advertised  # where clients may be redirected to; empty: nowhere
        self.protocol = protocol  # that is spoken with it
        self.parent = parent  # the node above it
        self.position = 0  # it has come to, at least
        self.requests = 0  # of it that were taken
        self.tokens: dict[int, int] = {}  # of each subscription hosted there, the token by which it last was
        self.statements: set[int] = set()  # known there
        self.promised: dict[
            int, float
        ] = {}  # subscriptions that were redirected there and have not come, and when
        self.is_gone = False
        self.seen = 0.0
        self.backlog_bytes: Callable[[], int] = lambda: 0
        self.report = LeaseRenewal()  # what it said of itself

    @property
    def is_congested(self) -> bool:
        """So much is under way to it that replays should come in smaller pieces."""
        return self.backlog_bytes() > self._room_bytes


class RemoteSink:
    """The placeholder of a broker in an Attach: the server's order knows that the stream is not its own."""

    def __init__(self, member: Member) -> None:
        self.member = member


class ReplaySink:
    """Takes a replay on the server, and sends it to the broker that holds the stream.

    It takes at most `capacity` changes; then it lags, and the broker attaches again after the last of them: as with a
    listener of the server's own, a long replay comes in pieces.
    """

    def __init__(
        self, member: Member, token: int, send: Callable[[Member, control.Notice], None], capacity: int
    ) -> None:
        self._member, self._token, self._send, self._left = member, token, send, capacity
        self._changes: list[tuple[int, bytes]] = []
        self._is_over = False

    def offer(self, stream: Stream, kind: str, seq: int, body: bytes) -> bool:
        if self._left <= 0 or self._member.is_congested:
            return False
        self._left -= 1
        self._changes.append((seq, body))
        if len(self._changes) >= CHANGES:
            self._flush()
        return True

    def attached(self, stream: Stream) -> None:
        self._flush(done=True)

    def lag(self) -> None:
        self._flush(lags=True)

    @property
    def is_lagging(self) -> bool:
        return self._is_over or self._member.is_gone

    def _flush(self, *, done: bool = False, lags: bool = False) -> None:
        if self._is_over or self._member.is_gone:
            return
        changes, self._changes = tuple(self._changes), []
        self._is_over = done or lags
        self._send(self._member, control.Replayed(self._token, changes, done, lags))

    # -- a replay never asks for these -----------------------------------------------------------------------------
    def accept(self, stream: Stream, token: int) -> bool:
        return not self._member.is_gone

    def gone(self, stream: Stream) -> None: ...

    def renew(self, stream: Stream) -> None: ...

    def progress(self, seq: int) -> None: ...
