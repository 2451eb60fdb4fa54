"""A distributed B-tree: brokers keep pages of the keys, and a message goes down to those it meets.

See [ProSem thesis] 4.3–4.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cn.model.frames import Branch, Data, Page, Pages, Parts
from cn.model.geometry import Interval, Point
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.node import Options, Scheme, star
from cn.networks.pages import FAN_OUT, PageMap, meets
from cn.networks.partition_owner import Course, PartitionOwnerNode, on_course
from cn.networks.partition_root import PartitionRoot


def concerns(message: Message, low: Point | None, high: Point | None) -> bool:
    """Whether one of a message's boxes may hold a key between these ends."""
    topic = Interval(message.topic, message.topic)
    return any(meets(low, high, (topic, *box)) for box in message.region)


class RangeNode(PartitionOwnerNode[Page]):
    """A broker with pages: passes a message on to the pages below that it meets, and knows nothing of any others."""

    def spread(self, frame: Data, course: Course) -> Iterator[tuple[str, Data]]:
        pages = [course.part]
        for number in pages:
            self.count(number)
            for branch in self.parts[number].branches:
                if not concerns(frame.message, branch.low, branch.high):
                    continue
                if self.name in branch.owners:
                    pages.append(branch.number)
                else:
                    owner = branch.owners[frame.position % len(branch.owners)]
                    yield owner, on_course(frame, course._replace(part=branch.number))

    def parts_of(self, frame: Parts) -> Iterable[Page]:
        assert isinstance(frame, Pages)
        return frame.parts


class RangeRoot(PartitionRoot[PageMap]):
    """Brokers keep pages of a B-tree over the first coordinate, and over the next where that is the same.

    The server keeps the top page. A message goes down to the pages that it meets, at most as many as it concerns on each of
    O(log brokers) levels, and from the leaves to the hosts. Leaves are split by load, and pages replicated by traffic. Made
    for radii and labels, where a message is a range of radii, or one radius and an arc of its labels ([ProSem thesis] 4.5);
    any space will do. Options: `fan_out` (pages below a page, 2 at least), `least`, `check`. It loses where the first
    coordinate says little: a region that is narrow only in another one comes to every leaf that its first side meets.
    """

    def divide(self, space: Space) -> PageMap:
        return PageMap(
            next(self.placements.numbers),
            self.placements.numbers,
            max(2, self.options.get("fan_out", FAN_OUT)),
        )

    def is_kept(self, part: int) -> bool:
        pages = self.placements.maps[self.placements.spaces[part]]
        return part != pages.top or not pages.branches(part)

    def entries(self, frame: Data) -> Iterator[tuple[str, Data]]:
        """To the pages below the top that it meets; to the one leaf, if there is no other."""
        pages = self.placements.maps[frame.message.space]
        for number in pages.branches(pages.top) or [pages.top]:
            owner = self.owner_for(number, frame.position)
            if owner and concerns(frame.message, *pages.range_of(number)):
                yield owner, on_course(frame, self.course(0, number))

    def parts_frame(self, position: int, kept: list[int], lost: tuple[str, ...]) -> Pages:
        return Pages(position, self.epoch, tuple([self._page(number) for number in kept]), lost)

    def _page(self, number: int) -> Page:
        pages = self.placements.maps[self.placements.spaces[number]]
        branches = [
            Branch(one, tuple(self.owners[one]), *pages.range_of(one)) for one in pages.branches(number)
        ]
        return Page(number, self.placements.spaces[number], *pages.range_of(number), tuple(branches))


def range_node(name: str, options: Options, since: int) -> RangeNode:
    return RangeNode(name, options, since)


RANGE_TREE = Scheme("range-tree", RangeRoot, range_node, star, exact=False)
