"""All subscriptions of the server, in columns instead of objects.

A subscription is a small integer inside (`sid`, dense, never used again) and a text outside (`id`). Ids the server gives
are made from the sid and cost nothing; ids that users choose are kept in a dictionary. Parameters are kept as encoded
JSON, since they are only needed when one of them moves. About 60 bytes a subscription without a chosen id; the point itself
is in the index of its space.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

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
        self._named: dict[str, int] = {}
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
    ) -> None:
        self.reserve(sid + 1)
        self._group[sid], self._statement[sid], self._created[sid] = group, statement, created
        self._durable[sid] = durable
        self._params[sid] = params
        if id != self.given_id(sid):
            self._named[id] = sid
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
            del self._named[name]
        self._count -= 1

    # -- names ---------------------------------------------------------------------------------------------------
    @staticmethod
    def given_id(sid: int) -> str:
        return f"sub-{sid}"

    @staticmethod
    def is_reserved(id: str) -> bool:
        """Whether an id has the form of those the server gives."""
        return _GIVEN.fullmatch(id) is not None

    def sid(self, id: str) -> int | None:
        """The subscription of this id, or None."""
        sid = self._named.get(id)
        if sid is not None:
            return sid
        if len(id) < 20 and _GIVEN.fullmatch(id):
            sid = int(id[4:])
            if sid < len(self._group) and self._group[sid] != _ABSENT and self._name[sid] is None:
                return sid
        return None

    def id(self, sid: int) -> str:
        return self._name[sid] or self.given_id(sid)

    # -- columns -------------------------------------------------------------------------------------------------
    def group(self, sid: int) -> int:
        return self._group[sid]

    def statement(self, sid: int) -> int:
        return self._statement[sid]

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
