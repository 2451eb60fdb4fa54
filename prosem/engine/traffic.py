"""How many bytes the links between brokers carry for a message, learned from those that they have carried."""

from __future__ import annotations

from cn.model.message import Message

_SMOOTH = 0.05


class Traffic:
    """Copies of a message on all links, by its space and by whether it names its targets.

    The server counts the copies on its own links, message by message; brokers report how many their links have carried in
    all, which makes one factor for what lies behind. Only the network's thread writes and any thread reads: a value is
    replaced, never changed. Without brokers there is no link, and nothing is carried.

    >>> from cn.model.message import Message
    >>> traffic = Traffic()
    >>> traffic.expected(7, False, 200)
    0.0
    >>> traffic.sent(Message(1, 0, 7, "row"), 4)
    >>> traffic.reported(own=4, behind=6)
    >>> traffic.expected(7, False, 200), traffic.expected(7, True, 200), traffic.expected(8, False, 200)
    (2000.0, 500.0, 2000.0)
    """

    def __init__(self) -> None:
        self._copies: dict[tuple[int | None, bool], float] = {}  # of each space, and of all
        self._behind = 0.0  # copies on brokers' links for each on the server's

    def sent(self, message: Message, copies: int) -> None:
        """A message went out on so many of the server's links."""
        is_addressed = message.targets is not None
        for key in ((message.space, is_addressed), (None, is_addressed)):
            before = self._copies.get(key, float(copies))
            self._copies[key] = before + _SMOOTH * (copies - before)

    def forget(self, space: int) -> None:
        """A space was closed."""
        for is_addressed in (False, True):
            self._copies.pop((space, is_addressed), None)

    def reported(self, own: int, behind: int) -> None:
        """So many messages were carried by the server's links, and by those between brokers."""
        self._behind = behind / own if own else 0.0

    def expected(self, space: int, is_addressed: bool, size: int) -> float:
        """The bytes on all links for a message of this size; of a space nothing was sent in, as in others.

        A message for one subscription takes one link until it is known better, provided there is any.
        """
        if not self._copies:
            return 0.0
        copies = self._copies.get((space, is_addressed), self._copies.get((None, is_addressed), 1.0))
        return size * copies * (1 + self._behind)
