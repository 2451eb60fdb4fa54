"""What a network costs: [ProSem thesis]'s measures of dissemination (3.5.2, 5.7), and [Multi-stage]'s (5.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from cn.model.frames import Carrier, Frame, encode
from cn.simulation.transport import Memory


@dataclass
class Dissemination:
    """What the messages of one event have cost.

    `overlay_hops` are links between brokers, `ip_hops` the links under them; `bytes` are those of encoded frames, and
    `traffic_bytes` counts them once for every IP link. `stress` is the number of messages a node has sent; `hop_latency`
    is the largest number of overlay hops that a message took to one of its brokers.
    """

    overlay_hops: int = 0
    ip_hops: int = 0
    bytes: int = 0
    traffic_bytes: int = 0
    stress: Counter[str] = field(default_factory=Counter)
    byte_stress: Counter[str] = field(default_factory=Counter)
    hop_latency: int = 0

    def hop(self, sender: str, size: int, under: int, depth: int) -> None:
        """A frame takes a link of `under` IP hops, as the `depth`-th on its way."""
        self.overlay_hops += 1
        self.ip_hops += under
        self.bytes += size
        self.traffic_bytes += under * size
        self.stress[sender] += 1
        self.byte_stress[sender] += size
        self.hop_latency = max(self.hop_latency, depth)

    @property
    def max_node_stress(self) -> int:
        return max(self.stress.values(), default=0)


class Meter:
    """Watches a memory transport and keeps the costs of each event, by its `seq`; only messages count.

    `keep` says how many events are kept apart: the oldest is forgotten first.
    """

    def __init__(
        self, memory: Memory, ip_hops: Callable[[str, str], int] = lambda sender, to: 1, keep: int = 100_000
    ) -> None:
        self.events: dict[int, Dissemination] = {}
        self._ip_hops, self._keep = ip_hops, keep
        self._depth: dict[tuple[int, int], dict[str, int]] = {}  # message → broker → hops so far
        self._size: tuple[Frame | None, int] = (None, 0)
        memory.watch = self.see

    def see(self, sender: str, to: str, frame: Frame) -> None:
        """A frame enters a link."""
        if not isinstance(frame, Carrier):
            return
        message = frame.message
        event = self.events.get(message.seq)
        if event is None:
            event = self._begin(message.seq)
        if self._size[0] is not frame:
            self._size = frame, len(encode(frame))
        depths = self._depth.setdefault((message.seq, message.part), {})
        depths[to] = depths.get(sender, 0) + 1
        event.hop(sender, self._size[1], self._ip_hops(sender, to), depths[to])

    def _begin(self, seq: int) -> Dissemination:
        if len(self.events) >= self._keep:
            oldest = next(iter(self.events))
            del self.events[oldest]
        self._depth = {key: depths for key, depths in self._depth.items() if key[0] >= seq - 8}
        event = self.events[seq] = Dissemination()
        return event


def relative_load(received: int, filters: int, events: int, subscriptions: int) -> float:
    """RLC: what a node evaluates, relative to one server that has all filters and gets all events."""
    return received * filters / max(1, events * subscriptions)


def matching_rate(matched: int, received: int) -> float | None:
    """MR: the share of the events received that matched; None if there were none."""
    return matched / received if received else None
