"""Messages of a join of two tables as those of a join that has both: what a subscription gets from the parts of its space.

A semijoin of two tables is the same in every join that has them ([ProSem thesis] 5.4), so its messages are made and sent
once, and each join reads them in its own words: numbers of tables and of classes are those of the whole. A subscription
stands in all parts of its space but holds one semijoin of each table; messages of others are left out here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cn.model.message import Message
from prosem.types.base import MOVED, Draft
from prosem.types.join.message import Content, JoinCodec, Lose, Remove, Upsert
from prosem.types.join.shape import JoinShape

REMEMBERED = 256  # messages: all subscriptions of a form at an edge receive the same


class Sources(NamedTuple):
    """`partners`: the neighbour that each table is reduced by; `spaces`: the number of each part's space."""

    partners: tuple[int, ...]
    spaces: tuple[int, ...]


class Translator:
    """Of one shape; parts are those of the shape, in their order."""

    def __init__(self, shape: JoinShape) -> None:
        self._shape, self._codec = shape, JoinCodec(shape)
        self._codecs = [JoinCodec(part.shape) for part in shape.parts]
        self._draft = lru_cache(maxsize=REMEMBERED)(self._translate)

    def translated(self, messages: Sequence[Message], sources: Sources) -> list[Message]:
        """The messages of parts as those of the whole, in their order; others as they are."""
        found = []
        for message in messages:
            if message.kind == MOVED or message.space not in sources.spaces:
                found.append(message)
                continue
            number = sources.spaces.index(message.space)
            table, draft = self._draft(number, message.kind, message.payload, message.contents)
            if sources.partners[table] in self._shape.parts[number].tables:
                found.append(Message(message.seq, message.part, message.space, *draft))
        return found

    def _translate(
        self, number: int, kind: str, payload: bytes, contents: tuple[bytes, ...]
    ) -> tuple[int, Draft]:
        """A message of a part: the table in the whole whose rows it is about, and what it says there."""
        content: Content = self._codecs[number].read(kind, payload, contents)
        part = self._shape.parts[number]
        assert isinstance(content, Upsert | Remove | Lose), "joined rows come from the whole space"
        table = part.tables[content.table]
        if isinstance(content, Upsert):
            return table, self._codec.upsert(table, content.row)
        if isinstance(content, Remove):
            return table, self._codec.remove_key(table, content.key)
        lost = sorted(
            zip([part.classes[one] for one in content.classes], content.values, strict=True), key=_first
        )
        return table, self._codec.lose(table, [one for one, _ in lost], tuple([value for _, value in lost]))


def _first(pair: tuple[int, object]) -> int:
    return pair[0]
