"""Brokers that forward by topic and evaluate selectors one by one: what [Beretta] compares itself with in ActiveMQ.

A model of what [Beretta] 6 says of that broker (no summaries in the overlay, inefficient matching), not the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cn.model.geometry import Extent, Filter, Filters
from cn.simulation.cbn_peer import PeerNode, _Space


class Selectors:
    """Every filter is evaluated at each event.

    >>> from cn.model.geometry import Interval
    >>> selectors = Selectors()
    >>> selectors.insert(4, ({0: Extent((Interval(None, 10),))},))
    >>> selectors.match((7,)), selectors.match((20,))
    ([4], [])
    """

    def __init__(self) -> None:
        self._filters: dict[int, Filter] = {}

    def insert(self, id: int, filters: Filters) -> None:
        self._filters[id] = filters[0]

    def update(self, id: int, filters: Filters) -> None:
        self._filters[id] = filters[0]

    def remove(self, id: int) -> None:
        del self._filters[id]

    def match(self, attributes: Sequence[Any]) -> list[int]:
        return [
            id
            for id, filter in self._filters.items()
            if all(attributes[at] in extent for at, extent in filter.items())
        ]


class TopicNode(PeerNode):
    """A broker that asks its neighbours for all events of a space as soon as one is wanted; needs `threshold` 0."""

    def _bound(self, space: _Space, neighbour: str) -> dict[int, Extent]:
        return {}
