"""All subscriptions of the server, in columns instead of objects.

A subscription is a small integer inside (`sid`, dense, never used again) and a text outside (`id`). Ids the server gives
are made from the sid and cost nothing; ids that users choose are kept in a dictionary. Parameters are kept as encoded
JSON, since they are only needed when one of them moves. About 65 bytes a subscription without a chosen id; the point itself
is in the index of its space.

Ids are those of a tenant: whoever asks for another tenant's finds nothing.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator

from prosem.access import WHOLE, Scope

_GIVEN = re.compile(r"sub-[1-9][0-9]*")
_ABSENT = -1


class Registry:
    """`sid` → group, statement, parameters, state. A sid whose group is -1 does not exist (any more)."""

    def __init__(self) -> None:
        self._group = array("i", [_ABSENT])
        self._statement = array("i", [_ABSENT])
        self._created = array("q", [0])
        self._durable = bytearray(1)
        self._params: list[bytes | None] = [None]
        self._tenant = array("H", [0])
        self._key = array("i", [0])
        self._tenants: dict[str, int] = {}  # their numbers
        self._named: list[dict[str, int]] = []  # of each tenant
        self._of_key: Counter[int] = Counter()
        self._name: list[str | None] = [None]
        self._frozen: dict[int, bytes] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def next_sid(self) -> int:
        return len(self._group)

    def reserve(self, next_sid: int) -> None:
        """Make sure that no sid below this one is given out."""
        missing = next_sid - len(self._group)
        if missing > 0:
            self._group.extend([_ABSENT] * missing)
            self._statement.extend([_ABSENT] * missing)
            self._created.extend([0] * missing)
            self._durable.extend(bytes(missing))
            self._tenant.extend([0] * missing)
            self._key.extend([0] * missing)
            self._params.extend([None] * missing)
            self._name.extend([None] * missing)

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
        self.reserve(sid + 1)
        tenant = self._tenants.setdefault(scope.tenant, len(self._tenants))
        if tenant == len(self._named):
            self._named.append({})
        self._tenant[sid], self._key[sid] = tenant, scope.key
        self._of_key[scope.key] += 1
        self._group[sid], self._statement[sid], self._created[sid] = group, statement, created
        self._durable[sid] = durable
        self._params[sid] = params
        if id != self.given_id(sid):
            self._named[tenant][id] = sid
            self._name[sid] = id
        if frozen is not None:
            self._frozen[sid] = frozen
        self._count += 1

    def remove(self, sid: int) -> None:
        self._group[sid] = _ABSENT
        self._params[sid] = None
        self._frozen.pop(sid, None)
        name, self._name[sid] = self._name[sid], None
        if name is not None:
            del self._named[self._tenant[sid]][name]
        self._of_key[self._key[sid]] -= 1
        self._count -= 1

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
            if given < len(self._group) and self._group[given] != _ABSENT and self._name[given] is None:
                sid = given if self._tenant[given] == tenant else None
        return sid if sid is not None and (not scope.own or self._key[sid] == scope.key) else None

    def exists(self, sid: int) -> bool:
        return sid < len(self._group) and self._group[sid] != _ABSENT

    def id(self, sid: int) -> str:
        return self._name[sid] or self.given_id(sid)

    # -- columns -------------------------------------------------------------------------------------------------
    def group(self, sid: int) -> int:
        return self._group[sid]

    def statement(self, sid: int) -> int:
        return self._statement[sid]

    def key(self, sid: int) -> int:
        """The number of the key that it was made with; 0: none."""
        return self._key[sid]

    def of_key(self, key: int) -> int:
        """How many subscriptions were made with this key."""
        return self._of_key[key]

    def created(self, sid: int) -> int:
        return self._created[sid]

    def is_durable(self, sid: int) -> bool:
        return bool(self._durable[sid])

    def params(self, sid: int) -> bytes:
        params = self._params[sid]
        assert params is not None
        return params

    def set_params(self, sid: int, params: bytes) -> None:
        self._params[sid] = params

    def frozen(self, sid: int) -> bytes | None:
        """The answer at the moment a subscription was suspended; None while it is active."""
        return self._frozen.get(sid)

    def freeze(self, sid: int, answer: bytes | None) -> None:
        if answer is None:
            self._frozen.pop(sid, None)
        else:
            self._frozen[sid] = answer

    def sids(self) -> Iterator[int]:
        return (sid for sid, group in enumerate(self._group) if group != _ABSENT)
