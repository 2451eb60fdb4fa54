"""The workload of [ProSem thesis]'s joins (table 5.2): rows, subscriptions and events of R(a, b, p) and S(b, c, p)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prosem.types.base import Bound, SpaceContext
from prosem.types.join.shape import JoinShape
from prosem.types.join.space import JoinSpace
from prosem.values.columns import column_type
from prosem.values.model import Column, Delta, Key, Row, Table

DOMAIN = 100_000
SEEDS = {"subscriptions": 11, "events": 7}
INTERESTS = {  # centres and widths of ranges
    "a": ((30_000, 70_000, 10_000), (20_000, 5_000)),
    "c": ((15_000, 85_000, 6_000), (6_000, 5_000)),
}
KEYS = 100
JOINING = 0.7  # of the join keys have rows in S
ZIPF = 0.8
INSERTS = 37_500 / 59_000  # of the events; the others delete the oldest rows


def table(id: int, name: str, columns: str) -> Table:
    """`table(1, "r", "abp")`: r(k, a, b, p) with integers, and text as payload p."""
    made = [Column(one, column_type("text" if one == "p" else "integer")) for one in columns]
    return Table(id, name, (Column("k", column_type("integer"), False), *made), ("k",))


R, S = table(1, "r", "abp"), table(2, "s", "bcp")
SHAPE = JoinShape((R, S), ({0: 2, 1: 1},), ((1,), (2,)), (1, 2))


def clipped(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.clip(np.rint(values), 0, DOMAIN).astype(np.int64)


def either(
    random: np.random.Generator, low: float, high: float, deviation: float, count: int
) -> NDArray[np.float64]:
    """N(low/high, deviation): half of them around each."""
    return random.normal(np.where(random.random(count) < 0.5, low, high), deviation)


def ranges(
    random: np.random.Generator, centres: tuple[float, float, float], widths: tuple[float, float], count: int
) -> NDArray[np.int64]:
    """(lo, hi) of so many subscriptions."""
    middle, half = either(random, *centres, count), np.abs(random.normal(*widths, count)) / 2
    return np.column_stack([clipped(middle - half), clipped(middle + half)])


SPREADS = {"a": 8_000, "c": 3_000}  # of the values of one key


def means(random: np.random.Generator, column: str, keys: int) -> NDArray[np.float64]:
    """Where the values of each join key lie."""
    if column == "a":
        return either(random, 25_000, 75_000, 3_000, keys)
    return random.normal(50_000, 10_000, keys)


def subscriptions(count: int, seed: int = SEEDS["subscriptions"]) -> NDArray[np.int64]:
    """Points (alo, ahi, clo, chi)."""
    random = np.random.default_rng(seed)
    return np.column_stack(
        [
            ranges(random, *INTERESTS["a"], count),
            ranges(random, *INTERESTS["c"], count),
        ]
    )


@dataclass
class Workload:
    """Rows of both tables, and events on R: inserts, and deletes of its oldest rows."""

    r_rows: int
    s_rows: int
    payload_bytes: int = 100
    seed: int = SEEDS["events"]
    r: dict[Key, Row] = field(default_factory=dict)
    s: dict[Key, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random = np.random.default_rng(self.seed)
        self._payload = "x" * self.payload_bytes
        self._a_means, c_means = means(random, "a", KEYS), means(random, "c", KEYS)
        shares = np.arange(1, round(KEYS * JOINING) + 1, dtype=np.float64) ** -ZIPF
        of_key = random.choice(KEYS, round(KEYS * JOINING), replace=False)
        keys = random.choice(of_key, self.s_rows, p=shares / shares.sum())
        codes = clipped(random.normal(c_means[keys], SPREADS["c"]))
        for number, (key, code) in enumerate(zip(keys.tolist(), codes.tolist(), strict=True)):
            self.s[number,] = (number, key, code, self._payload)
        for number in range(self.r_rows):
            self.r[number,] = self._row(number)

    def _row(self, number: int) -> Row:
        key = int(self._random.integers(KEYS))
        (code,) = clipped(self._random.normal(self._a_means[key], SPREADS["a"], 1)).tolist()
        return number, code, key, self._payload

    def space(self, mode: str, points: NDArray[np.int64]) -> JoinSpace:
        return opened(SHAPE, (self.r, self.s), points, (1, 0), mode)

    def events(self, count: int) -> Iterator[Delta]:
        """Inserts, and deletes of the oldest rows in the share that the source has on average."""
        oldest, newest = 0, self.r_rows
        rows = dict(self.r)
        for seq in range(1, count + 1):
            if self._random.random() < INSERTS:
                row = rows[newest,] = self._row(newest)
                yield Delta(seq, R, (newest,), None, row)
                newest += 1
            else:
                yield Delta(seq, R, (oldest,), rows.pop((oldest,)), None)
                oldest += 1


def opened(
    shape: JoinShape,
    rows: tuple[dict[Key, Row], ...],
    points: NDArray[np.int64],
    decomposition: tuple[int, ...],
    mode: str,
) -> JoinSpace:
    """The engine's own space over these rows and points; subscription n is point n - 1."""

    def locate(sid: int) -> Bound:
        return Bound(b"", tuple(points[sid - 1].tolist()))

    space = JoinSpace(shape, 1, SpaceContext(rows, locate, 64), decomposition, mode)
    for start in range(0, len(points), 50_000):
        some = points[start : start + 50_000].tolist()
        space.add(range(start + 1, start + 1 + len(some)), [Bound(b"", tuple(point)) for point in some])
    return space
