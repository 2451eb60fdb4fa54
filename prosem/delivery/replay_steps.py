"""One request for a replay, and where its subscription was placed in the meantime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from cn.model.network import Space
from cn.networks.local import LocalNetwork
from prosem.delivery.edge import NOWHERE, Stream
from prosem.runtime.metrics import Metrics
from prosem.store.replay import HistoryRow
from prosem.types.base import Bound, Form, ReplayStep, network_places
from prosem.values.model import PlaceMark, Row, Table
from prosem.values.wire import decode_exact

read_mark = msgspec.json.Decoder(PlaceMark).decode


class ReplayRequest(NamedTuple):
    """Bring a stream from `after` to `upto`, where its place is `bound` and its edge state is `state`."""

    stream: Stream
    after: int
    upto: int
    bound: Bound
    state: Any

    @property
    def is_needed(self) -> bool:
        """Whether the stream takes what it is given."""
        return not self.stream.is_closed and not self.stream.sink.is_lagging

    def steps(self, steps: Sequence[ReplayStep]) -> list[ReplayStep]:
        """Those within the request."""
        return [step for step in steps if self.after < step.seq <= self.upto]

    def give(self, seq: int, body: bytes | None, metrics: Metrics) -> None:
        """Send a change, if there is one and it lies within the request."""
        if body is not None and self.after < seq <= self.upto and self.stream.give("change", seq, body):
            metrics.replayed += 1


class Move(NamedTuple):
    """A point was placed, moved or suspended at its place in the order; `state`: what the edge held before."""

    seq: int
    part: int
    sid: int
    bound: Bound
    state: bytes | None
    mark: PlaceMark | None


def by_subscription(requests: Sequence[ReplayRequest]) -> dict[int, list[ReplayRequest]]:
    found: dict[int, list[ReplayRequest]] = {}
    for request in requests:
        found.setdefault(request.stream.host.sid, []).append(request)
    return found


def moves(sid: int, form: Form, history: Sequence[HistoryRow]) -> Iterator[Move]:
    """The history of a point as places."""
    for seq, part, kind, params, state, marked in history:
        mark = None if marked is None else read_mark(marked)
        if kind == "suspended":
            place = NOWHERE
        elif mark is not None:
            place = Bound(mark.topic, mark.place)
        else:
            place = form.bind(decode_exact(params or b"{}"))
        yield Move(seq, part, sid, place, state, mark)


def place_again(network: LocalNetwork, space: Space, sid: int, before: Bound, after: Bound) -> None:
    """Move a subscription in a pass's own network, under all its topics."""
    placed = [*network_places(space, sid, after)]
    for one in placed:
        network.register(*one)
    for one in [*network_places(space, sid, before)][len(placed) :]:
        network.remove(one.id)


def read_row(table: Table, encoded: bytes | None) -> Row | None:
    """A stored row as the table sees it (the row of a table that extends it has more columns)."""
    return None if encoded is None else table.read(msgspec.json.decode(encoded))
