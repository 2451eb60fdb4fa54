"""Where the envelope mode of joins wins and where it loses: bytes to brokers, against the best plan of the semijoin mode.

Conditions on several columns of a table, of which the semijoin mode looks at one. Bytes do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from cn.model.message import Message
from prosem.types.base import Bound, SpaceContext
from prosem.types.join.shape import MODES, JoinShape
from prosem.types.join.space import JoinSpace
from prosem.values.columns import column_type
from prosem.values.model import Column, Delta, Key, Row, Table
from prosem.values.wire import pack

DOMAIN, KEYS, SUBSCRIPTIONS, BROKERS, EVENTS = 100_000, 50, 500, 8, 60


def table(number: int, name: str, columns: str) -> Table:
    made = [Column(one, column_type("integer")) for one in columns]
    return Table(number, name, (Column("k", column_type("integer"), False), *made), ("k",))


class Workload(NamedTuple):
    """r(k, a, b) joins s(k, b, c…) by b, with a condition on a and on each c."""

    shape: JoinShape
    rows: tuple[dict[Key, Row], dict[Key, Row]]
    places: dict[int, Bound]
    deltas: list[Delta]

    def space(self, mode: str) -> JoinSpace:
        rows = tuple(dict(some) for some in self.rows)
        space = JoinSpace(self.shape, 1, SpaceContext(rows, self.places.__getitem__, 64), (1, 0), mode)
        space.add(list(self.places), list(self.places.values()))
        return space

    def bytes_to_brokers(self, mode: str, plan: str) -> int:
        """Each message once for every broker with a subscription that it reaches."""
        space, size = self.space(mode), 0
        for delta in self.deltas:
            description = space.step(delta)
            drafts = [] if description is None else space.messages(description, plan)
            for part, draft in enumerate(drafts):
                reached = (
                    space.points.find(b"", draft.region).tolist() if draft.targets is None else draft.targets
                )
                copies = len({sid % BROKERS for sid in reached})
                size += copies * len(pack(Message(delta.seq, part, 1, *draft)))
        return size

    def rows_at_edges(self, mode: str) -> int:
        space = self.space(mode)
        return sum(len(some) for bound in self.places.values() for some in space.semijoins(bound.place))


def workload(conditions: int, width: float) -> Workload:
    """Ranges on s hold `width` of its values, on average."""
    chance = Random(conditions)
    r, s = table(1, "r", "ab"), table(2, "s", "bcde"[: 1 + conditions])
    ranged = tuple(range(2, 2 + conditions))
    shape = JoinShape((r, s), ({0: 2, 1: 1},), ((1,), ranged), (1, 2))

    def row(of: Table, key: int) -> Row:
        values = [chance.randrange(DOMAIN) for _ in ranged]
        place = chance.randrange(KEYS)
        return (key, chance.randrange(DOMAIN), place) if of is r else (key, place, *values)

    def ends(share: float) -> Iterator[int]:
        middle, half = chance.randrange(DOMAIN), share * DOMAIN * chance.random()
        yield from (round(max(0, middle - half)), round(min(DOMAIN, middle + half)))

    rows = {(key,): row(r, key) for key in range(500)}, {(key,): row(s, key) for key in range(5 * KEYS)}
    places = {
        sid: Bound(b"", tuple(end for share in (0.2, *[width] * conditions) for end in ends(share)))
        for sid in range(1, SUBSCRIPTIONS + 1)
    }
    deltas = []
    for seq in range(EVENTS):
        of = chance.choice((r, s))
        key = 1_000 + seq
        deltas.append(Delta(seq, of, (key,), None, row(of, key)))
    return Workload(shape, rows, places, deltas)


def best_of_semijoins(made: Workload) -> int:
    return min(made.bytes_to_brokers("semijoin", plan) for plan in MODES["semijoin"])


def test_it_wins_where_each_of_several_conditions_is_narrow() -> None:
    made = workload(3, 0.05)
    assert made.bytes_to_brokers("envelope", "ref-sj-env") * 4 < best_of_semijoins(made)


@pytest.mark.parametrize("conditions", [2, 3])
def test_edges_hold_less(conditions: int) -> None:
    made = workload(conditions, 0.05)
    assert made.rows_at_edges("envelope") * 3 < made.rows_at_edges("semijoin")


@pytest.mark.parametrize(("conditions", "width"), [(1, 0.05), (1, 0.3), (3, 0.3)])
def test_it_loses_with_one_condition_and_with_wide_ones(conditions: int, width: float) -> None:
    made = workload(conditions, width)
    assert made.bytes_to_brokers("envelope", "ref-sj-env") > best_of_semijoins(made)
