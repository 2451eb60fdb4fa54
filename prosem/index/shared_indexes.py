"""Row indexes that the spaces of a server share: each is made once, whatever number of spaces uses it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar, cast

Index = TypeVar("Index")


class SharedIndexes:
    """Indexes by what they hold, each with the number of its users. One goes with its last user.

    >>> shared = SharedIndexes()
    >>> first = shared.hold("r by b", list)
    >>> shared.hold("r by b", list) is first, shared.is_shared("r by b")
    (True, True)
    >>> shared.release("r by b"), shared.is_shared("r by b"), len(shared)
    (None, False, 1)
    >>> shared.release("r by b"), len(shared)
    (None, 0)
    """

    __slots__ = ("_held", "_users", "sharing")

    def __init__(self) -> None:
        self._held: dict[Hashable, Any] = {}
        self._users: dict[Hashable, int] = {}
        self.sharing = 0  # indexes with several users

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._held)

    def get(self, name: Hashable) -> Any | None:
        return self._held.get(name)

    def users(self, name: Hashable) -> int:
        return self._users.get(name, 0)

    def is_shared(self, name: Hashable) -> bool:
        """Whether it has another user than the one that asks."""
        return self._users.get(name, 0) > 1

    def hold(self, name: Hashable, make: Callable[[], Index]) -> Index:
        """The index of this name for one more user; made if there is none."""
        if name not in self._held:
            self._held[name] = make()
        self._users[name] = self._users.get(name, 0) + 1
        self.sharing += self._users[name] == 2
        return cast(Index, self._held[name])

    def release(self, name: Hashable) -> None:
        """One user less."""
        self._users[name] -= 1
        self.sharing -= self._users[name] == 1
        if not self._users[name]:
            del self._users[name], self._held[name]
