"""A stream of requests for one of several publishers: rows of its own come, change, move to other keys and go.

Publishers have different keys, so that their requests are valid in whatever order a server takes them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from tests.exactness.population import Ranges
from tests.support.live import Json

SIZES = (1, 1, 2, 5, 10, 30, 60)  # events of a request
T_SHARE = 0.8
STEP = 40  # of y, where it does not leap
NULLS = 0.02
Request = tuple[str, list[Json]]  # its table, or "" where each event names its own


class Publisher:
    """`requests` gives each as a server takes it; `rows` is what a table holds of this publisher after the last."""

    def __init__(self, number: int, publishers: int, ranges: Ranges, seed: int) -> None:
        self._chance = random.Random(f"{seed} {number}")
        self._number, self._publishers, self._ranges = number, publishers, ranges
        self.rows: dict[str, dict[int, Json]] = {"t": {}, "u": {}}

    def first(self) -> Iterator[Request]:
        """Four fifths of all rows."""
        for table, keys in (("t", self._ranges.keys), ("u", self._ranges.others)):
            own = (self._own(key) for key in range(0, keys, self._publishers))
            chosen = (key for key in own if self._chance.random() < 0.8)
            while some := list(islice(chosen, 500)):
                yield table, [self._put(table, key, "insert") for key in some]

    def requests(self) -> Iterator[Request]:
        while True:
            size = self._chance.choice(SIZES)
            table = self._chance.choice(("t", "u", "", ""))
            if table:
                yield table, [self._event(table) for _ in range(size)]
                continue
            events: list[Json] = []
            while len(events) < size:
                one = "t" if self._chance.random() < T_SHARE else "u"
                events.append({"table": one, **self._event(one, may_move=True)})
            yield "", events

    def _own(self, key: int) -> int:
        return key - key % self._publishers + self._number

    def _key(self, table: str) -> int:
        ranges, chance = self._ranges, self._chance
        return self._own(ranges.key(chance) if table == "t" else chance.randrange(ranges.others))

    def _event(self, table: str, may_move: bool = False) -> Json:
        chance, rows, key = self._chance, self.rows[table], self._key(table)
        if key not in rows:
            return self._put(table, key, chance.choice(("insert", "upsert")))
        kind = chance.random()
        if kind < 0.12:
            del rows[key]
            return {"op": "delete", "key": {"k": key}}
        if kind < 0.4:
            return self._put(table, key, "upsert")
        other = self._key(table)
        if may_move and kind < 0.45 and other not in rows:
            rows[other] = {**rows.pop(key), "k": other}
            return {"op": "update", "key": {"k": key}, "set": {"k": other}}
        changed = self._some(table, rows[key])
        rows[key] = rows[key] | changed
        return {"op": "update", "key": {"k": key}, "set": changed}

    def _put(self, table: str, key: int, op: str) -> Json:
        row = self.rows[table][key] = {"k": key, **self._cells(table)}
        return {"op": op, "row": row}

    def _cells(self, table: str) -> Json:
        chance, ranges = self._chance, self._ranges
        if table == "u":
            return {"x": self._place(), "z": chance.randrange(ranges.z)}
        return {
            "x": self._place(),
            "y": chance.randrange(ranges.y),
            "s": None if chance.random() < NULLS else ranges.name(chance),
            "n": None if chance.random() < NULLS else f"{chance.randrange(-3000, 9000) / 100:.2f}",
            "f": chance.choice((None, -0.0, 0.5, 1e300, -12.25, 40.0, chance.random() * 50)),
        }

    def _place(self) -> int | None:
        return None if self._chance.random() < NULLS else self._ranges.place(self._chance)

    def _some(self, table: str, row: Json) -> Json:
        """New values of some columns; y mostly moves by a step."""
        chance, drawn = self._chance, self._cells(table)
        kind = chance.random()
        if table == "t" and kind < 0.4:
            if row["y"] is None or chance.random() < 0.1:
                return {"y": drawn["y"]}
            if chance.random() < NULLS / 10:
                return {"y": None}
            return {"y": min(self._ranges.y - 1, max(0, row["y"] + chance.randrange(-STEP, STEP)))}
        names = chance.sample(sorted(drawn), chance.randrange(1, len(drawn)))
        return {name: drawn[name] for name in names}
