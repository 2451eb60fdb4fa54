"""Answers that are made when they are asked for: a change costs its own size, whatever the size of the answer.

Every change leaves a version behind, which knows the change and the version before it. Asked for its answer, the newest one
copies the rows at hand; an older one folds the changes since the last answer that was made. Such an answer is made at the
latest after as many changes as it has entries, so that a version that is kept holds no more than twice its answer.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from prosem_client.folding import answer_of
from prosem_client.query import Shape
from prosem_client.values import JsonObject

LEAST = 100  # changes between two answers that are made unasked


class Version:
    """The answer after a change; may be asked for it on any thread, and gives the same one each time.

    Compared, copied and pickled as that answer.
    """

    __slots__ = ("_change", "_previous", "_result", "_versions")

    def __init__(
        self,
        versions: Versions,
        previous: Version | None,
        change: Mapping[str, Any],
        result: JsonObject | None = None,
    ) -> None:
        self._versions, self._previous, self._change, self._result = versions, previous, change, result

    def result(self) -> JsonObject:
        with self._versions.lock:
            return self._made()

    def __eq__(self, other: object) -> bool:
        return self is other or self.result() == (other.result() if isinstance(other, Version) else other)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.result(),)

    def _made(self) -> JsonObject:
        if self._result is None:
            self._result = self._versions.newest(self) or self._folded()
            self._previous, self._change = None, {}  # what came before is let go
        return self._result

    def _folded(self) -> JsonObject:
        changes, version = list[Mapping[str, Any]](), self
        while version._result is None:
            assert version._previous is not None
            changes.append(version._change)
            version = version._previous
        answer = answer_of(version._result, self._versions.shape)
        for change in reversed(changes):
            answer.apply(change)
        return answer.result()


class Versions:
    """An answer that changes are folded into. Invariant: a version without an answer comes after one that has its own."""

    def __init__(self, result: JsonObject, shape: Shape) -> None:
        self.lock = threading.Lock()
        self.shape = shape
        self._answer = answer_of(result, shape)
        self._latest = Version(self, None, {}, result)
        self._left = _size(result)

    def fold(self, change: Mapping[str, Any]) -> Version:
        """The version that comes of a change."""
        with self.lock:
            self._answer.apply(change)
            self._latest = Version(self, self._latest, change)
            self._left -= 1
            if self._left < 0:
                self._left = _size(self._latest._made())
            return self._latest

    def newest(self, version: Version) -> JsonObject | None:
        """Its answer, if this is the latest version."""
        return self._answer.result() if version is self._latest else None


def _size(result: JsonObject) -> int:
    entries = next(iter(result.values()), None)
    return max(LEAST, len(entries) if isinstance(entries, list) else 0)


def resolved(result: Version | JsonObject | None) -> JsonObject | None:
    return result.result() if isinstance(result, Version) else result
