"""What a node knows about the places beyond its links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cn.model.message import Message
from cn.model.network import Place, Space
from cn.networks.local import LocalNetwork


class PlaceTable:
    """The places of hosted ids with an owner each: the link (or the host) by which they are reached.

    An id may be hosted by several brokers; each (host, id) has a number, and one index holds them all. A message costs
    one search and a few vector operations on what it found, whatever the number of links.
    """

    def __init__(self) -> None:
        self._index = LocalNetwork(self._found_ids, lambda seq: None)
        self._hosts: dict[str, dict[int, int]] = {}  # host → id → number
        self._numbers: dict[int, dict[str, int]] = {}  # id → host → number
        self._spaces: dict[int, int] = {}  # of each number
        self._ids: dict[int, int] = {}  # of each number
        self._owner = np.zeros(16, np.int32)  # of each number
        self._host = np.zeros(16, np.int32)  # of each number
        self._owners: dict[str, int] = {}  # and hosts
        self._names: list[str] = []
        self._free: list[int] = []
        self._found: Sequence[int] | NDArray[np.int64] = ()

    def __len__(self) -> int:
        return len(self._spaces)

    def put(self, owner: str, host: str, space: Space, id: int, topic: bytes, place: Place | None) -> None:
        """An id of a host is placed from now on; O(log N)."""
        number = self._hosts.get(host, {}).get(id)
        if number is None:
            number = self._free.pop() if self._free else len(self._spaces)
            self._hosts.setdefault(host, {})[id] = number
            self._numbers.setdefault(id, {})[host] = number
            if number >= len(self._owner):
                self._owner = np.concatenate([self._owner, np.zeros_like(self._owner)])
                self._host = np.concatenate([self._host, np.zeros_like(self._host)])
        self._spaces[number], self._ids[number] = space.id, id
        self._owner[number], self._host[number] = self._number_of(owner), self._number_of(host)
        self._index.register(space, number, topic, place)

    def _number_of(self, name: str) -> int:
        number = self._owners.setdefault(name, len(self._owners))
        if number == len(self._names):
            self._names.append(name)
        return number

    def take(self, host: str, id: int) -> None:
        """An id of a host is gone; nothing if it is not there."""
        number = self._hosts.get(host, {}).pop(id, None)
        if number is None:
            return
        if not self._hosts[host]:
            del self._hosts[host]
        del self._numbers[id][host]
        if not self._numbers[id]:
            del self._numbers[id]
        del self._spaces[number], self._ids[number]
        self._index.remove(number)
        self._free.append(number)

    def forget(self, hosts: Iterable[str]) -> None:
        """Everything of these hosts is gone."""
        for host in hosts:
            for id in [*self._hosts.get(host, ())]:
                self.take(host, id)

    def owners(self, message: Message) -> list[str]:
        """The owners of the places that a message concerns, each once."""
        numbers = self._concerned(message)
        if not len(numbers):
            return []
        return [self._names[owner] for owner in np.unique(self._owner[np.asarray(numbers)])]

    def owners_and_hosts(self, message: Message) -> tuple[list[str], list[str]]:
        """The owners of the places that a message concerns, and the hosts; each once."""
        numbers = np.asarray(self._concerned(message), np.int64)
        owners, hosts = np.unique(self._owner[numbers]), np.unique(self._host[numbers])
        return [self._names[one] for one in owners], [self._names[one] for one in hosts]

    def ids(self, message: Message) -> set[int]:
        """The ids that a message concerns."""
        return {self._ids[int(number)] for number in self._concerned(message)}

    def _concerned(self, message: Message) -> Sequence[int] | NDArray[np.int64]:
        if message.targets is not None:
            return [
                number
                for id in message.targets
                for number in self._numbers.get(id, {}).values()
                if self._spaces[number] == message.space
            ]
        self._found = ()
        self._index.inject(message)
        return self._found

    def covers(self, message: Message) -> bool:
        """Whether a message concerns any place."""
        return bool(self.owners(message)) if message.targets is not None else self._index.covers(message)

    def _found_ids(self, message: Message, ids: Sequence[int] | NDArray[np.int64]) -> None:
        self._found = ids

    def check(self) -> None:
        """Assert that both directions agree and that the index holds every number."""
        pairs = {(host, id): number for host, ids in self._hosts.items() for id, number in ids.items()}
        assert pairs == {
            (host, id): number for id, hosts in self._numbers.items() for host, number in hosts.items()
        }
        assert sorted(pairs.values()) == sorted(self._spaces)
        assert {number: id for (_, id), number in pairs.items()} == self._ids
        assert len(self._index) == len(pairs)
        assert not set(self._free) & set(pairs.values())
        self._index.check()
