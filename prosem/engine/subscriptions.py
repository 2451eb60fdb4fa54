"""All subscriptions of the server, in columns instead of objects.

A subscription is a small integer inside (`sid`, never used again) and a text outside (`id`). Ids the server gives
are made from the sid and cost nothing; ids that users choose are kept in a dictionary. Parameters are kept as encoded
JSON, since they are only needed when one of them moves. About 75 bytes per subscription without a chosen id; the point is
in the index of its space.

Slots of the columns are in the order of sids, which only grow. A slot that was given up is taken out when half of them were:
deleted subscriptions cost nothing for long, and nothing after a restart.

Ids are those of a tenant: requests for another tenant's find nothing.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import compress
from typing import NamedTuple

import numpy as np

from prosem.values.access import WHOLE, Scope

_GIVEN = re.compile(r"sub-[1-9][0-9]*")
_ABSENT = -1
_FEW = 1_024  # slots that are not worth taking out


class Removed(NamedTuple):
    """All that the registry knew of a subscription."""

    sid: int
    group: int
    statement: int
    created: int
    durable: bool
    params: bytes | None
    tenant: int
    key: int
    name: str | None
    frozen: bytes | None


class SubscriptionRegistry:
    """`sid` → group, statement, parameters, state. A slot whose group is -1 was given up."""

    def __init__(self) -> None:
        self._sids = array("q")  # of each slot, ascending
        self._group = array("i")
        self._statement = array("i")
        self._created = array("q")
        self._durable = bytearray()
        self._params: list[bytes | None] = []
        self._tenant = array("H")
        self._key = array("i")
        self._name: list[str | None] = []
        self._tenants: dict[str, int] = {}  # their numbers
        self._named: list[dict[str, int]] = []  # of each tenant
        self._of_key: Counter[int] = Counter()
        self._frozen: dict[int, bytes] = {}
        self._count = 0
        self._next = 1

    def __len__(self) -> int:
        return self._count

    @property
    def next_sid(self) -> int:
        return self._next

    @property
    def slots(self) -> int:
        """The length of the columns."""
        return len(self._sids)

    def reserve(self, next_sid: int) -> None:
        """Make sure that no sid below this one is given out."""
        self._next = max(self._next, next_sid)

    def put(
        self,
        sid: int,
        id: str,
        group: int,
        statement: int,
        params: bytes,
        created: int,
        durable: bool,
        frozen: bytes | None,
        scope: Scope = WHOLE,
    ) -> None:
        """A new subscription; sids come in ascending order."""
        assert not self._sids or sid > self._sids[-1]
        self.reserve(sid + 1)
        tenant = self._tenants.setdefault(scope.tenant, len(self._tenants))
        if tenant == len(self._named):
            self._named.append({})
        self._sids.append(sid)
        self._tenant.append(tenant)
        self._key.append(scope.key)
        self._of_key[scope.key] += 1
        self._group.append(group)
        self._statement.append(statement)
        self._created.append(created)
        self._durable.append(durable)
        self._params.append(params)
        is_chosen = id != self.given_id(sid)
        self._name.append(id if is_chosen else None)
        if is_chosen:
            self._named[tenant][id] = sid
        if frozen is not None:
            self._frozen[sid] = frozen
        self._count += 1

    def remove(self, sid: int) -> Removed:
        """A subscription goes; what `put_back` needs."""
        slot = self._slot(sid)
        removed = Removed(
            sid, self._group[slot], self._statement[slot], self._created[slot], bool(self._durable[slot]),
            self._params[slot], self._tenant[slot], self._key[slot], self._name[slot], self._frozen.get(sid),
        )  # fmt: skip
        self._give_up(slot)
        if len(self._sids) > max(_FEW, 2 * self._count):
            self._compact()
        return removed

    def _give_up(self, slot: int) -> None:
        self._group[slot] = _ABSENT
        self._params[slot] = None
        self._frozen.pop(self._sids[slot], None)
        name, self._name[slot] = self._name[slot], None
        if name is not None:
            del self._named[self._tenant[slot]][name]
        key = self._key[slot]
        self._of_key[key] -= 1
        if not self._of_key[key]:
            del self._of_key[key]
        self._count -= 1

    def put_back(self, removed: Removed) -> None:
        """Take back that a subscription was removed. O(slots) if its slot was taken out."""
        sid, group, statement, created, durable, params, tenant, key, name, frozen = removed
        slot = bisect_left(self._sids, sid)
        if slot == len(self._sids) or self._sids[slot] != sid:
            self._sids.insert(slot, sid)
            self._group.insert(slot, _ABSENT)
            self._statement.insert(slot, statement)
            self._created.insert(slot, created)
            self._durable.insert(slot, durable)
            self._tenant.insert(slot, tenant)
            self._key.insert(slot, key)
            self._params.insert(slot, None)
            self._name.insert(slot, None)
        self._group[slot], self._params[slot], self._name[slot] = group, params, name
        if name is not None:
            self._named[tenant][name] = sid
        if frozen is not None:
            self._frozen[sid] = frozen
        self._of_key[key] += 1
        self._count += 1

    def withdraw(self, first: int) -> None:
        """Take back that subscriptions were put, from a sid on: these sids are free again."""
        start = bisect_left(self._sids, first)
        for slot in range(start, len(self._sids)):
            self._give_up(slot)
        for column in (self._sids, self._group, self._statement, self._created, self._durable):
            del column[start:]
        for other in (self._tenant, self._key, self._params, self._name):
            del other[start:]
        self._next = first

    def _compact(self) -> None:
        """Take out the slots that were given up: O(slots), once for as many deletions."""
        kept = [group != _ABSENT for group in self._group]
        self._sids = array("q", compress(self._sids, kept))
        self._statement = array("i", compress(self._statement, kept))
        self._created = array("q", compress(self._created, kept))
        self._durable = bytearray(compress(self._durable, kept))
        self._tenant = array("H", compress(self._tenant, kept))
        self._key = array("i", compress(self._key, kept))
        self._params = list(compress(self._params, kept))
        self._name = list(compress(self._name, kept))
        self._group = array("i", compress(self._group, kept))

    def _slot(self, sid: int) -> int:
        """Where a subscription is in the columns; O(1) while nothing before it was taken out, else O(log slots)."""
        sids = self._sids
        guess = sid - 1
        if guess < len(sids) and sids[guess] == sid:
            return guess
        slot = bisect_left(sids, sid)
        if slot == len(sids) or sids[slot] != sid:
            raise KeyError(sid)
        return slot

    # -- names ---------------------------------------------------------------------------------------------------
    @staticmethod
    def given_id(sid: int) -> str:
        return f"sub-{sid}"

    @staticmethod
    def is_reserved(id: str) -> bool:
        """Whether an id has the form of those the server gives."""
        return _GIVEN.fullmatch(id) is not None

    def sid(self, id: str, scope: Scope = WHOLE) -> int | None:
        """The subscription of this id that the scope holds, or None."""
        tenant = self._tenants.get(scope.tenant)
        if tenant is None:
            return None
        sid = self._named[tenant].get(id)
        if sid is None and len(id) < 20 and _GIVEN.fullmatch(id):
            given = int(id[4:])
            if self.exists(given):
                slot = self._slot(given)
                sid = given if self._tenant[slot] == tenant and self._name[slot] is None else None
        return sid if sid is not None and (not scope.own or self.key(sid) == scope.key) else None

    def exists(self, sid: int) -> bool:
        if sid >= self._next:  # also one that no column could hold
            return False
        slot = bisect_left(self._sids, sid)
        return slot < len(self._sids) and self._sids[slot] == sid and self._group[slot] != _ABSENT

    def id(self, sid: int) -> str:
        return self._name[self._slot(sid)] or self.given_id(sid)

    # -- columns -------------------------------------------------------------------------------------------------
    def group(self, sid: int) -> int:
        return self._group[self._slot(sid)]

    def statement(self, sid: int) -> int:
        return self._statement[self._slot(sid)]

    def key(self, sid: int) -> int:
        """The number of the key that it was made with; 0: none."""
        return self._key[self._slot(sid)]

    def of_key(self, key: int) -> int:
        """How many subscriptions were made with this key."""
        return self._of_key[key]

    def created(self, sid: int) -> int:
        return self._created[self._slot(sid)]

    def is_durable(self, sid: int) -> bool:
        return bool(self._durable[self._slot(sid)])

    def params(self, sid: int) -> bytes:
        params = self._params[self._slot(sid)]
        assert params is not None
        return params

    def set_params(self, sid: int, params: bytes) -> None:
        self._params[self._slot(sid)] = params

    def frozen(self, sid: int) -> bytes | None:
        """The answer at the moment a subscription was suspended; None while it is active."""
        return self._frozen.get(sid)

    def freeze(self, sid: int, answer: bytes | None) -> None:
        if answer is None:
            self._frozen.pop(sid, None)
        else:
            self._frozen[sid] = answer

    def some(self, group: int, count: int) -> list[int]:
        """At most so many active subscriptions of a group, at even distances. O(slots), 3 ns each."""
        slots = np.flatnonzero(np.array(self._group, np.int32) == group)
        if len(slots) > count:
            slots = slots[np.arange(count) * len(slots) // count]
        return [sid for at in slots.tolist() if (sid := self._sids[at]) not in self._frozen]

    def sids(self) -> Iterator[int]:
        return (sid for sid, group in zip(self._sids, self._group, strict=True) if group != _ABSENT)
