"""The state of the server in memory, and what each command does to it.

Owned by the engine thread alone. Every command is validated as a whole before anything changes; then the rows, the
indexes, the write set and the frames of the batch are extended together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from optimizer.cost import Weights
from prosem.engine import commands as c
from prosem.engine.batch import Batch
from prosem.engine.columns_used import every_column
from prosem.engine.defining import Defining, check_unused
from prosem.engine.memory import EngineMemory
from prosem.engine.publishing import Publishing
from prosem.engine.subscribing import Subscribing
from prosem.engine.validate import known_table, table_definition
from prosem.store.log import Counters
from prosem.types.base import AdaptiveSpace, Space, parts_of
from prosem.values.errors import ConflictError
from prosem.values.model import JsonObject, Table, View
from prosem.values.undo import undo


class EngineState(EngineMemory):
    """What the engine thread owns."""

    _looked = 0  # the seq at which spaces were last asked whether to arrange themselves anew

    @cached_property
    def _preparing(self) -> list[int]:
        """Spaces that index rows for another arrangement."""
        return []

    @cached_property
    def subscribing(self) -> Subscribing:
        return Subscribing(self)

    @cached_property
    def _handlers(self) -> dict[type, Callable[[Any], Any]]:
        publishing, subscribing = Publishing(self), self.subscribing
        defining = Defining(self, subscribing)
        return {
            c.CreateTable: self.create_table,
            c.DropTable: self.drop_table,
            c.PrepareView: defining.prepare,
            c.InstallView: defining.install,
            c.DropView: defining.drop,
            c.Publish: publishing.publish,
            c.Transact: publishing.transact,
            c.Explain: publishing.explain,
            c.Subscribe: subscribing.subscribe,
            c.Patch: subscribing.patch,
            c.Delete: subscribing.delete,
            c.Forget: subscribing.forget,
            c.Expire: subscribing.expire,
            c.Result: subscribing.result,
            c.Attach: subscribing.attach,
            c.Inspect: self.inspect,
            c.Weigh: self.weigh,
            c.Adopt: self.adopt,
        }

    def execute(self, command: c.Command) -> Any:
        """Carry a command out in the current batch; raises without having changed anything."""
        return self._handlers[type(command)](command)

    def inspect(self, command: c.Inspect) -> Any:
        with self.undo.paused():
            return command.look(self)

    def begin(self) -> Batch:
        """Close the current batch and start another."""
        if self.seq - self._looked >= self.look_events:
            self._look()
        if self._preparing:
            self._go_on()
        if not self.batch.writes.is_empty():  # reads alone write nothing
            self.marks.renew(self.batch, self.seq, lambda sid: self.place(sid)[1])
        for space, keeping in self.group_store.keeping.items():
            for topic, kept in keeping.changed_items().items():
                self.batch.writes.items[space, topic] = kept
        done, self.batch = self.batch, Batch()
        done.undo = self.undo.cut()
        if self.table_store.stored is not None:
            self.table_store.stored.handed_over(done.writes.rows)
        done.writes.last_seq = self.seq
        done.writes.counters = Counters(
            self.next_table,
            self.group_store.next_group,
            self.group_store.next_statement,
            self.registry.next_sid,
        )
        self.group_store.tidy(self.seq)
        return done

    def take_back(self, refused: Batch | None) -> None:
        """Undo the open batch, and the one before it if that was refused: the memory is as of the last commit again."""
        later, self.batch = self.undo.cut(), Batch()  # what the steps put there is not to be written
        with self.undo.paused(), self.table_store.undoing():
            undo(later)
            if refused is not None:
                undo(refused.undo)
        self.batch = Batch()

    def _look(self) -> None:
        """Spaces that count arrange themselves anew where that pays; this is between two events."""
        self._looked = self.seq
        self._rearrange(lambda space: space.rearrange())
        self.constants.look()
        self.chooser.suppose_again()
        if (figures := self.constants.grown()) is not None:
            self._rearrange(lambda space: space.rearrange_by(figures))

    def _go_on(self) -> None:
        """A space that prepares another arrangement indexes some more rows."""
        at = self._preparing[0]
        space = self.spaces.get(at)
        if isinstance(space, AdaptiveSpace) and space.is_preparing:
            self._rearrange(lambda space: space.go_on(), {at: space})
        else:
            self._preparing.remove(at)

    def _rearrange(
        self,
        change: Callable[[AdaptiveSpace], Callable[[], None] | None],
        among: Mapping[int, Space] | None = None,
    ) -> None:
        """What edges hold of a space that changes is another, and what they hold of the spaces that it is a part of."""
        concerned: dict[int, None] = {}
        spaces = (self.spaces if among is None else among).items()
        for at, space in sorted(spaces, key=lambda one: bool(parts_of(one[1]))):  # parts first
            if not isinstance(space, AdaptiveSpace):
                continue
            back = change(space)
            if space.is_preparing and at not in self._preparing:
                self._preparing.append(at)
            if back is not None:
                self.undo.add(back)
                self.metrics.rearranged += 1
                concerned |= dict.fromkeys([at, *self.group_store.wholes_of(at)])
        self.batch.frames += [c.Rearranged(at) for at in concerned]

    # -- tables --------------------------------------------------------------------------------------------------
    def create_table(self, command: c.CreateTable) -> c.Created:
        table, is_new = self.requested(command)
        if is_new:
            self.table_store.hold({one: every_column(one) for one in table.ancestors})
            self.undo.keep_attribute(self, "next_table")
            self.next_table += 1
            self.table_store.add(table)
            self.batch.writes.created = table
        return c.Created(table, is_new)

    def requested(self, command: c.CreateTable) -> tuple[Table, bool]:
        """The table that is to be made, and whether it is new. Changes nothing."""
        tenant = command.scope.tenant
        requested = table_definition(command.body, self.next_table, self.tables(tenant), tenant)
        known = self.tables(tenant).get(requested.name)
        if known is None:
            return requested, True
        if isinstance(known, View):
            raise ConflictError(f"a view {requested.name!r} exists; choose another name", "/name")
        if known.definition() != requested.definition():
            raise ConflictError(
                f"a different table {requested.name!r} exists; drop it first, or choose another name", "/name"
            )
        return known, False

    def drop_table(self, command: c.DropTable) -> None:
        table = self.droppable(command)
        self.subscribing.end(self.subscribing.unstreamed_users(table))
        self.group_store.forget(table)
        self.table_store.drop(table)
        self.batch.writes.dropped = table

    def droppable(self, command: c.DropTable) -> Table:
        """The table that is to be dropped. Changes nothing."""
        table = known_table(self.tables(command.scope.tenant), command.name)
        check_unused(self, self.subscribing.unstreamed_users(table), table)
        heirs = [heir.name for heir in self.table_store.heirs(table)]
        if heirs:
            raise ConflictError(
                f"the table {table.name!r} is extended by {', '.join(heirs)}; drop that first"
            )
        return table

    # -- the optimizer -------------------------------------------------------------------------------------------
    def weigh(self, command: c.Weigh) -> JsonObject:
        """Other weights, from the next event on. Those not given stay as they are at this place in the order."""
        merged = Weights.of(self.chooser.weights._asdict() | dict(command.weights))
        self.undo.add(self.apply_weights, self.chooser.weights)
        self.apply_weights(merged)
        self.batch.writes.weights = merged._asdict()
        return merged._asdict()

    def apply_weights(self, weights: Weights) -> None:
        """The optimizer and the network choose by these weights from now on."""
        self.chooser.weigh(weights)
        self.group_store.weights = weights
        if self.traffic is not None:
            self.traffic.weights = weights

    def adopt(self, command: c.Adopt) -> None:
        """Take over a run of the statistics job, or none; what is open is arranged by it from the next event on."""
        self.chooser.adopt(command.prepared)
        self.statistics, figures = command.run, command.figures
        if figures is self.group_store.figures:
            return  # spaces were opened by them
        self.undo.keep_attribute(self.group_store, "figures")
        self.group_store.figures = figures
        self.constants.forget()
        if command.run is not None:
            known = self.constants.grown() or figures
            self._rearrange(lambda space: space.rearrange_by(known))
