"""Many subscriptions of each statement, with drawn constants, over tables that grow with their number.

The ranges of the columns grow as the population does, so that an event concerns about as many subscriptions at every size.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.backtested import CASES
from tests.support.live import Json

NAMES = ('quo"te', "é", "5", "null", "None", "a b", "[1]")
HOT, HOT_SHARE = 12, 0.3  # values of x from here on, as many as subscriptions, are those of so many rows
FEWER = {
    "values of all items": 30,
    "groups": 4,
}  # times: each event that adds or removes a row concerns many of these


@dataclass(frozen=True)
class Ranges:
    """Each column has values from 0 to below these; `names` are texts, the first of them frequent."""

    keys: int
    others: int  # keys of the second table
    x: int
    y: int
    z: int
    names: Sequence[str]
    hot: range

    @classmethod
    def of(cls, subscriptions: int) -> Ranges:
        """For so many subscriptions of each statement."""
        names = (*NAMES, *(f"n{number}" for number in range(max(8, subscriptions))))
        return cls(14 * subscriptions, 2 * subscriptions, 10 * subscriptions, 4 * subscriptions + 100,
                   4 * subscriptions + 100, names, range(HOT, HOT + subscriptions))  # fmt: skip

    def name(self, chance: random.Random) -> str:
        return self.names[int(len(self.names) * chance.random() ** 2)]

    def key(self, chance: random.Random) -> int:
        return int(self.keys * chance.random() ** 1.5)

    def place(self, chance: random.Random) -> int:
        return chance.choice(self.hot) if chance.random() < HOT_SHARE else chance.randrange(self.x)


Draw = Callable[[random.Random, Ranges], Json]


def _range(chance: random.Random, ranges: Ranges) -> Json:
    low = chance.randrange(ranges.x)
    return {"a": low, "b": low + chance.randrange(20)}


def _top(chance: random.Random, upto: int, mean: float) -> int:
    """So near to the end that few values are above."""
    return upto - 1 - int(chance.expovariate(1 / mean))


def _named(chance: random.Random, ranges: Ranges) -> Json:
    return {"s": ranges.name(chance)}


def _item(chance: random.Random, ranges: Ranges) -> Json:
    return {"a": ranges.key(chance)}


def _list(chance: random.Random, ranges: Ranges) -> Json:
    return {"list": sorted({ranges.key(chance) for _ in range(chance.randrange(1, 6))})}


def _names(chance: random.Random, ranges: Ranges) -> Json:
    return {"list": sorted({ranges.name(chance) for _ in range(chance.randrange(5))})}


def _count(chance: random.Random, ranges: Ranges) -> Json:
    return {"a": _top(chance, ranges.x, 20), "b": chance.randrange(ranges.y)}


def _joined(chance: random.Random, ranges: Ranges) -> Json:
    low = chance.randrange(ranges.y)
    return {"a": low, "b": low + chance.randrange(8)}


DRAWN: dict[str, Draw] = {
    "minimum by symbol": _named,
    "minimum of symbols": _names,
    "sum": lambda chance, ranges: {"a": _top(chance, ranges.x, 15)},
    "count": _count,
    "average": _named,
    "groups": lambda chance, ranges: {"a": _top(chance, ranges.x, 60), "h": chance.choice((1, 1, 2))},
    "first rows": _named,
    "filter": lambda chance, ranges: {"a": int(chance.expovariate(0.3)), "b": chance.randrange(ranges.x)},
    "filter by symbol": _named,
    "value": _item,
    "value by change": lambda chance, ranges: _item(chance, ranges) | {"r": chance.randrange(1, 60)},
    "value by percent": _item,
    "value by may and must": _item,
    "values of all items": lambda chance, ranges: {"r": ranges.y - 1 - chance.randrange(30)},
    "values of many items": _list,
    "many by may and must": _list,
    "notified sum": _named,
    "join": _joined,
    "aggregate over a join": lambda chance, ranges: {"a": _top(chance, ranges.z, 6)},
    "per transaction": lambda chance, ranges: {"a": _top(chance, ranges.x, 15)},
    "filter per transaction": lambda chance, ranges: {"a": int(chance.expovariate(0.4))},
    "view per transaction": lambda chance, ranges: {"a": int(chance.expovariate(0.5))},
}  # by name of the case; the others ask for ranges of x


def population(name: str, count: int, chance: random.Random) -> list[Json]:
    """Parameters of about so many subscriptions of one case."""
    draw, ranges = DRAWN.get(name, _range), Ranges.of(count)
    return [draw(chance, ranges) for _ in range(max(2, count // FEWER.get(name, 1)))]


assert DRAWN.keys() <= CASES.keys()
