"""The space of a select-join that consists of joins of two tables, which it shares with other joins.

A subscription has a place in each part: a pair of neighbours with their conditions ([ProSem thesis] 5.4). One semijoin `R^S`
thus serves every join that has R and S with the same conditions, and an event is stepped, described and sent once per pair
of tables, not once per join. Nothing is stepped here; parts say what an edge holds, and edges read the messages of parts in
their own words (`translation`).

It loses where each join has conditions of its own: then parts have one user each, and a subscription to n tables has as many
places as the tables have pairs of neighbours, instead of one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from cn.model.geometry import Point
from cn.model.network import Space as NetworkSpace
from prosem.types.base import Bound, Choose, Draft, Outcome, Part, Storage
from prosem.types.join.adaptation import FEWEST_POINTS, SAMPLE_POINTS, Adaptation
from prosem.types.join.arranged import ArrangedJoin
from prosem.types.join.arrangement import Arrangement, Arranger
from prosem.types.join.decomposition import Cost, Decomposition
from prosem.types.join.shape import MODES, JoinShape
from prosem.types.join.space import JoinSpace
from prosem.types.join.translation import Sources
from prosem.values.model import Delta, Row

KNOWN_POINTS = 8 * SAMPLE_POINTS  # of which a sample is taken


class PartedJoinSpace(ArrangedJoin):
    """`parts` are the open spaces of the pairs of neighbours, in the order of `JoinShape.parts`.

    What is in them is the parts' own: they are stepped, and closed after this one. Partners are chosen as in a whole space.
    """

    storage: ClassVar[Mapping[str, Storage]] = {}
    mode: ClassVar[str] = "semijoin"
    plans: ClassVar[tuple[str, ...]] = MODES["semijoin"]
    reads: ClassVar[frozenset[int]] = frozenset()
    visits: ClassVar[int] = 0  # those of the parts are counted there

    def __init__(
        self,
        space_id: int,
        arranged: Arrangement,
        parts: Sequence[JoinSpace],
        arranger: Arranger | None = None,
    ) -> None:
        self.shape: JoinShape = arranged.shape
        self._arranged, self.decomposition, self._spaces = arranged, arranged.partners, parts
        self._arranger = arranger
        self.network = NetworkSpace(space_id, self.shape.dimensions, self.shape.int64)
        self.parts = tuple(
            Part(number, space.network, part.taken)
            for number, (part, space) in enumerate(zip(self.shape.parts, parts, strict=True), 1)
        )
        self._points: dict[int, Point] = {}  # some of them
        self.sources = self._sources(self.decomposition)
        self.adaptation = Adaptation(self)
        self._counted = self._counts()
        self.hold_again()

    def _sources(self, decomposition: Decomposition) -> Sources:
        """What all edges' states refer to."""
        return Sources(decomposition, tuple([space.network.id for space in self._spaces]))

    def _at(self, table: int, partner: int) -> int:
        """Which part has two neighbours."""
        return next(at for at, part in enumerate(self.shape.parts) if {table, partner} == {*part.tables})

    def _number(self, at: int, table: int) -> int:
        """The number of a table in a part."""
        return self.shape.parts[at].tables.index(table)

    def _held(self) -> Iterator[tuple[int, JoinSpace, int]]:
        """Each table, the space of its semijoin, and its number there."""
        for table, partner in enumerate(self.decomposition):
            at = self._at(table, partner)
            yield table, self._spaces[at], self._number(at, table)

    # -- what it holds of its parts ------------------------------------------------------------------------------
    def hold_again(self) -> None:
        """Hold the semijoins of the decomposition."""
        self._hold(1)

    def release(self) -> None:
        self._hold(-1)

    def _hold(self, count: int) -> None:
        for _, space, number in self._held():
            space.hold_semijoin(number, count)

    # -- points --------------------------------------------------------------------------------------------------
    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        placed = [(sid, one.place) for sid, one in zip(sids, bounds, strict=True) if one.place is not None]
        for part, space in zip(self.parts, self._spaces, strict=True):
            space.add([part.id(sid) for sid, _ in placed], [part.bound(place) for _, place in placed])
        for sid, place in placed[: KNOWN_POINTS - len(self._points)]:
            self._points[sid] = place

    def move(self, sid: int, before: Bound, after: Bound) -> None:
        self.remove(sid, before)
        self.add([sid], [after])

    def remove(self, sid: int, bound: Bound) -> None:
        if bound.place is None:
            return
        for part, space in zip(self.parts, self._spaces, strict=True):
            space.remove(part.id(sid), part.bound(bound.place))
        self._points.pop(sid, None)

    # -- partners ------------------------------------------------------------------------------------------------
    @property
    def row_count(self) -> int:
        return sum(len(space.model.tables[number]) for _, space, number in self._held())

    def cost(self, shares: Sequence[float], moved: Sequence[float], chance: random.Random) -> Cost:
        """Each semijoin by its part, all with the same points."""
        known = list(self._points.values())
        places = chance.choices(known, k=SAMPLE_POINTS) if len(known) >= FEWEST_POINTS else []

        def cost(table: int, partner: int) -> float:
            at = self._at(table, partner)
            space, number = self._spaces[at], self._number(at, table)
            tables = self.shape.parts[at].tables
            found = space.model.sampled_cost(
                [self.parts[at].place(place) for place in places],
                [shares[one] for one in tables],
                [moved[one] for one in tables],
            )
            return found(number, 1 - number)

        return cost

    def _count_events(self) -> None:
        """What the parts have counted since the last time."""
        counted = self._counts()
        own = self.adaptation
        for table, (before, after) in enumerate(zip(self._counted, counted, strict=True)):
            own.counts[table] += max(0, after[0] - before[0])
            own.moves[table] += max(0, after[1] - before[1])
        self._counted = counted

    def _counts(self) -> list[tuple[int, int]]:
        """The events of each table, and those of them that moved a row, as the part that it is reduced in counts them."""
        held = ((space.adaptation, number) for _, space, number in self._held())
        return [(counted.counts[number], counted.moves[number]) for counted, number in held]

    def _better(self) -> Decomposition | None:
        self._count_events()
        return self.adaptation.better(self.decomposition)

    def redecompose(self, decomposition: Decomposition) -> None:
        """Give tables other partners. O(1): points stand in all parts."""
        self._count_events()
        self.release()
        self.decomposition, self.sources = decomposition, self._sources(decomposition)
        self.hold_again()
        self._counted = self._counts()

    def _is_same(self, one: Arrangement, other: Arrangement) -> bool:
        """Routing columns are the parts' own: what changes here is partners."""
        return one.partners == other.partners

    def _arrange_as(self, arranged: Arrangement) -> None:
        self._arranged = arranged
        self.redecompose(arranged.partners)

    @property
    def _routed(self) -> JoinShape:
        routing = list(self.shape.routing)
        for part, space in zip(self.shape.parts, self._spaces, strict=True):
            for number, table in enumerate(part.tables):
                routing[table] = space.model.shape.routing[number]
        return replace(self.shape, routing=tuple(routing))

    # -- events are those of the parts ---------------------------------------------------------------------------
    def take(self, deltas: Sequence[Delta], choose: Choose, among: Sequence[Delta] = ()) -> Iterator[Outcome]:
        raise AssertionError("events are taken by the parts")

    def step(self, delta: Delta) -> None:
        raise AssertionError("events are taken by the parts")

    def messages(self, description: object, plan: str) -> list[Draft]:
        raise AssertionError("messages are made by the parts")

    # -- what edges hold -----------------------------------------------------------------------------------------
    def semijoins(self, point: Point) -> list[list[Row]]:
        """The rows of each table that the edge must hold: those of its part that take part in the whole."""
        return [list(self._semijoin(table, point)) for table in range(len(self.shape.tables))]

    joinable = semijoins

    def _semijoin(self, table: int, point: Point) -> Iterator[Row]:
        at = self._at(table, self.decomposition[table])
        codes_of, place = self.shape.placer(table), self.parts[at].place(point)
        found = self._spaces[at].semijoin(self._number(at, table), place)
        return (row for row in found if codes_of(row) is not None)

    def check(self) -> None:
        """Assert that the parts know what is held of them."""
        for _, space, number in self._held():
            assert space.has_holder(number), "a semijoin that is held has a holder"
