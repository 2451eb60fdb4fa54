"""What a plan really costs on an event: it is carried out once more, and what it makes is thrown away.

Messages depend on the description alone, so that every plan can be tried on the same event; nothing of the state changes.
Time is that of the processor: what other threads and processes do meanwhile is no cost of a plan.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cn.model.message import Message
from optimizer.cost import UNCARRIED
from optimizer.plan import Estimate
from prosem.engine.traffic import Traffic
from prosem.runtime.clock import SYSTEM_CLOCK, Clock
from prosem.types.base import Space, Storage
from prosem.values.wire import pack

MOST_TRIED = 500  # affected subscriptions up to which a plan that names each is tried for a measurement


class Measured(NamedTuple):
    """One plan by one way on one event; a row of `prosem.plan_measurement`.

    `latency_us` is the time from when the event is worked on: the spaces before this one (`waited_us`), this one, on average
    half of the messages, and the way to the brokers concerned. With brokers, a message leaves the server once for each of
    the links that such messages have taken, and is carried by as many links as they were; without, `network_bytes` is 0.
    """

    server_time_us: float
    send_us: float
    bytes_out: int
    network_bytes: int
    latency_us: float
    affected: int

    @property
    def estimate(self) -> Estimate:
        """The same in the metrics of the cost model."""
        time = self.server_time_us + self.send_us
        return Estimate(time, self.latency_us, self.bytes_out, self.network_bytes, self.affected)


def measure(
    seq: int,
    space: Space,
    description: Any,
    plan: str,
    affected: int,
    described_us: float,
    traffic: Traffic | None = None,
    clock: Clock = SYSTEM_CLOCK,
    waited_us: float = 0.0,
) -> dict[str, Measured]:
    """Carry a plan out and throw the messages away; by each way of the network. `described_us` is what all plans share."""
    start = clock.cpu_ns()
    drafts = space.messages(description, plan)
    made = clock.cpu_ns()
    sizes = [
        len(pack(Message(seq, part, space.network.id, *draft)))
        for part, draft in enumerate(drafts)
        if space.storage.get(draft.kind) is not Storage.STORED_ONLY
    ]
    sent = clock.cpu_ns()
    process_us, send_us, size = described_us + (made - start) / 1e3, (sent - made) / 1e3, sum(sizes)
    found: dict[str, Measured] = {}
    for way, one in (UNCARRIED if traffic is None else traffic.expected(space.network.id)).items():
        put_us = send_us + len(sizes) * one.server_us
        latency_us = waited_us + process_us + put_us / 2 + (one.way_us if sizes else 0.0)
        out, carried = round(size * one.copies), round(size * one.all_copies)
        found[way] = Measured(process_us, put_us, out, carried, latency_us, affected)
    return found
