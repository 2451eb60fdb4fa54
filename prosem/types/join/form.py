"""Select-joins: `SELECT * FROM r JOIN s USING (b) [JOIN …] WHERE` ranges and equality on any of the tables.

The edge holds a semijoin of each table (the rows that its conditions admit and that have a partner in one neighbour) and
joins them itself ([ProSem thesis] 5). So a message carries rows of one table, not of the join, and a row travels once
however many joined rows it is in. Results are sent as joined rows that came and that went, in one change per event.

It loses where results are tiny and rows come into semijoins without ever coming into a result; the modes `join` (joined rows
travel, the edge holds nothing) and `selection` (the edge holds whole selections) are there to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from cn.model.message import Message
from prosem.language.dimensions import Dimension, compared
from prosem.language.joins import join_classes
from prosem.language.resolve import column, owner
from prosem.language.syntax import Atom, Query, Source, Star
from prosem.types.base import Bound, Replay, Rows, Space, SpaceContext, SubscriptionType
from prosem.types.join.arrangement import Arranger, arrange, routing_candidates
from prosem.types.join.client_rules import RULES
from prosem.types.join.message import Joined
from prosem.types.join.parted import PartedJoinSpace
from prosem.types.join.raw import RawJoinMessages
from prosem.types.join.replay import JoinReplay
from prosem.types.join.shape import JoinShape, mode_of
from prosem.types.join.space import JoinSpace
from prosem.types.join.state import JoinFold, JoinState
from prosem.types.join.translation import Sources, Translator
from prosem.types.shared.ranges import Ranges
from prosem.types.shared.words import range_ends
from prosem.values.errors import LanguageError
from prosem.values.model import JsonObject, Table
from prosem.values.wire import decode, encode

_OPERATORS = ("=", "<", "<=", ">", ">=")
NOWHERE = Bound(b"", None)


@dataclass(frozen=True)
class JoinForm:
    """`atoms`: for each table the conditions on its columns."""

    query: Query
    shape: JoinShape
    atoms: tuple[tuple[Atom, ...], ...]
    type: str = "select-join"

    @cached_property
    def label(self) -> str:
        parts = sorted(
            {
                f"{number}:{atom.column.name!r} {'= ?' if atom.op == '=' else 'IN RANGE'}"
                for number, some in enumerate(self.atoms)
                for atom in some
            }
        )
        return f"* FROM {self.shape.source()}" + (f" WHERE {' AND '.join(parts)}" if parts else "")

    @property
    def space_label(self) -> str:
        return self.label

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.shape.tables

    @cached_property
    def fold(self) -> JoinFold:
        return JoinFold(self.shape)

    @cached_property
    def bind(self) -> Callable[[Mapping[str, Any]], Bound]:
        """Each table's conditions give a part of the point; the binder of a single table's ranges finds it."""
        binders = [
            Ranges(table, ranged, ()).binder(replace(self.query, where=(atoms,)))
            for table, ranged, atoms in zip(self.tables, self.shape.ranged, self.atoms, strict=True)
            if ranged
        ]

        def bind(params: Mapping[str, Any]) -> Bound:
            point: tuple[Any, ...] = ()
            for binder in binders:
                place = binder(params).place
                if place is None:
                    return NOWHERE
                point += place
            return Bound(b"", point or (0, 0))

        return bind

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        arranged, arranger = (
            arrange(self.shape, self.atoms, context),
            Arranger(self.shape, self.atoms, context),
        )
        mode = mode_of(context.plan)
        if mode == "semijoin" and context.part is not None and not self._is_part:
            parts = [context.part(part) for part in self._parts]
            return PartedJoinSpace(space_id, arranged, parts, arranger)
        return JoinSpace(arranged.shape, space_id, context, arranged.partners, mode, arranged, arranger)

    @property
    def _parts(self) -> list[JoinForm]:
        """The joins of two tables that it consists of."""
        return [
            JoinForm(self.query, part.shape, tuple(self.atoms[one] for one in part.tables))
            for part in self.shape.parts
        ]

    @property
    def _is_part(self) -> bool:
        """Whether it is such a join of two tables itself."""
        return len(self.tables) == 2 and self._parts[0].label == self.label

    # -- answers -------------------------------------------------------------------------------------------------
    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        if bound.place is None:
            return {"rows": []}
        opened = cast("JoinSpace | PartedJoinSpace", space)
        held = JoinState(self.shape, opened.joinable(bound.place))
        return {"rows": list(map(self._object, held.answer().values()))}

    def _object(self, joined: Joined) -> JsonObject:
        return {table.name: table.record(*row) for table, row in zip(self.tables, joined, strict=True)}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        was, now = self._by_keys(before), self._by_keys(after)
        change = {
            "add": [row for keys, row in now.items() if was.get(keys) != row],
            "remove": [row for keys, row in was.items() if now.get(keys) != row],
        }
        return change if any(change.values()) else None

    def _by_keys(self, result: JsonObject) -> dict[bytes, JsonObject]:
        return {
            encode([row[table.name][name] for table in self.tables for name in table.primary_key]): row
            for row in result["rows"]
        }

    # -- the state at the edge -----------------------------------------------------------------------------------
    def state(self, space: Space, bound: Bound) -> JoinState | None:
        opened = cast("JoinSpace | PartedJoinSpace", space)
        if opened.mode == "join":
            return None
        rows = () if bound.place is None else opened.semijoins(bound.place)
        return JoinState(self.shape, rows, opened.sources)

    def translated(self, messages: Sequence[Message], state: JoinState | None) -> list[Message]:
        """Messages of the joins of two tables that its space consists of, as its own."""
        if state is None or state.sources is None:
            return list(messages)
        return self._translator.translated(messages, state.sources)

    @cached_property
    def _translator(self) -> Translator:
        return Translator(self.shape)

    def change(
        self, messages: Sequence[Message], bound: Bound, state: JoinState | None
    ) -> tuple[bytes | None, JoinState | None]:
        if messages[-1].kind == "change":  # a move of the point: the state came with it
            return messages[-1].payload, state
        if bound.place is None:
            return None, state
        if state is None:
            added, removed = self.fold.joined(messages, bound.place)
        else:
            added, removed = state.apply(self.fold.effects(messages, bound.place, state))
        return self.encoded(added, removed), state

    def opening(self, snapshot: bytes, state: JoinState | None) -> JsonObject:
        return self.raw_messages.opening(snapshot, state)

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        return [] if bound.place is None else self.raw_messages.raw(messages, bound.place, change)

    @cached_property
    def replay(self) -> Replay:
        return JoinReplay(self.shape)

    def place_in_words(self, bound: Bound) -> JsonObject:
        ranged = [
            (table, at, f"{table.name}.{table.names[at]}")
            for table, some in zip(self.tables, self.shape.ranged, strict=True)
            for at in some
        ]
        return {"equal": {}, "point": range_ends(ranged, bound.place or ())}

    @cached_property
    def raw_messages(self) -> RawJoinMessages:
        return RawJoinMessages(self.fold)

    def pack_state(self, state: JoinState) -> bytes:
        rows = [list(some.values()) for some in state.rows]
        return encode(rows if state.sources is None else {"rows": rows, "sources": state.sources})

    def unpack_state(self, packed: bytes) -> JoinState:
        held, sources = decode(packed), None
        if isinstance(held, dict):
            partners, spaces = held["sources"]
            held, sources = held["rows"], Sources(tuple(partners), tuple(spaces))
        pairs = zip(self.tables, held, strict=True)
        return JoinState(self.shape, [map(table.read, rows) for table, rows in pairs], sources)

    def encoded(self, added: Sequence[Joined], removed: Sequence[Joined]) -> bytes | None:
        """The change as JSON; None if there is none."""
        if not added and not removed:
            return None
        return encode({"add": list(map(self._object, added)), "remove": list(map(self._object, removed))})


class JoinType(SubscriptionType):
    name = "select-join"

    def recognise(self, query: Query, tables: Sequence[Table], notify: JsonObject | None) -> JoinForm | None:
        if len(tables) == 1:
            return None
        if isinstance(query.selection, Star) and not all(map(_is_plain, query.sources)):
            raise LanguageError(
                "SELECT * of a join takes JOIN … USING (…) without aliases, a LEFT JOIN, ON or a self-join; "
                "for those name the columns, or select aggregates"
            )
        if not isinstance(query.selection, Star):
            raise LanguageError(
                "a join sends the whole rows of its tables; write SELECT * FROM … JOIN … USING (…), "
                "and take the columns or aggregates you need from the rows"
            )
        if not query.where:
            raise LanguageError("the condition is never true; drop the subscription, or the condition")
        if len(query.where) > 1:
            raise LanguageError(
                "OR is supported in SELECT * | columns FROM one table, not in a join; use ranges joined by AND"
            )
        classes = join_classes(query, tables)
        atoms = _atoms(query, tables)
        ranged = tuple(
            tuple(sorted({table.position[atom.column.name] for atom in some}))
            for table, some in zip(tables, atoms, strict=True)
        )
        routing = tuple(
            next(iter(routing_candidates(table, at, some)), None)
            for table, at, some in zip(tables, ranged, atoms, strict=True)
        )
        return JoinForm(query, JoinShape(tuple(tables), classes, ranged, routing), atoms)

    def dimensions(self, form: JoinForm) -> tuple[Dimension, ...]:
        return compared(form.query, form.tables, is_qualified=True)

    def describe(self) -> JsonObject:
        return {
            "name": self.name,
            "sql": "SELECT * FROM r JOIN s USING (b, …) [JOIN …] "
            "[WHERE r.a BETWEEN :lo AND :hi …] [AND s.e = :c …]",
            "notify": [],
            "messages": [
                {
                    "name": "upsert",
                    "region": "conditions that hold the row, with a partner of it in their range",
                    "payload": "the row; the columns no condition looks at apart, with their digest",
                },
                {
                    "name": "drop",
                    "region": "conditions that held the row, with a partner of it in their range",
                    "payload": "the row's table and key",
                },
                {
                    "name": "lose",
                    "region": "ranges whose last partner under a join key went",
                    "payload": "a table and join values: all its rows with these go",
                },
                {
                    "name": "joined",
                    "region": "conditions that hold a joined row (plans ref-j+, ref-j, enum-j)",
                    "payload": "joined rows that came and that went",
                },
            ],
            "update": "hold the rows of each table: upsert replaces a row, drop and lose take rows away",
            "transform": "the natural join of the rows held; a change is its difference before and after",
            "rules": RULES.document(),
        }


def _is_plain(source: Source) -> bool:
    return source.alias == source.table and source.join != "left" and not source.on


def _atoms(query: Query, tables: Sequence[Table]) -> tuple[tuple[Atom, ...], ...]:
    found: dict[int, list[Atom]] = {table.id: [] for table in tables}
    for atom in query.where[0]:
        table = owner(query, tables, atom.column)
        column(query, table, atom.column)
        if atom.op not in _OPERATORS:
            raise LanguageError(
                f"{atom.op.upper()} is supported in SELECT * | columns FROM one table, not in a join; "
                "a join takes =, <, <=, >, >= and BETWEEN joined by AND"
            )
        found[table.id].append(atom)
    return tuple(tuple(found[table.id]) for table in tables)
