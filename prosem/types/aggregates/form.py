"""Several aggregates in one SELECT, and groups: what their subscriptions are answered and notified of.

The edge holds what all aggregates need, folds all messages of a seq, and compares the answer after them with the one before:
it is silent where they are equal. HAVING is applied there, to the groups that messages concern. Both are replayed from rows
and the event log, by a shadow of the space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from cn.model.message import Message
from prosem.language.syntax import Query
from prosem.types.aggregates.columns import Kept, Output, Part
from prosem.types.aggregates.having import Condition, constants, holds
from prosem.types.aggregates.placing import group_values
from prosem.types.aggregates.space import AggregatesSpace, reads
from prosem.types.aggregates.state import ALONE, AggregateState, Fold, pack_groups, unpack_groups
from prosem.types.base import MOVED, Bound, Replay, Rows, Space, SpaceContext, described_columns
from prosem.types.shared.narrowed import RangeReplay
from prosem.types.shared.ranges import RangeForm, Ranges
from prosem.types.shared.rules import fields, listed, written
from prosem.values.model import JsonObject
from prosem.values.wire import decode, encode

Named = tuple[str, Output]


class AggregateForm(RangeForm):
    """What both have in common. `kept` has the aggregates of HAVING too."""

    query: Query
    shape: Ranges
    kept: Kept
    grouped: tuple[int, ...]
    conditions: tuple[Condition, ...]

    @property
    def replay(self) -> Replay:
        return RangeReplay(self.shape.table, self.shape.ranged)

    @property
    def columns_read(self) -> frozenset[int]:
        return reads(self.shape, self.kept, self.grouped)

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        return AggregatesSpace(self.shape, self.kept, self.grouped, space_id, context)

    @cached_property
    def _fold(self) -> Fold:
        return Fold(self.kept, bool(self.grouped))

    def state(self, space: Space, bound: Bound) -> AggregateState:
        return AggregateState(bound.constants, cast(AggregatesSpace, space).groups(bound))

    def pack_state(self, state: AggregateState) -> bytes:
        packed = [one.pack(constant) for one, constant in zip(self.conditions, state.constants, strict=True)]
        return pack_groups(packed, state)

    def unpack_state(self, packed: bytes) -> AggregateState:
        given, groups = unpack_groups(packed)
        return AggregateState(
            tuple([one.unpack(constant) for one, constant in zip(self.conditions, given, strict=True)]),
            groups,
        )


def _values(outputs: Sequence[Named], part: Part) -> tuple[Any, ...]:
    """The aggregates of some rows, so that equal ones compare so."""
    return tuple([output.value(part) for _, output in outputs])


def _shown(outputs: Sequence[Named], values: Sequence[Any]) -> JsonObject:
    return {name: output.shown(value) for (name, output), value in zip(outputs, values, strict=True)}


def _is_same(outputs: Sequence[Named], one: JsonObject, other: JsonObject) -> bool:
    """Whether two answers are the same; numbers may have other digits."""
    return one == other or all(
        one[name] == other[name] or output.read(one[name]) == output.read(other[name])
        for name, output in outputs
    )


@dataclass(frozen=True)
class SeveralForm(AggregateForm):
    """SELECT MIN(y) AS low, COUNT(*) …: an answer of one row."""

    query: Query
    shape: Ranges
    kept: Kept
    columns: tuple[Named, ...]
    grouped: tuple[int, ...] = ()
    conditions: tuple[Condition, ...] = ()
    type: str = "aggregates"

    @property
    def label(self) -> str:
        what = ", ".join(output.words(self.shape.table) for _, output in self.columns)
        return f"{what} FROM {self.shape.source()}{self.shape.where()}"

    @property
    def folding(self) -> JsonObject:
        return {"columns": described_columns((name, output.type) for name, output in self.columns)}

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        part = self._fold.part(self.state(space, bound).groups.get(ALONE, {}))
        assert part is not None, "without GROUP BY there is always an answer"
        return {"columns": _shown(self.columns, _values(self.columns, part))}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        return None if _is_same(self.columns, before["columns"], after["columns"]) else after

    def change(
        self, messages: Sequence[Message], bound: Bound, state: AggregateState
    ) -> tuple[bytes | None, AggregateState]:
        if messages[-1].kind == MOVED:  # the state came with it
            return messages[-1].payload, state
        was, now = self._fold.apply(messages, state)[ALONE]
        assert was is not None, "without GROUP BY there is always an answer"
        assert now is not None, "without GROUP BY there is always an answer"
        values = _values(self.columns, now)
        if values == _values(self.columns, was):
            return None, state
        return encode({"columns": _shown(self.columns, values)}), state

    def opening(self, snapshot: bytes, state: Any) -> JsonObject:
        return {"message": "state", **fields(snapshot)}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        return [] if change is None else [{"message": "change", **fields(change)}]


@dataclass(frozen=True)
class GroupByForm(AggregateForm):
    """SELECT g, COUNT(*) … GROUP BY g [HAVING …].

    `items` are the columns of the answer in their order: an aggregate, or the position of a column of GROUP BY.
    """

    query: Query
    shape: Ranges
    kept: Kept
    grouped: tuple[int, ...]
    items: tuple[tuple[str, Output | int], ...]
    conditions: tuple[Condition, ...]
    type: str = "group-by"

    @property
    def label(self) -> str:
        table = self.shape.table
        what = ", ".join(
            repr(table.names[item]) if isinstance(item, int) else item.words(table) for _, item in self.items
        )
        by = ", ".join(repr(table.names[at]) for at in self.grouped)
        having = " AND ".join(f"{one.output.words(table)} {one.having.op} ?" for one in self.conditions)
        return f"{what} FROM {self.shape.source()}{self.shape.where()} GROUP BY {by}" + (
            f" HAVING {having}" if having else ""
        )

    @cached_property
    def bind(self) -> Callable[[Mapping[str, Any]], Bound]:
        place, conditions = self.shape.binder(self.query), self.conditions
        if not conditions:
            return place
        return lambda params: place(params)._replace(constants=constants(conditions, params))

    @property
    def folding(self) -> JsonObject:
        columns = self.shape.table.columns
        types = [
            (name, columns[item].type if isinstance(item, int) else item.type) for name, item in self.items
        ]
        return {"key": [name for name, _ in self._keys], "columns": described_columns(types)}

    @cached_property
    def _outputs(self) -> tuple[Named, ...]:
        return tuple([(name, item) for name, item in self.items if isinstance(item, Output)])

    @cached_property
    def _keys(self) -> tuple[tuple[str, int], ...]:
        return tuple([(name, item) for name, item in self.items if isinstance(item, int)])

    # -- answers -------------------------------------------------------------------------------------------------
    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        state = self.state(space, bound)
        found = []
        for group, parts in state.groups.items():
            values = self._answer(self._fold.part(parts), state)
            if values is not None:
                found.append(self._group(group, values))
        return {"groups": found}

    def _answer(self, part: Part | None, state: AggregateState) -> tuple[Any, ...] | None:
        """The aggregates of a group; None if it is not in the answer."""
        if part is None or not holds(self.conditions, state.constants, part):
            return None
        return _values(self._outputs, part)

    def _group(self, group: bytes, values: Sequence[Any]) -> JsonObject:
        own = group_values(self.shape.table, self.grouped, group)
        shown = iter(values)
        return {
            name: own[item] if isinstance(item, int) else item.shown(next(shown)) for name, item in self.items
        }

    def _key(self, group: bytes) -> JsonObject:
        own = group_values(self.shape.table, self.grouped, group)
        return {name: own[at] for name, at in self._keys}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        was = {self._identity(group): group for group in before["groups"]}
        now = {self._identity(group): group for group in after["groups"]}
        change = {
            "add": [group for key, group in now.items() if key not in was],
            "update": [
                group
                for key, group in now.items()
                if key in was and not _is_same(self._outputs, was[key], group)
            ],
            "remove": [
                {name: group[name] for name, _ in self._keys} for key, group in was.items() if key not in now
            ],
        }
        return change if any(change.values()) else None

    def _identity(self, group: JsonObject) -> str:
        """The key of a group as the text by which it is found again."""
        columns = self.shape.table.columns
        return ",".join(
            [
                "null" if group[name] is None else written(columns[at].type.read(group[name]))
                for name, at in self._keys
            ]
        )

    def change(
        self, messages: Sequence[Message], bound: Bound, state: AggregateState
    ) -> tuple[bytes | None, AggregateState]:
        if messages[-1].kind == MOVED:  # the state came with it
            return messages[-1].payload, state
        change: dict[str, list[JsonObject]] = {"add": [], "update": [], "remove": []}
        for group, (was, now) in self._fold.apply(messages, state).items():
            before, after = self._answer(was, state), self._answer(now, state)
            if before == after:
                continue
            if after is None:
                change["remove"].append(self._key(group))
            else:
                change["add" if before is None else "update"].append(self._group(group, after))
        return (encode(change) if any(change.values()) else None), state

    # -- raw streams ---------------------------------------------------------------------------------------------
    def opening(self, snapshot: bytes, state: Any) -> JsonObject:
        return {"message": "state", "groups": [self._raw(group) for group in listed(snapshot)["groups"]]}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        changed = {} if change is None else listed(change)
        return [
            {"message": "group", **self._raw(group, is_there=kind != "remove")}
            for kind in ("remove", "update", "add")
            for group in changed.get(kind, ())
        ]

    def _raw(self, group: Mapping[str, Any], is_there: bool = True) -> JsonObject:
        key = self._identity({name: decode(group[name]) for name, _ in self._keys})
        return {"key": key, "group": group if is_there else None}
