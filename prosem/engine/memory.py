"""What the server holds in memory: tables with their rows, groups with their spaces, subscriptions, and the open batch.

`PostgreSQL` holds the truth: all this is a function of it. What a batch that is not committed has changed is taken back by
the undo log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cn.model.message import Message
from optimizer.choose import Chooser
from optimizer.cost import BROKERS, BROKERS_US
from prosem.engine.batch import Batch
from prosem.engine.commands import Closed
from prosem.engine.constants import Constants
from prosem.engine.groups import Groups
from prosem.engine.marks import Marks
from prosem.engine.stored_columns import RowSource, StoredColumns
from prosem.engine.subscriptions import SubscriptionRegistry
from prosem.engine.tables import Content, Tables
from prosem.engine.traffic import Traffic
from prosem.engine.unstreamed import LIFETIME_S, Unstreamed
from prosem.engine.views import Views
from prosem.runtime.clock import SYSTEM_CLOCK, Clock
from prosem.runtime.metrics import Metrics
from prosem.types.base import (
    ALIAS_SHIFT,
    MOVED,
    SID_MASK,
    Bound,
    Draft,
    Form,
    MarkedSpace,
    Space,
    Storage,
    parts_of,
)
from prosem.values.model import DEFAULT_TENANT, Group, JsonObject, Table
from prosem.values.timeline import Timelines
from prosem.values.undo import UndoLog
from prosem.values.wire import decode_exact, pack

WHOLE, EVENT, SENT_ONLY, STORED_ONLY = (  # a member of an enumeration is looked up in four times as long
    Storage.WHOLE,
    Storage.EVENT,
    Storage.SENT_ONLY,
    Storage.STORED_ONLY,
)


class EngineMemory:
    """`retained_after`: what happened after this seq can still be replayed; `max_boxes`: of one event's regions.

    After every `look_events` events spaces may arrange themselves anew. `traffic` knows what messages cost the network;
    None: there are no brokers. `stored`: where columns that are not used stay; None: all are in memory.
    """

    def __init__(
        self,
        chooser: Chooser,
        metrics: Metrics,
        retained_after: Callable[[], int] = lambda: 0,
        max_boxes: int = 128,
        plan: str = "auto",
        look_events: int = 20_000,
        traffic: Traffic | None = None,
        ephemeral_s: float = LIFETIME_S,
        clock: Clock = SYSTEM_CLOCK,
        stored: RowSource | None = None,
    ) -> None:
        self.chooser, self.metrics, self.traffic, self.clock = chooser, metrics, traffic, clock
        self.statistics: JsonObject | None = None  # the run that is in force
        self.retained_after = retained_after
        self.look_events = look_events
        self.seq = 0
        self.timelines = Timelines()
        self.next_table = 1
        self.undo = UndoLog()
        elsewhere = None if stored is None else StoredColumns(stored, lambda: self.batch.writes.rows, metrics)
        self.table_store = Tables(self.undo, elsewhere)
        self.views = Views(self.table_store, self.undo)
        self.registry = SubscriptionRegistry()
        self.unstreamed = Unstreamed(ephemeral_s, clock.monotonic)
        self.marks = Marks(self.registry, self.undo)
        self.group_store = Groups(self.table_store, self.views, self._locate, max_boxes, plan, self.undo)
        self.group_store.on_close = self._closed
        self.constants = Constants(self.group_store, self.registry, self.undo)
        chooser.expected = self.constants.expected
        if traffic is not None:
            self.group_store.reached_us, self.group_store.brokers = BROKERS_US, BROKERS
            chooser.carriages = traffic.expected
        self.batch = Batch()

    def _closed(self, space: int) -> None:
        """Nothing is known of a space any more, here and where frames go."""
        self.chooser.forget(space)
        self.batch.frames.append(Closed(space))

    def tables(self, tenant: str = DEFAULT_TENANT) -> Mapping[str, Table]:
        """The tables and views of a tenant by their names."""
        return self.table_store.of(tenant)

    @property
    def rows(self) -> Mapping[int, Content]:
        return self.table_store.rows

    @property
    def groups(self) -> Mapping[int, Group]:
        return self.group_store.by_id

    @property
    def group_sizes(self) -> Mapping[int, int]:
        return self.group_store.sizes

    @property
    def spaces(self) -> Mapping[int, Space]:
        return self.group_store.spaces

    def place(self, sid: int) -> tuple[Form, Space, Bound]:
        form = self.group_store.form(self.registry.statement(sid))
        space = self.group_store.space(form, self.groups[self.registry.group(sid)])
        if isinstance(space, MarkedSpace) and self.registry.frozen(sid) is None:
            return form, space, space.locate(sid)
        return form, space, form.bind(decode_exact(self.registry.params(sid)))

    def _locate(self, id: int) -> Bound:
        """The place that an id stands for: of a subscription, or of its part in a space."""
        _, space, bound = self.place(id & SID_MASK)
        number = id >> ALIAS_SHIFT
        part = next((one for one in parts_of(space) if one.number == number), None) if number else None
        return bound if part is None or bound.place is None else part.bound(bound.place)

    def snapshot(self, form: Form, space: Space, bound: Bound) -> JsonObject:
        return form.snapshot(space, self.table_store.visible[form.tables[0].id], bound)

    def send(self, seq: int, part: int, space: Space, plan: str, drafts: Sequence[Draft]) -> int:
        """Put messages of one event into the outbox and among the frames, numbered from `part` on.

        Gives their size in bytes, of those that are not packed without their regions.
        """
        at, storages, writes, frames = space.network.id, space.storage, self.batch.writes, self.batch.frames
        is_from_log = at in self.group_store.from_log
        size = sent = 0
        for number, draft in enumerate(drafts, part):
            message, kind, body = Message(seq, number, at, *draft), draft[0], None
            storage = storages.get(kind, WHOLE)
            if is_from_log and kind != MOVED:
                storage = SENT_ONLY  # replays make it again from rows and the event log
            if storage is not SENT_ONLY:
                if storage is not EVENT:
                    body = pack(message)
                    writes.size_bytes += len(body)
                writes.messages.append((at, seq, number, kind, plan, body))
                writes.size_bytes += 100
            if storage is STORED_ONLY:
                continue
            frames.append(message)
            sent += 1
            size += len(message.payload) + sum(map(len, message.contents)) if body is None else len(body)
        if sent:
            self.metrics.messages[plan] += sent
        return size
