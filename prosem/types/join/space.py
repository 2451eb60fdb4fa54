"""The server's side of a select-join: rows of all its tables, all points, and the mode that says what edges hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from cn.model.geometry import Point, Region
from optimizer.plan import Descriptor
from optimizer.sketch import SAMPLE
from prosem.types.base import ALIAS_SHIFT, Bound, Choose, Draft, Outcome, SpaceContext, Storage
from prosem.types.join.adaptation import Adaptation
from prosem.types.join.arranged import ArrangedJoin
from prosem.types.join.arrangement import Arrangement, Arranger
from prosem.types.join.decomposition import Decomposition
from prosem.types.join.envelope import EnvelopeMode
from prosem.types.join.model import JoinModel, Mode
from prosem.types.join.plain import JoinedMode, SelectionMode
from prosem.types.join.preparation import SLICE_ROWS, Preparation
from prosem.types.join.pricing import Pricing
from prosem.types.join.semijoin import SemijoinMode
from prosem.types.join.shape import MODES, JoinShape
from prosem.types.shared.point_space import PointSpace
from prosem.values.model import Delta, Row
from prosem.values.wire import is_same


class JoinSpace(ArrangedJoin, PointSpace):
    """One space for all subscriptions of a select-join.

    The rows are indexed when it is opened, O(N log N) for each order that the mode asks for and no other join holds. An
    event costs O(log N) for each order of its table, and then what the mode's plan says: by the semijoins a few lookups,
    whatever the number of subscriptions.
    """

    storage: ClassVar[Mapping[str, Storage]] = dict.fromkeys(
        ("upsert", "drop", "lose", "joined"), Storage.EVENT
    )
    sources: ClassVar[None] = None
    sample: ClassVar[int] = 4 * SAMPLE  # events on joins are rarely seen by many: small shares count

    def __init__(
        self,
        shape: JoinShape,
        space_id: int,
        context: SpaceContext,
        decomposition: Decomposition,
        mode: str = "semijoin",
        arranged: Arrangement | None = None,
        arranger: Arranger | None = None,
    ) -> None:
        super().__init__(shape, space_id)
        self.mode, self.plans = mode, MODES[mode]
        self.decomposition, self._context = decomposition, context
        self.model = self._modelled(shape)
        self._mode = self._made_mode()
        self.adaptation = Adaptation(self.model)
        self._own = 0  # points of subscriptions to this very join
        self._holders = [0] * len(shape.tables)  # joins that have this as a part and hold a table's semijoin
        self._arranged = arranged or Arrangement(shape, decomposition, "given", "given")
        self._arranger = arranger

    def _modelled(self, shape: JoinShape) -> JoinModel:
        context = self._context
        pricing = Pricing(context.weights, context.reached_us, context.brokers)
        return JoinModel(shape, self.points, context.rows, context.shared, pricing)

    def _made_mode(self) -> Mode:
        model, partners, context = self.model, self.decomposition, self._context
        if self.mode == "semijoin":
            return SemijoinMode(model, partners, context.locate)
        if self.mode == "envelope":
            return EnvelopeMode(model, partners, context.locate, context.max_boxes)
        return JoinedMode(model) if self.mode == "join" else SelectionMode(model)

    # -- points --------------------------------------------------------------------------------------------------
    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        super().add(sids, bounds)
        placed = [
            (sid, bound.place) for sid, bound in zip(sids, bounds, strict=True) if bound.place is not None
        ]
        self._mode.came([sid for sid, _ in placed], [place for _, place in placed])
        self._count(sum(not sid >> ALIAS_SHIFT for sid, _ in placed))

    def move(self, sid: int, before: Bound, after: Bound) -> None:
        super().move(sid, before, after)
        if before.place is not None and after.place is not None:  # else it went and came
            self._mode.went(sid, before.place)
            self._mode.came([sid], [after.place])

    def remove(self, sid: int, bound: Bound) -> None:
        super().remove(sid, bound)
        if bound.place is not None:
            self._mode.went(sid, bound.place)
            self._count(-(not sid >> ALIAS_SHIFT))

    # -- as a part of others -------------------------------------------------------------------------------------
    def _count(self, came: int) -> None:
        """So many subscriptions to this very join came: they hold the semijoins of all tables."""
        self._own += came
        if isinstance(self._mode, SemijoinMode):
            self._mode.unused = frozenset(
                number for number, count in enumerate(self._holders) if not count and not self._own
            )

    def hold_semijoin(self, number: int, count: int) -> None:
        """A join that has this one as a part holds the semijoin of a table from now on, or not any more (-1)."""
        self._holders[number] += count
        self._count(0)

    def has_holder(self, number: int) -> bool:
        return self._holders[number] > 0

    def semijoin(self, number: int, point: Point) -> Iterator[Row]:
        """The rows of a table that have a partner in the other one, for a point."""
        assert isinstance(self._mode, SemijoinMode), "parts are reduced by semijoins"
        return (entry[2] for entry in self._mode.semijoin(self.model.tables[number], point))

    def redecompose(self, decomposition: Decomposition) -> None:
        """Give tables other partners: what edges hold is another from here on. O(rows + points)."""
        self.decomposition = decomposition
        if isinstance(self._mode, SemijoinMode):
            self._mode = self._made_mode()
            self._count(0)

    def _better(self) -> Decomposition | None:
        return self.adaptation.better(self.decomposition) if self.mode == "semijoin" else None

    def _arrange_as(self, arranged: Arrangement) -> None:
        """Give tables these routing columns and partners: what edges hold is another from here on. O(rows + points).

        Points stay where they are. Orders that are still needed are held by the new model before the old one lets them go.
        """
        before = self.model
        self._arranged, self.decomposition = arranged, arranged.partners
        if arranged.shape.routing != before.shape.routing:
            self.model = self._modelled(arranged.shape)
            self.adaptation = Adaptation(self.model)
        self._mode = self._made_mode()
        self._count(0)
        if self.model is not before:
            for table in before.tables:
                table.release()

    def _prepared(self, arranged: Arrangement) -> Preparation | None:
        shared, rows = self._context.shared, self._context.rows
        if shared is None or arranged.shape.routing == self.model.shape.routing or self.mode != "semijoin":
            return None
        found = Preparation(arranged.shape, arranged.partners, rows, shared)
        return found if found.row_count > SLICE_ROWS else None

    @property
    def _routed(self) -> JoinShape:
        return self.model.shape

    def release(self) -> None:
        """The space was closed: what it shares with others is used by one less."""
        self._preparing = None
        for table in self.model.tables:
            table.release()

    def hold_again(self) -> None:
        for table in self.model.tables:
            table.hold_again()

    # -- events --------------------------------------------------------------------------------------------------
    def take(self, deltas: Sequence[Delta], choose: Choose, among: Sequence[Delta] = ()) -> Iterator[Outcome]:
        self._mode.rewind(deltas)
        if self._preparing is not None:
            self._preparing[1].take(deltas)
        return super().take(deltas, choose, among)

    def step(self, delta: Delta) -> Any | None:
        _, table, _, old, new = delta
        number = self.model.shape.index[table.id]
        self.adaptation.count(number, old, new)
        if is_same(old, new):
            return None
        return self._mode.step(self.model.tables[number], old, new)

    @contextmanager
    def rehearsal(self, delta: Delta) -> Iterator[Any]:
        """What an event would do: there and back again, and not counted."""
        counted, back = self.adaptation.counted(), delta._replace(old=delta.new, new=delta.old)
        self._mode.rewind([delta])
        try:
            yield self.step(delta)
        finally:
            self._mode.rewind([back])
            self.step(back)
            self.adaptation.count_again(counted)

    def messages(self, description: Any, plan: str) -> list[Draft]:
        return self._mode.messages(description, plan)

    def drafts(self, description: Any) -> list[Draft]:
        return self._mode.messages(description, self.plans[0])

    # -- for the optimizer ---------------------------------------------------------------------------------------
    def regions(self, description: Any) -> Sequence[tuple[bytes, Region]]:
        """Of semijoins the outlines: making the skylines is what the plans differ in."""
        return [(b"", region) for region in self._mode.outlines(description)]

    def descriptor(self, description: Any) -> Descriptor:
        """What the mode says of it. Plain modes: see `Sketched`."""
        described = self._mode.descriptor(description, self.sketch(), len(self.points))
        return super().descriptor(description) if described is None else described

    def affected(self, description: Any) -> int:
        found = [
            self.points.find(draft.topic, draft.region) if draft.targets is None else draft.targets
            for draft in self.drafts(description)
        ]
        return len(np.unique(np.concatenate(found))) if found else 0

    # -- what edges hold -----------------------------------------------------------------------------------------
    def semijoins(self, point: Point) -> list[list[Row]]:
        """The rows of each table that the edge must hold for a subscription under the present mode, in no order."""
        return self._mode.held(point)

    def joinable(self, point: Point) -> list[list[Row]]:
        """Rows of each table whose join is a subscription's answer; what edges hold, unless they hold nothing."""
        return self.model.selected(point) if self.mode == "join" else self._mode.held(point)

    def check(self) -> None:
        """Assert the invariants of rows, points and anchors."""
        self.points.check()
        for table in self.model.tables:
            table.check()
        self._mode.check()
