"""What messages cost the network: copies on links, time on the way; learned from those that it has carried."""

from __future__ import annotations

from cn.model.message import Message
from optimizer.cost import STRAIGHT, TREE, UNCARRIED, Carriage, Carriages, Weights

_SMOOTH = 0.05
_ONE_LINK = {TREE: Carriage(1.0, 1.0)}
Key = int | None  # a space, or all


class Traffic:
    """The mean carriage of messages by each way, by their space.

    The network's thread writes, and any thread reads: a value is replaced, never changed. `weights` go the other way: the
    engine says how much each metric matters. Without brokers that host something, nothing is carried.

    Messages with targets and others are not told apart: an event concerns the same brokers under all plans. Apart, a plan
    that is taken for small events alone would seem to be carried cheaply.

    >>> from cn.model.message import Message
    >>> traffic = Traffic()
    >>> traffic.expected(7) == UNCARRIED
    True
    >>> message, tree = Message(1, 0, 7, "row"), Carriage(4, 10, 500.0)
    >>> traffic.sent(message, TREE, {TREE: tree, STRAIGHT: Carriage(8, 8, 200.0)}, 30.0)
    >>> traffic.expected(7)[STRAIGHT], traffic.copy_us
    (Carriage(copies=8.0, all_copies=8.0, way_us=200.0, server_us=60.0), 7.5)
    >>> traffic.expected(8) == traffic.expected(7), traffic.straight(7)
    (True, 0.0)
    """

    def __init__(self) -> None:
        self._carriages: dict[Key, Carriages] = {}
        self._straight: dict[Key, float] = {}  # the share that has gone straight
        self.is_used = False  # whether brokers host anything
        self.copy_us = 0.0  # of the server for one copy
        self.weights = Weights()

    def sent(self, message: Message, way: str, carriages: Carriages, took_us: float) -> None:
        """A message went out by this way, for which the server took this time; `carriages`: by all that were open to it."""
        self.is_used = True
        if copies := carriages[way].copies:
            self.copy_us += (_SMOOTH if self.copy_us else 1.0) * (took_us / copies - self.copy_us)
        is_straight = float(way == STRAIGHT)
        for key in (message.space, None):
            before = self._carriages.get(key, {})
            self._carriages[key] = {
                # Before a second way was open to a message, it would have been the same.
                one: self._mean(before.get(one, before.get(TREE)), carriage)
                for one, carriage in carriages.items()
            }
            share = self._straight.get(key, is_straight)
            self._straight[key] = share + _SMOOTH * (is_straight - share)

    def _mean(self, old: Carriage | None, new: Carriage) -> Carriage:
        copies, all_copies, way_us, _ = new
        server_us = copies * self.copy_us
        if old is None:
            return Carriage(float(copies), float(all_copies), way_us, server_us)
        return Carriage(
            old.copies + _SMOOTH * (copies - old.copies),
            old.all_copies + _SMOOTH * (all_copies - old.all_copies),
            old.way_us + _SMOOTH * (way_us - old.way_us),
            old.server_us + _SMOOTH * (server_us - old.server_us),
        )

    def forget(self, space: int) -> None:
        """A space was closed."""
        self._carriages.pop(space, None)
        self._straight.pop(space, None)

    def expected(self, space: int) -> Carriages:
        """How a message will be carried by each way; in a space where nothing was sent, as in others."""
        if not self.is_used:
            return UNCARRIED
        return self._carriages.get(space) or self._carriages.get(None) or _ONE_LINK

    def straight(self, space: int) -> float:
        """Which share of the messages goes straight to brokers; in a space where nothing was sent, of others."""
        return self._straight.get(space, self._straight.get(None, 0.0))
