"""Walks of one plan over the events of a join: bytes, descriptions, time, and the notified subscriptions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cn.model.message import Message
from prosem.types.base import Draft
from prosem.types.join.semijoin import Described, SemijoinMode
from prosem.types.join.space import JoinSpace
from prosem.values.model import Delta
from prosem.values.wire import pack

FLAVOURS = ("ref-sj-sub", "ref-sj-tup", "ref-sj-clu", "ref-sj-clu+")
Ids = NDArray[np.int64]
NONE: Ids = np.empty(0, np.int64)


@dataclass
class Walk:
    """Figures of one plan over the events."""

    plan: str
    seconds: float = 0.0  # of CPU time
    wire_bytes: int = 0  # that leave the server, regions included
    delivered_bytes: int = 0  # that arrive at subscriptions: payload and content, once for each of them
    network_bytes: int = 0  # if every broker with a subscription concerned gets each message once
    messages: int = 0
    description_bytes: list[int] = field(default_factory=list)
    told: list[Ids] = field(default_factory=list)  # for each event, those that were told of the row itself
    deliveries: list[int] = field(default_factory=list)  # for each event, joined rows or messages that arrive

    def figures(self, events: int) -> dict[str, float]:
        """For one event."""
        return {
            "kb": round(self.wire_bytes / events / 1e3, 3),
            "kb_delivered": round(self.delivered_bytes / events / 1e3, 2),
            "us": round(self.seconds / events * 1e6, 1),
            "messages": round(self.messages / events, 3),
        }


def walk(space: JoinSpace, deltas: Sequence[Delta], plan: str, brokers: Ids | None = None) -> Walk:
    """Take the events, and then take them back: the next plan finds the rows as this one did.

    `brokers`, the one of each subscription, for the bytes over a network.
    """
    out = Walk(plan)
    for delta in deltas:
        start = time.thread_time()
        description = space.step(delta)
        drafts = [] if description is None else space.messages(description, plan)
        out.seconds += time.thread_time() - start
        arrived = [_reached(space, draft) for draft in drafts]
        for part, (draft, ids) in enumerate(zip(drafts, arrived, strict=True)):
            size = len(pack(Message(delta.seq, part, 1, *draft)))
            out.wire_bytes += size
            if brokers is not None:
                out.network_bytes += size * len(np.unique(brokers[ids - 1]))
            out.delivered_bytes += len(ids) * (len(draft.payload) + sum(map(len, draft.contents)))
        out.messages += len(drafts)
        mode = space._mode
        if plan in FLAVOURS and isinstance(mode, SemijoinMode) and description is not None:
            out.description_bytes += _descriptions(mode, description, plan)
        number = space.model.shape.index[delta.table.id]
        own = b"[%d," % number
        reached = [
            ids
            for draft, ids in zip(drafts, arrived, strict=True)
            if draft.kind == "joined" or (draft.kind in ("upsert", "drop") and draft.payload.startswith(own))
        ]
        out.told.append(np.unique(np.concatenate(reached)) if reached else NONE)
        out.deliveries.append(sum(map(len, reached)))
    for delta in reversed(deltas):
        space.step(delta._replace(old=delta.new, new=delta.old))
    return out


def _reached(space: JoinSpace, draft: Draft) -> Ids:
    if draft.targets is not None:
        return np.array(draft.targets, np.int64)
    return space.points.find(draft.topic, draft.region)


def _descriptions(mode: SemijoinMode, described: Described, plan: str) -> list[int]:
    """The size of each skyline as it could be sent: a point with equal coordinates as one number."""
    sizes = []
    for placed in (described.old, described.new):
        if placed is not None:
            skyline = mode.skyline(described.table, placed, plan)
            if skyline:
                sizes.append(len(pack([x if x == y else (x, y) for x, y in skyline])))
    return sizes
