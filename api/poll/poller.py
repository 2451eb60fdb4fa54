"""One look at a feed: what is new in it is published.

The rows of the feed are compared with the digests of those published before; only what differs is sent, as upserts, and
with `complete` also deletions of rows that have vanished. Cost: O(feed), and requests of O(what differs). Upserts of the
same row do no harm, and a deletion of a row that is gone already is left out, so a look can always be repeated.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from prosem_client import Client, ProsemError

from api.poll.formats import FeedError, Item
from api.poll.rows import Fields
from api.poll.source import Source
from api.poll.state import StateFile, Stored
from prosem.values.errors import SetupError

CHUNK = 5_000  # events of one request: a look that has no more is one transaction
MOST_REFUSED = 20  # events of one request that the server may refuse before the look is given up
_AT = re.compile(r"/events/(\d+)(/|$)")
_encode = msgspec.json.Encoder(order="sorted").encode
Change = tuple[str, str | None, dict[str, Any]]  # key, digest of the row (None: it vanished), event


@dataclass(slots=True)
class Seen:
    """What a look has led to; `reason` is why the first of those left out was."""

    items: int = 0
    upserts: int = 0
    deletes: int = 0
    left_out: int = 0
    reason: str = ""
    seq: int | None = None


class Poller:
    def __init__(
        self,
        source: Source,
        read: Callable[[bytes], list[Item]],
        fields: Fields,
        client: Client,
        state: StateFile,
        complete: bool,
    ) -> None:
        self._source, self._read, self._fields = source, read, fields
        self._client, self._state, self._complete = client, state, complete

    def look(self) -> Seen | None:
        """None if the feed is as it was. FeedError: another time; SetupError: never, as it is."""
        fetched = self._source.fetch(self._state.stored.mark)
        if fetched is None:
            return None
        content, mark = fetched
        digest = hashlib.sha256(content).hexdigest()
        seen: Seen | None = None
        if digest != self._state.stored.digest:
            seen = self._publish(self._read(content))
        if (mark, digest) != (self._state.stored.mark, self._state.stored.digest):
            self._state.save(msgspec.structs.replace(self._state.stored, mark=mark, digest=digest))
        return seen

    def _publish(self, items: Sequence[Item]) -> Seen:
        seen = Seen(len(items))
        changes = self._changes(items, seen)
        for start in range(0, len(changes), CHUNK):
            self._send(changes[start : start + CHUNK], seen)
        return seen

    def _changes(self, items: Sequence[Item], seen: Seen) -> list[Change]:
        """What differs from what was published; of several items with one key the last counts."""
        self._fields.check(items)
        found: dict[str, Change] = {}
        for item in items:
            try:
                row = self._fields.row(item)
            except ValueError as error:
                _leave_out(seen, str(error))
                continue
            key = _encode(self._fields.key_of(row)).decode()
            digest = hashlib.sha256(_encode(row)).hexdigest()[:32]
            found[key] = (key, digest, {"op": "upsert", "row": row})
        known = self._state.stored.rows
        changes = [change for change in found.values() if known.get(change[0]) != change[1]]
        if self._complete and not seen.left_out:  # one that cannot be read has not vanished
            gone = [key for key in known if key not in found]
            changes += [(key, None, {"op": "delete", "key": msgspec.json.decode(key)}) for key in gone]
        return changes

    # -- requests ------------------------------------------------------------------------------------------------
    def _send(self, changes: list[Change], seen: Seen) -> None:
        """One transaction, without the events that the server refuses one by one."""
        refused: list[Change] = []
        while changes:
            try:
                published = self._client.publish(
                    self._fields.table, [event for _, _, event in changes], self._name(changes)
                )
            except ProsemError as error:
                if error.status == 413 and len(changes) > 1:
                    half = len(changes) // 2
                    self._send(changes[:half], seen)
                    changes = changes[half:]
                    continue
                at = _refused_event(error)
                if at is None or at >= len(changes) or len(refused) == MOST_REFUSED:
                    raise _explained(error, self._fields.table) from None
                refused.append(changes.pop(at))
                if refused[-1][1] is not None:
                    _leave_out(seen, error.detail)
                continue
            seen.seq = published.last_seq
            break
        seen.upserts += sum(digest is not None for _, digest, _ in changes)
        seen.deletes += sum(digest is None for _, digest, _ in changes)
        gone = [change for change in refused if change[1] is None]
        self._keep([*changes, *gone])

    def _name(self, changes: Sequence[Change]) -> str:
        """The idempotency key: another one for each request, the same one if this request is repeated."""
        stored = self._state.stored
        content = _encode([stored.id, stored.count, self._fields.table, [event for _, _, event in changes]])
        return hashlib.sha256(content).hexdigest()

    def _keep(self, changes: Sequence[Change]) -> None:
        stored: Stored = self._state.stored
        rows = dict(stored.rows)
        for key, digest, _ in changes:
            if digest is None:
                rows.pop(key, None)
            else:
                rows[key] = digest
        self._state.save(msgspec.structs.replace(stored, rows=rows, count=stored.count + 1))


def _leave_out(seen: Seen, reason: str) -> None:
    seen.left_out += 1
    seen.reason = seen.reason or reason


def _refused_event(error: ProsemError) -> int | None:
    """The number of the event that the server refuses, if it is an event's fault."""
    found = _AT.match(str(error.errors[0].get("at"))) if error.errors and error.status in (409, 422) else None
    return None if found is None else int(found[1])


def _explained(error: ProsemError, table: str) -> Exception:
    if error.status in (0, 429, 502, 503):
        return FeedError(f"the server does not take events of {table}: {error.detail}")
    return SetupError(f"the server refuses events of {table}: {error.detail}")
