"""How an event changes the rows of a select-join: by semijoins in one call, where all codes fit 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, cast

from cn.match import kernels
from cn.model.geometry import Interval, Region
from prosem.index.joins.join_keys import JoinKeys
from prosem.index.joins.stabbing_set import StabbingSet
from prosem.types.join.model import Change, JoinModel
from prosem.types.join.regions import JoinRegions
from prosem.types.join.shape import JoinKey
from prosem.types.join.table import Classes, JoinTable, Placed
from prosem.values.model import Delta, Row

Shifted = tuple[
    int, Row, Region, bool
]  # the number of a follower, the row with the key, where, whether rows are gained


class Link(NamedTuple):
    """From a table to a neighbour: the key that they share, of rows of the table, and the rows of both by it."""

    other: JoinTable
    classes: Classes
    key_of: Callable[[Row], JoinKey]
    own: JoinKeys
    others: JoinKeys


class CompiledStep(Protocol):
    """As `step` of the rows and `SemijoinMode.describe` in Python."""

    def step(
        self, number: int, old_row: Row | None, new_row: Row | None, /
    ) -> tuple[Placed | None, Placed | None, list[Shifted]] | None:
        """A row of table `number` goes from `old_row` to `new_row`: the row before and after where a subscription may see
        it, and what followers lose or gain. None: no subscription is affected.
        """

    def set_unused(self, numbers: Iterable[int], /) -> None:
        """Nothing is said of the rows of these tables any more: see `SemijoinMode.unused`."""

    def rewind(self, deltas: Sequence[Delta], shared: Sequence[Sequence[bool]], /) -> None:
        """As `JoinModel.rewind`; `shared` says of each table which of its orders others use."""

    def visible(self, number: int, placed: Placed, clusters: StabbingSet, is_merged: bool, /) -> Region:
        """As `JoinRegions.visible`, of a row of table `number`, whose partner has a routing column."""


def compiled_step(
    model: JoinModel,
    regions: JoinRegions,
    partners: Sequence[Link],
    followers: Sequence[Sequence[Link]],
) -> CompiledStep | None:
    """Over the orders that the tables hold now; None where rows must be taken in Python."""
    module = kernels.compiled_over(model.points, model.shape.int64)
    layouts = [table.layout() for table in model.tables]
    if module is None or not all(
        isinstance(rows, module.JoinKeys) for layout in layouts for _, rows in layout.orders
    ):
        return None
    shape = model.shape
    made = module.JoinStep(regions, model.points, shape.dimensions, Interval, Placed)
    for layout in layouts:
        made.add_table(*layout)
    for table in model.tables:
        number = table.number
        link = partners[number]
        key = shape.positions(number, link.classes)
        made.set_partner(number, link.other.number, key, link.own, link.others, link.other.routing)
        for link in followers[number]:
            key = shape.positions(number, link.classes)
            made.add_follower(number, link.other.number, key, link.own, link.others, link.other.routing)
    return cast(CompiledStep, made)


class RowsInPython:
    """What the modes without a compiled step have in common: how a row is taken."""

    def __init__(self, model: JoinModel) -> None:
        self._model = model

    def rewind(self, deltas: Sequence[Delta]) -> None:
        self._model.rewind(deltas)

    def step(self, table: JoinTable, old: Row | None, new: Row | None) -> Any | None:
        return take_row(self._model, table, old, new, self._describe)

    def _describe(self, change: Change) -> Any | None:
        raise NotImplementedError


def take_row(
    model: JoinModel,
    table: JoinTable,
    old_row: Row | None,
    new_row: Row | None,
    describe: Callable[[Change], Any | None],
) -> Any | None:
    """The same in Python, by a mode's `describe`: it is asked while the table is without the row."""
    old, new = table.placed(old_row), table.placed(new_row)
    if old is None and new is None:
        return None
    if old is not None:
        table.remove(old)
    stays = old is not None and new is not None and table.same_place(old, new)
    description = describe(Change(table, old, new, stays)) if len(model.points) else None
    if new is not None:
        table.add(new)
    return description
