"""Where frames come to rest in a broker: the order of positions, made whole again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from cn.model.frames import Data, Direct, Ordered, Placed, PlaceRemoved, PositionMark, Straight
from cn.model.network import Deliver, Release
from cn.networks.local import LocalNetwork


class EdgeBuffer:
    """Puts frames in the order of their positions, drops duplicates, and applies them up to the last mark.

    A mark says that everything up to its position has come, but for messages that the server sends straight here: it names
    the last of them, and waits until that has come too. What is applied goes to a local network, which matches
    again: so a network has to bring each message to at least the brokers that host a matching place as of its
    position, and what is delivered is exact. A frame costs O(log W) with W frames waiting.

    >>> from cn.model.frames import placed
    >>> from cn.model.geometry import Interval
    >>> from cn.model.message import Message
    >>> from cn.model.network import Space
    >>> edge = EdgeBuffer(lambda message, ids: print(message.seq, [*map(int, ids)]), lambda seq: print("up to", seq))
    >>> edge.take(Data(2, Message(1, 0, 5, "minimum", region=((Interval(0, 9),),))))
    >>> edge.take(placed(1, (), Space(5, 1, True), 7, b"", (3,)))
    >>> edge.take(PositionMark(3, 1))
    1 [7]
    up to 1
    """

    def __init__(
        self,
        deliver: Deliver,
        release: Release,
        direct: Callable[[bytes], None] | None = None,
        since: int = 0,
    ) -> None:
        self.network = LocalNetwork(deliver, release)
        self.position = self.applying = (
            since  # of the frame that was applied last, and of the one in progress
        )
        self._direct = direct
        self._waiting: list[tuple[int, Ordered]] = []
        self._known: set[int] = set()  # positions that wait
        self._straight = since  # the position of the last message that came straight from the server
        self._marks: deque[PositionMark] = deque()  # that wait for such a message
        self._is_applying = False

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, frame: Ordered) -> None:
        """A frame has come, in any order and perhaps again; what may be applied now is applied."""
        self.put(frame)
        for _ in self.steps():
            pass

    def put(self, frame: Ordered) -> None:
        """A frame has come; `steps` applies it."""
        if isinstance(frame, Straight):
            self._straight = max(self._straight, frame.position)
        if isinstance(frame, PositionMark):
            self._marks.append(frame)
        elif frame.position > self.position and frame.position not in self._known:
            self._known.add(frame.position)
            heappush(self._waiting, (frame.position, frame))

    def steps(self) -> Iterator[Ordered]:
        """Apply what may be applied now. Each frame is yielded before it is: others may have their turn.

        What is put meanwhile is applied too. Asked again before it has ended, there is nothing to do.
        """
        if self._is_applying:
            return
        self._is_applying = True
        try:
            while self._marks and all(sent <= self._straight for _, sent in self._marks[0].straight):
                yield from self._apply_up_to(self._marks.popleft())
        finally:
            self._is_applying = False

    def _apply_up_to(self, mark: PositionMark) -> Iterator[Ordered]:
        if mark.position <= self.position:
            return
        while self._waiting and self._waiting[0][0] < mark.position:
            self.applying, frame = heappop(self._waiting)
            yield frame
            self._apply(frame)
            self.position = self.applying
            self._known.discard(self.position)
        yield mark
        self.position = mark.position
        self.network.watermark(mark.seq)

    def _apply(self, frame: Ordered) -> None:
        if isinstance(frame, Data | Straight):
            self.network.inject(frame.message)
        elif isinstance(frame, Placed):
            self.network.register(frame.space, frame.id, frame.topic, frame.place)
        elif isinstance(frame, PlaceRemoved):
            self.network.remove(frame.id)
        elif isinstance(frame, Direct) and self._direct is not None:
            self._direct(frame.body)

    def check(self) -> None:
        """Assert that what waits is ahead of what was applied, each position once."""
        waiting = [position for position, _ in self._waiting]
        assert len(set(waiting)) == len(waiting)
        assert set(waiting) == self._known
        assert all(position > self.position for position in waiting)
        self.network.check()
