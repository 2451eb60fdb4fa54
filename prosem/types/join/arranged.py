"""What the spaces of joins share: how they are arranged now, and how they are arranged anew between two events.

Where many rows are to be indexed for another routing column, that is done bit by bit (`preparation`), and the space is
arranged once it is done.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

from prosem.types.join.arrangement import COUNTED, Arrangement, Arranger
from prosem.types.join.decomposition import Decomposition
from prosem.types.join.preparation import Preparation
from prosem.types.join.shape import JoinShape
from prosem.values.model import JsonObject
from prosem.values.statistics import RunFigures


class ArrangedJoin:
    """An `AdaptiveSpace` and `ArrangedSpace`.

    `_arranged` is how the space was arranged last; events counted since may have given it another `decomposition`. Without
    an `_arranger` no run arranges it.
    """

    decomposition: Decomposition
    _arranged: Arrangement
    _arranger: Arranger | None
    _preparing: tuple[Arrangement, Preparation] | None = None

    @property
    @abstractmethod
    def _routed(self) -> JoinShape:
        """The shape with the routing columns that tables have now."""

    @abstractmethod
    def _better(self) -> Decomposition | None:
        """Partners that are cheaper by far, by the events counted since the last look; None if there are none."""

    @abstractmethod
    def redecompose(self, decomposition: Decomposition) -> None:
        """Give tables other partners: what edges hold is another from here on."""

    @abstractmethod
    def _arrange_as(self, arranged: Arrangement) -> None:
        """Give tables these routing columns and partners: what edges hold is another from here on."""

    def _prepared(self, arranged: Arrangement) -> Preparation | None:
        """What is to be indexed before an arrangement, if that is much."""
        return None

    def _is_same(self, one: Arrangement, other: Arrangement) -> bool:
        return one.is_same(other)

    def rearrange(self) -> Callable[[], None] | None:
        """Decompose anew where that pays by now: edges must be given what they hold again. Returns what takes it back."""
        better = self._better()
        if better is None:
            return None
        before = self.decomposition
        self.redecompose(better)
        return partial(self.redecompose, before)

    def rearrange_by(self, figures: RunFigures) -> Callable[[], None] | None:
        if self._arranger is None:
            return None
        before = self._present
        found, self._preparing = self._arranger.by(figures, before), None
        if self._is_same(found, before):
            self._arranged = found  # by other figures
            return None
        preparation = self._prepared(found)
        if preparation is not None:
            self._preparing = found, preparation
            return None
        self._arrange_as(found)
        return partial(self._arrange_as, before)

    @property
    def is_preparing(self) -> bool:
        return self._preparing is not None

    def go_on(self) -> Callable[[], None] | None:
        assert self._preparing is not None, "asked only while it is preparing"
        found, preparation = self._preparing
        if not preparation.go_on():
            return None
        self._preparing, before = None, self._present
        if before.partners_by == COUNTED:  # meanwhile
            found = found._replace(partners=before.partners, partners_by=COUNTED)
        with preparation.shared():
            self._arrange_as(found)
        return partial(self._arrange_as, before)

    @property
    def _present(self) -> Arrangement:
        found = self._arranged._replace(shape=self._routed)
        if self.decomposition == found.partners:
            return found
        return found._replace(partners=self.decomposition, partners_by=COUNTED)

    def arrangement(self) -> JsonObject:
        """Routing columns and partners, and which statistic each was chosen by."""
        return self._present.document()

    def arrangement_without(self, figures: RunFigures) -> JsonObject | None:
        return None if self._arranger is None else self._arranger.without_run(figures, self._present)
