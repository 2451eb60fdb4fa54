"""What an edge holds of aggregates, and how the messages of one seq change it.

For each group (one without GROUP BY) and each topic a `Part`. Sums of topics add up, extremes compare; so with `IN` every
topic keeps its own. A state belongs to one subscription at one edge, and a fold changes it in place.

| kind of message | payload |
| --- | --- |
| `sums` | group, rows that came, for each sum (values that came, what the total gains) |
| `extreme` | group, number of the extreme, its code from now on (null: none) |

A group is written as the codes of its values. The topic of a message says which part it concerns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from cn.model.message import Message
from prosem.types.aggregates.columns import Kept, Part
from prosem.types.aggregates.having import Constants
from prosem.types.shared.exact import pack_units, unpack_units
from prosem.values.wire import encode, pack

SUMS, EXTREME = "sums", "extreme"
ALONE = b""  # the group of a query without GROUP BY

_Sums = tuple[str, int, tuple[tuple[int, str], ...]]
_Extreme = tuple[str, int, int | str | None]
_read_sums = msgspec.json.Decoder(_Sums).decode
_read_extreme = msgspec.json.Decoder(_Extreme).decode
_PackedPart = tuple[bytes, int, tuple[tuple[int, str], ...], tuple[int | str | None, ...]]
_read_state = msgspec.msgpack.Decoder(tuple[tuple[str | None, ...], dict[bytes, list[_PackedPart]]]).decode

Parts = dict[bytes, Part]  # by topic


class AggregateState(NamedTuple):
    """`constants` are those of HAVING. A group without parts is not there."""

    constants: Constants
    groups: dict[bytes, Parts]


def sums_payload(group: bytes, rows: int, gains: Iterable[tuple[int, int]]) -> bytes:
    return encode((group.decode(), rows, [(number, pack_units(total)) for number, total in gains]))


def extreme_payload(group: bytes, at: int, code: Any) -> bytes:
    return encode((group.decode(), at, code))


class Fold:
    """Of one query. `is_grouped`: a part without rows is dropped, and so is a group without parts."""

    def __init__(self, kept: Kept, is_grouped: bool) -> None:
        self._kept, self._is_grouped = kept, is_grouped

    def apply(
        self, messages: Sequence[Message], state: AggregateState
    ) -> dict[bytes, tuple[Part | None, Part | None]]:
        """Change the state; of each group that the messages concern what was kept before and after (None: no group)."""
        before: dict[bytes, Part | None] = {}
        for message in messages:
            if message.kind == SUMS:
                name, rows, gains = _read_sums(message.payload)
                group = name.encode()
                parts = self._parts(state, group, before)
                part = parts.get(message.topic, self._kept.empty)
                sums = tuple(
                    [
                        (number + more, total + unpack_units(units))
                        for (number, total), (more, units) in zip(part.sums, gains, strict=True)
                    ]
                )
                parts[message.topic] = Part(part.rows + rows, sums, part.extremes)
            else:
                name, at, code = _read_extreme(message.payload)
                group = name.encode()
                parts = self._parts(state, group, before)
                part = parts.get(message.topic, self._kept.empty)
                extremes = (*part.extremes[:at], code, *part.extremes[at + 1 :])
                parts[message.topic] = Part(part.rows, part.sums, extremes)
        return {group: (was, self._after(state, group)) for group, was in before.items()}

    def _parts(self, state: AggregateState, group: bytes, before: dict[bytes, Part | None]) -> Parts:
        parts = state.groups.setdefault(group, {})
        if group not in before:
            before[group] = self.part(parts)
        return parts

    def _after(self, state: AggregateState, group: bytes) -> Part | None:
        parts = state.groups[group]
        if self._is_grouped:
            for topic in [topic for topic, part in parts.items() if not part.rows]:
                del parts[topic]
        if not parts:
            del state.groups[group]
        return self.part(parts)

    def part(self, parts: Parts) -> Part | None:
        """What is kept of a group in all topics; None of a group that is not there."""
        return None if self._is_grouped and not parts else self._kept.merged(list(parts.values()))


def pack_groups(constants: Sequence[str | None], state: AggregateState) -> bytes:
    """A state for another process; `constants` are packed already."""
    groups = {
        group: [
            (topic, part.rows, [(number, pack_units(total)) for number, total in part.sums], part.extremes)
            for topic, part in parts.items()
        ]
        for group, parts in state.groups.items()
    }
    return pack((tuple(constants), groups))


def unpack_groups(packed: bytes) -> tuple[tuple[str | None, ...], dict[bytes, Parts]]:
    constants, groups = _read_state(packed)
    return constants, {
        group: {
            topic: Part(rows, tuple([(number, unpack_units(total)) for number, total in sums]), extremes)
            for topic, rows, sums, extremes in parts
        }
        for group, parts in groups.items()
    }
