"""A top-k in memory: a space, a network and an edge for all ranges of a small domain, beside brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count, product
from typing import Any

from cn.model.message import Message
from cn.networks.local import LocalNetwork
from prosem.language.parse import parse
from prosem.language.syntax import Query
from prosem.types.base import SID_MASK, Bound, SpaceContext, placements
from prosem.types.registry import recognise
from prosem.types.shared.ranges import topic_of
from prosem.types.top_k.form import TopKForm
from prosem.values.columns import column_type
from prosem.values.model import Column, Delta, Key, Row, Table
from prosem.values.wire import decode, encode

_ids = count(1)
Rows = dict[Key, Row]


def table(x: str = "integer", y: str = "integer", key: Sequence[str] = ("k",)) -> Table:
    kinds = {"k": "integer", "m": "text", "x": x, "y": y, "e": "text", "note": "jsonb"}
    columns = tuple(Column(name, column_type(kind), name not in key) for name, kind in kinds.items())
    return Table(next(_ids), "t", columns, tuple(key))


def query(
    select: Sequence[str],
    order: str,
    limit: int,
    *,
    is_descending: bool = False,
    nulls_first: bool | None = None,
    ranged: str | None = "x",
    equal: str | None = None,
) -> Query:
    """`SELECT … WHERE ranged BETWEEN :lo AND :hi AND equal = :e ORDER BY … LIMIT …`"""
    parts = [] if ranged is None else [f"{ranged} BETWEEN :lo AND :hi"]
    parts += [] if equal is None else [f"{equal} = :e"]
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    way = "DESC" if is_descending else "ASC"
    if nulls_first is not None:
        way += " NULLS FIRST" if nulls_first else " NULLS LAST"
    return parse(f"SELECT {', '.join(select)} FROM t{where} ORDER BY {order} {way} LIMIT {limit}")


class World:
    """Rows, a space over them, and subscriptions at an edge; every answer is compared after every event."""

    def __init__(self, made: Query, own: Table, rows: Rows, plan: str, *, max_boxes: int = 128) -> None:
        form = recognise(made, [own], None)
        assert isinstance(form, TopKForm)
        self.form, self.table, self.rows, self.plan = form, own, rows, plan
        self.bounds: dict[int, Bound] = {}
        self.space: Any = form.open_space(1, SpaceContext((rows,), self.bounds.__getitem__, max_boxes))
        self.network = LocalNetwork(self._deliver, lambda seq: None)
        self.folding: dict[int, list[Message]] = {}
        self.states: dict[int, Any] = {}
        self.answers: dict[int, list[Any]] = {}  # as a client holds them
        self.seq = 0

    def subscribe(self, bounds: Sequence[Bound]) -> None:
        start = len(self.bounds) + 1
        self.bounds |= dict(enumerate(bounds, start))
        self.space.add(range(start, start + len(bounds)), bounds)
        for sid, bound in enumerate(bounds, start):
            for id, topic, place in placements(sid, bound):
                self.network.register(self.space.network, id, topic, place)
            packed = self.form.pack_state(self.form.state(self.space, bound))
            self.states[sid] = self.form.unpack_state(packed)
            snapshot = decode(encode(self.form.snapshot(self.space, self.rows, bound)))
            self.answers[sid] = snapshot["rows"]
            assert self.answers[sid] == self.expected(bound)

    def _deliver(self, message: Message, ids: Any) -> None:
        for id in ids if isinstance(ids, Sequence) else ids.tolist():
            self.folding.setdefault(id & SID_MASK, []).append(message)

    def take(self, changes: Sequence[tuple[Key, Row | None]], *, is_exact: bool = False) -> list[str]:
        """Some rows change, each key once, at one seq; the kinds of the messages that were made.

        `is_exact`: no message may reach a subscription whose answer stays.
        """
        self.seq += 1
        deltas = []
        for key, new in changes:
            deltas.append(Delta(self.seq, self.table, key, self.rows.get(key), new))
            if new is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = new
        kinds, part = [], 0
        for outcome in self.space.take(deltas, lambda space, description: self.plan):
            for draft in outcome.drafts:
                message = Message(self.seq, part, 1, *draft)
                kinds.append(message.kind)
                self.network.inject(message)
                part += 1
        self.fold(is_exact)
        return kinds

    def fold(self, is_exact: bool) -> None:
        folding, self.folding = self.folding, {}
        for sid, bound in self.bounds.items():
            before, expected = self.answers[sid], self.expected(bound)
            change = None
            if sid in folding:
                change, self.states[sid] = self.form.change(folding[sid], bound, self.states[sid])
            context = (sid, bound, before, expected)
            differs = encode(before) != encode(expected)  # for Python the JSON values true and 1 are equal
            assert (change is not None) == differs, context
            is_notified = change is not None or bound.others  # another topic may have the first rows of all
            assert not is_exact or is_notified or sid not in folding, context
            if change is not None:
                self.answers[sid] = self.folded(before, decode(change))
            assert encode(self.answers[sid]) == encode(expected), context

    def folded(self, rows: list[Any], change: dict[str, list[Any]]) -> list[Any]:
        """As a client does it: by key, then sorted."""
        names = self.table.primary_key

        def key(row: Any) -> tuple[Any, ...]:
            return tuple(row[name] for name in names)

        assert change.keys() == {"add", "update", "remove"}
        held = {key(row): row for row in rows}
        for one in change["remove"]:
            assert one.keys() == set(names)
            del held[key(one)]
        assert all(key(row) in held for row in change["update"])
        assert all(key(row) not in held for row in change["add"])
        held |= {key(row): row for verb in ("update", "add") for row in change[verb]}
        top = self.form.top
        return sorted(held.values(), key=lambda row: top.read([row[name] for name in top.names])[0])

    def expected(self, bound: Bound) -> list[Any]:
        """By brute force, without ranks."""
        if bound.place is None:
            return []
        top, ranges = self.form.top, self.form.top.ranges
        place, topics = ranges.placer(), {bound.topic, *bound.others}
        low, high = bound.place
        found = []
        for row in self.rows.values():
            placed = place(row)
            if placed is not None and placed[0] in topics and low <= placed[1][0] <= high:
                found.append(row)
        found.sort(key=lambda row: [(row[at] is None, row[at] or 0) for at in self.table.key_positions])
        nulls = [row for row in found if row[top.y] is None]
        others = [row for row in found if row[top.y] is not None]
        others.sort(key=lambda row: row[top.y], reverse=top.is_descending)
        first = (nulls + others if top.nulls_first else others + nulls)[: top.count]
        return [
            decode(encode({name: row[at] for at, name in zip(top.columns, top.names, strict=True)}))
            for row in first
        ]


def every_range(world: World, codes: Sequence[Any], topics: Sequence[bytes] = (b"",)) -> Iterator[Bound]:
    """All ranges over these codes, under each topic."""
    for topic, low, high in product(topics, codes, codes):
        yield Bound(topic, (low, high))


def topics(values: Sequence[str]) -> list[bytes]:
    kind = column_type("text")
    return [topic_of([kind.code(value)]) for value in values]


class Events:
    """Rows with few different values: ties, NULLs, moves, rows that stay where they are."""

    def __init__(self, own: Table, seed: int, *, keys: int = 12, width: int = 7, heights: int = 5) -> None:
        self.table, self.chance = own, random.Random(seed)
        self.keys, self.width, self.heights = keys, width, heights

    def row(self, key: Key, old: Row | None) -> Row:
        """Another row of this key; what is not drawn anew stays."""
        drawn = {
            "x": self._value("x", self.width),
            "y": self._value("y", self.heights),
            "e": self.chance.choice(["p", "q", None]),
            "note": self.chance.choice([None, 1, True, {"a": [1.5]}]),
        }
        kept = set() if old is None else set(self.chance.sample(sorted(drawn), self.chance.randrange(4)))
        names = self.table.names
        made = {name: old[at] if name in kept and old else drawn.get(name) for at, name in enumerate(names)}
        named = dict(zip(self.table.primary_key, key, strict=True))
        return tuple((made | {"m": "m"} | named)[name] for name in names)

    def _value(self, name: str, count: int) -> Any:
        if self.chance.random() < 0.1:
            return None
        number = self.chance.randrange(count)
        kind = self.table.columns[self.table.position[name]].type
        if kind.name == "text":
            return "abcdefghijklm"[number]
        return kind.read(number if kind.name == "integer" else number / 2)

    def key(self) -> Key:
        number = self.chance.randrange(self.keys)
        if len(self.table.primary_key) == 1:
            return (number,)
        return number // 3, "pqr"[number % 3]

    def changes(self, rows: Rows, count: int = 1) -> list[tuple[Key, Row | None]]:
        """Some rows come, change and go, each key once."""
        keys = list(dict.fromkeys(self.key() for _ in range(count)))
        return [
            (key, None if key in rows and self.chance.random() < 0.2 else self.row(key, rows.get(key)))
            for key in keys
        ]
