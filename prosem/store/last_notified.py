"""Last notified values of subscriptions of marked types: their last marks, and the outbox since.

Invariant: the last mark of a subscription up to `retained_after` holds its last notified value at `retained_after`; later
notifications are in the outbox. So nothing is written when a million subscriptions are notified, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from cn.model.message import Message
from prosem.store.lookback import Lookback, LookbackPoint
from prosem.values.model import PlaceMark

LAST_PART = 2**62  # in the history: after everything else of its seq
ANYTIME = 2**62
CHUNK = 5000
_MARKS = (
    "SELECT DISTINCT ON (h.sid) g.space, h.sid, h.seq, convert_to(h.mark::text, 'UTF8') FROM prosem.history h"
    " JOIN prosem.subscription s ON s.sid = h.sid JOIN prosem.group_ g ON g.id = s.group_id"
    " WHERE h.mark IS NOT NULL AND h.seq <= {upto} ORDER BY h.sid, h.seq DESC, h.part DESC"
)
_MESSAGES = (
    "SELECT body FROM prosem.outbox WHERE space = {space} AND kind IN ('value', 'decision', 'notified')"
    " AND seq > {after} AND seq <= {upto} ORDER BY seq DESC, part DESC"
)
_read_mark = msgspec.json.Decoder(PlaceMark).decode
_read_message = msgspec.msgpack.Decoder(Message).decode


def marks_as_of(
    connection: psycopg.Connection[Any], retained_after: int, upto: int = ANYTIME
) -> Iterator[tuple[int, int, bool, PlaceMark]]:
    """For each subscription with a mark: its seq, whether it was notified since, and the mark as of `upto`.

    One pass backwards over the messages of each space, which ends when every point was found.
    """
    spaces: dict[int, dict[int, tuple[int, PlaceMark]]] = {}
    with connection.cursor("prosem_marks") as cursor:
        cursor.execute(_filled(_MARKS, upto=upto), binary=True)
        for space, sid, seq, text in cursor:
            spaces.setdefault(space, {})[sid] = seq, _read_mark(text)
    for space, marks in spaces.items():
        look = Lookback(
            LookbackPoint(sid, max(seq, retained_after), upto, mark.topic, mark.place, sid)
            for sid, (seq, mark) in marks.items()
            if mark.place is not None and not mark.is_birth
        )
        with connection.cursor("prosem_notifications") as cursor:
            cursor.execute(_filled(_MESSAGES, space=space, after=look.after, upto=upto), binary=True)
            while not look.is_done and (rows := cursor.fetchmany(CHUNK)):
                for (body,) in rows:
                    look.take(_read_message(body))
        for sid, (seq, mark) in marks.items():
            last = look.payloads.get(sid)
            if last is not None:
                mark = PlaceMark(mark.topic, mark.place, msgspec.Raw(last))
            yield sid, seq, last is not None, mark


def _filled(text: str, **values: int) -> sql.Composed:
    return sql.SQL(text).format(**{name: sql.Literal(value) for name, value in values.items()})
