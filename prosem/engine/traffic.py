"""What messages cost the network: copies on links, time on the way; learned from those that it has carried."""

from __future__ import annotations

from typing import NamedTuple

from cn.model.message import Message
from optimizer.cost import Weights

_SMOOTH = 0.05


class Carriage(NamedTuple):
    """How a message is carried: copies on the server's own links and on all links, µs until it is at a broker (on average
    over the brokers concerned), and 1 if it goes straight to them; means of many messages where several are meant."""

    copies: float = 1.0
    all_copies: float = 1.0
    way_us: float = 0.0
    straight: float = 0.0


class Traffic:
    """The mean carriage of messages, by their space and by whether they name their targets.

    The network's thread writes, and any thread reads: a value is replaced, never changed. `weights` go the other way: the
    engine says how much each metric matters. Without brokers that host something, nothing is carried.

    >>> from cn.model.message import Message
    >>> traffic = Traffic()
    >>> traffic.expected(7, False) is None
    True
    >>> traffic.sent(Message(1, 0, 7, "row"), Carriage(4, 10, 500.0), 30.0)
    >>> traffic.expected(7, False), traffic.copy_us
    (Carriage(copies=4.0, all_copies=10.0, way_us=500.0, straight=0.0), 7.5)
    >>> traffic.expected(7, True) == Carriage(1.0, 2.5, 500.0), traffic.expected(8, False) == traffic.expected(7, False)
    (True, True)
    """

    def __init__(self) -> None:
        self._carriages: dict[tuple[int | None, bool], Carriage] = {}  # of each space, and of all
        self.is_used = False  # whether brokers host anything
        self.copy_us = 0.0  # of the server for one copy
        self.weights = Weights()

    def sent(self, message: Message, carriage: Carriage, took_us: float) -> None:
        """A message went out so, for which the server took this time."""
        self.is_used = True
        is_addressed = message.targets is not None
        for key in ((message.space, is_addressed), (None, is_addressed)):
            before = self._carriages.get(key, carriage)
            self._carriages[key] = Carriage(
                *(old + _SMOOTH * (new - old) for old, new in zip(before, carriage, strict=True))
            )
        if carriage.copies:
            each_us = took_us / carriage.copies
            self.copy_us += (_SMOOTH if self.copy_us else 1.0) * (each_us - self.copy_us)

    def forget(self, space: int) -> None:
        """A space was closed."""
        for is_addressed in (False, True):
            self._carriages.pop((space, is_addressed), None)

    def expected(self, space: int, is_addressed: bool) -> Carriage | None:
        """How a message will be carried; in a space where nothing was sent, as in others. None: there is no network.

        A message for one subscription takes one of the server's links until it is known better, and the same way.
        """
        if not self.is_used:
            return None
        for key in ((space, is_addressed), (None, is_addressed)):
            if key in self._carriages:
                return self._carriages[key]
        other = self._carriages.get((None, not is_addressed), Carriage())
        return Carriage(1.0, other.all_copies / max(1.0, other.copies), other.way_us, other.straight)
