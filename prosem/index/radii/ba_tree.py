"""The augmented tree over radii (BA-tree): the subscriptions that a new value affects, as ranges of radii."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from cn.match import kernels
from prosem.index.radii.ba_tree_ends import SMALL, Ends, Radius, Value
from prosem.index.radii.ba_tree_loose import LooseRuns
from prosem.index.radii.ba_tree_radii import SEVERAL, CompiledRadii, Fired, Journal, Part, Radii, Run
from prosem.index.radii.ba_tree_runs import RadiusRuns
from prosem.index.radii.ba_tree_scan import RadiusArrays, UnfitError
from prosem.index.radii.radius_block import RadiusBlocks
from prosem.index.radii.radius_pairs import RadiusPairs
from prosem.values.undo import NO_UNDO, UndoLog

MANY = 1024  # radii from which on arrays may be quicker than a tree
BLOCK = 128  # radii of a block of the compiled structure
SWITCH = 0.5  # microseconds that it takes to go from the one to the other, for each radius


class RadiusTree:
    """What the BA-tree and the B²-tree share: one data item, its value, the radii of its subscriptions and their ends.

    The value None is that of a missing row: all are notified when it comes and when it goes. `_held` counts the
    subscriptions of a radius where there are more than one, or knows their classes. The last notified values, the
    centres of the intervals, are in a compiled structure while they fit 64 bits; otherwise in a tree of runs, or in
    arrays while those would have saved more than the way there and back.

    What events do to the centres is recorded in `undo`: a tree of runs and the compiled structure note what they
    overwrite, arrays are copied by the first event of a batch that fires. The value is not: it is the row's.
    """

    __slots__ = (
        "_centres",
        "_count",
        "_fit",
        "_held",
        "_is_compiled",
        "_journal",
        "_order",
        "_regret",
        "_saved",
        "_visits",
        "ends",
        "undo",
        "value",
    )

    def __init__(self, ends: Ends, value: Value | None = None, undo: UndoLog = NO_UNDO) -> None:
        self.ends = ends
        self.value = value
        self.undo = undo
        self._saved = -1  # the batch whose undo log has a copy or a journal; only events came since
        self._journal: Journal | None = None
        self._count = 0
        self._visits = 0  # of what was in place of `_centres` before
        self._order = self._blocks()
        self._held: dict[Radius, Any] = {}
        self._is_compiled = False
        self._centres: Radii = self._compiled(()) or self._runs()
        self._regret = 0.0  # microseconds lost so far by not using the other form
        self._fit = not ends.loose  # whether arrays may be tried

    def __len__(self) -> int:
        return self._count

    @property
    def radii(self) -> int:
        """How many different radii there are."""
        return len(self._order)

    @property
    def visits(self) -> int:
        """Nodes of the tree and scans of the arrays so far."""
        return self._visits + self._centres.visits

    def _load(self, centres: list[tuple[Radius, Value]]) -> None:
        """Begin anew with these radii, ascending, and their centres; in arrays if there are many different ones."""
        runs: list[Run] = []
        for radius, centre in centres:
            if runs and centre is not SEVERAL and runs[-1].centre == centre:
                runs[-1] = Run(runs[-1].low, radius, centre)
            else:
                runs.append(Run(radius, radius, centre))
        self._order = self._blocks(radius for radius, _ in centres)
        compiled = self._compiled(runs)
        if compiled is not None:
            self._centres = compiled
        elif len(runs) * 4 < len(self._order) or not self._as_arrays(runs):
            self._centres = self._runs(runs)

    # -- events ----------------------------------------------------------------------------------------------
    def _fire(self, d: Value | None) -> tuple[list[Fired], list[Part]]:
        before, self.value = self.value, d
        centres = self._centres
        if d is None or before is None:
            if d == before or not len(self._order):
                return [], []
            self._recentre(self._at(d))
            return [(self._order.first, self._order.last, None)], []
        if d > before:
            if d < centres.root[0]:
                return [], []
        elif d == before or -d < centres.root[1]:
            return [], []
        try:
            fired = self._fire_recorded(d, d > before)
        except UnfitError:
            self._as_runs()
            fired = self._fire_recorded(d, d > before)
        if not self._is_compiled:
            self._weigh()
        return fired

    # -- what is taken back ----------------------------------------------------------------------------------
    def _fire_recorded(self, d: Value, rising: bool) -> tuple[list[Fired], list[Part]]:
        """Fire, and record how the event is undone."""
        centres: Any = self._centres
        fired: tuple[list[Fired], list[Part]]
        if self._is_compiled:
            fired = centres.fire(d, rising, self._journal_of_batch())
            return fired
        if not self.undo.is_on:
            fired = centres.fire(d, rising)
            return fired
        if isinstance(centres, RadiusArrays):
            self._save(centres)
            return centres.fire(d, rising)
        pieces: list[Run] = []
        centres.pieces = pieces
        self.undo.add(self._unfire, pieces)
        fired = centres.fire(d, rising)
        centres.pieces = None
        pieces += [Run(radius, radius, SEVERAL) for radius, _ in fired[1]]
        return fired

    def _journal_of_batch(self) -> Journal | None:
        """Where the compiled structure notes what events overwrite: one list per batch, while nothing else comes between."""
        undo = self.undo
        if not undo.is_on:
            return None
        if self._saved != undo.number:
            centres: Any = self._centres
            self._journal, self._saved = centres.journal(), undo.number
            undo.add(self._rewind, self._journal)
        return self._journal

    def _rewind(self, journal: Journal) -> None:
        if not self._is_compiled:  # the numbers that did not fit are gone again
            compiled = self._compiled(self._centres)
            assert compiled is not None, "the journal was written by a compiled structure"
            self._swap(compiled)
        cast(CompiledRadii, self._centres).rewind(journal)
        self._saved = -1

    def _save(self, arrays: RadiusArrays) -> None:
        """Record arrays as a whole, unless that was done in this batch and only events came since."""
        if self._saved != self.undo.number:
            self.undo.add(self._restore, arrays.copy())
            self._saved = self.undo.number

    def _restore(self, centres: Radii) -> None:
        self._visits += self._centres.visits - centres.visits
        self._centres, self._is_compiled, self._saved = centres, False, -1

    def _unfire(self, pieces: list[Run]) -> None:
        runs = cast(RadiusRuns, self._centres if isinstance(self._centres, RadiusRuns) else self._as_runs())
        self._restore(self._runs(runs.overlaid(pieces)))

    def _plant(self, runs: list[Run]) -> None:
        self._restore(self._runs(runs))

    def _recentre(self, d: Value) -> None:
        several = [run.low for run in self._centres if run.centre is SEVERAL]
        try:
            self._recentre_recorded(d)
        except UnfitError:
            self._as_runs()
            self._recentre_recorded(d)
        for radius in several:
            self._held[radius].recentre(d)

    def _recentre_recorded(self, d: Value) -> None:
        """Classes are undone before, since they are recentred after: what is put back asks them for their ends."""
        centres: Any = self._centres
        if self._is_compiled:
            centres.recentre(d, self._journal_of_batch())
            return
        if isinstance(centres, RadiusArrays) and self.undo.is_on:
            self._save(centres)
        elif self.undo.is_on:
            self.undo.add(self._plant, list(centres))
        centres.recentre(d)

    def _weigh(self) -> None:
        """Go over to the other form when it would have saved what it takes to go there."""
        centres = self._centres
        self._regret = max(0.0, self._regret + centres.work - centres.work_elsewhere)
        if self._regret <= SWITCH * len(self._order):
            return
        self._regret = 0.0
        if type(centres) is RadiusArrays:
            self._as_runs()
        else:
            self._as_arrays(centres)

    def _as_arrays(self, runs: Iterable[Run]) -> bool:
        if self._fit and len(self._order) >= MANY:
            try:
                self._swap(RadiusArrays(self.ends, self._order, self._held, runs))
            except UnfitError:
                self._fit = False
                return False
            return True
        return False

    def _compiled(self, runs: Iterable[Run]) -> Radii | None:
        """The compiled structure with these runs over all radii; None if there is none, or a number does not fit."""
        module, ends = kernels.compiled(), self.ends
        self._is_compiled = False
        if module is None or ends.loose or ends.scale >= SMALL:
            return None
        make = module.IntegerRadii if ends.exact else module.DoubleRadii
        try:
            made = make(ends.name, ends.scale, self._order, self._held, runs, Run, SEVERAL, UnfitError, BLOCK)
        except UnfitError:
            return None
        self._is_compiled = True
        return cast(Radii, made)

    def _as_runs(self) -> Radii:
        self._is_compiled = False
        return self._swap(self._runs(self._centres))

    def _swap(self, centres: Radii) -> Radii:
        self._visits += self._centres.visits
        self._centres, self._saved = centres, -1
        return centres

    def _blocks(self, radii: Iterable[Radius] = ()) -> RadiusBlocks:
        return RadiusPairs(radii) if self.ends.loose else RadiusBlocks(radii)

    def _runs(self, runs: Iterable[Run] = ()) -> RadiusRuns:
        kind = LooseRuns if self.ends.loose else RadiusRuns
        return kind(self.ends, self._order, self._held, runs)

    # -- radii -----------------------------------------------------------------------------------------------
    def _at(self, value: Value | None) -> Value:
        """Where radii stand: anywhere while there is no value."""
        return value if value is not None else 0 if self.ends.exact else 0.0

    def _insert(self, radius: Radius, centre: Value) -> None:
        self._order.add(radius)
        try:
            self._centres.insert(radius, centre)
        except UnfitError:
            self._as_runs().insert(radius, centre)

    def _delete(self, radius: Radius) -> None:
        self._centres.delete(radius)
        self._order.remove(radius)
        self._held.pop(radius, None)
        if len(self._order) < MANY // 2 and type(self._centres) is RadiusArrays:
            self._as_runs()

    def check(self) -> None:
        """The invariants, in O(N)."""
        self._order.check()
        self._centres.check()
        assert all(radius in self._order for radius in self._held), "only radii hold something"
        for run in self._centres if self.value is not None else ():
            if run.centre is SEVERAL:
                right, left = self._held[run.low].near()
            else:
                right, left = self.ends.right(run.centre, run.low), self.ends.left(run.centre, run.low)
            assert left < self.value < right, "the value lies inside every interval"
