"""Secondary servers: the primary says which radii an event affects, and a server for each radius which labels.

See [ProSem thesis] 4.5. The primary sends ranges of radii, whole or in part, and no labels. The secondary server of a radius
has its BW-tree, finds the arcs by itself and sends them on. Both must find the same arcs. A model: of real networks, one for
each layer, with the second one's messages counted as the secondary server's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

from bench.common import fail
from prosem.index.radii.ba_tree_ends import Change
from prosem.index.radii.ba_tree_radii import Fired
from prosem.index.radii.bw_tree import BWTree, Class
from prosem.index.radii.labels import Label

Range = tuple[int, int]


class SecondaryServers:
    """The BW-trees of all radii.

    >>> servers = SecondaryServers([(4, [(100, [(1, 1)])]), (6, [(100, [(1, 1)]), (103, [(9, 1)])])])
    >>> servers.take(106, (4, 6))
    [(4, 4, None), (6, 6, ((1, 1),))]
    """

    def __init__(self, state: Iterable[tuple[int, list[Class]]]) -> None:
        self._trees = {radius: BWTree(Change(), radius, classes) for radius, classes in sorted(state)}
        self.radii = [*self._trees]  # ascending

    def arrive(self, radius: int, value: int) -> Label:
        """A subscription is told the present value; its label is the secondary server's to give."""
        tree = self._trees.get(radius)
        if tree is None:
            tree = self._trees[radius] = BWTree(Change(), radius)
            insort(self.radii, radius)
        return tree.add(value)[0]

    def take(self, value: int, affected: Range) -> list[Fired]:
        """What the servers of a range of affected radii make of an event, radius by radius."""
        found: list[Fired] = []
        low, high = affected
        for radius in self.radii[bisect_left(self.radii, low) : bisect_right(self.radii, high)]:
            arcs = self._trees[radius].event(value)
            if arcs == ():
                fail(f"radius {radius} is in a range and no subscription there is affected")
            found.append((radius, radius, arcs))
        return found


def ranges_of(fired: Sequence[Fired], radii: Sequence[int]) -> list[Range]:
    """Affected radii, whole or in part, as few ranges without an unaffected one between them; both in ascending order.

    >>> ranges_of([(2, 4, None), (5, 5, ((1, 2),)), (9, 9, None)], [2, 4, 5, 7, 9])
    [(2, 5), (9, 9)]
    """
    found: list[Range] = []
    following = -1
    for low, high, _ in fired:
        first, end = bisect_left(radii, low), bisect_right(radii, high)
        if first == following:
            found[-1] = (found[-1][0], radii[end - 1])
        else:
            found.append((radii[first], radii[end - 1]))
        following = end
    return found
