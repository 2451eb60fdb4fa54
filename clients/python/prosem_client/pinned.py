"""Pinned variables ([Parametric] 9.2): set locally, sent when released.

near = "SELECT * FROM cars WHERE x BETWEEN :pos - :reach AND :pos + :reach"
position = client.pin(5.0)
close_by = client.subscribe(near, {"pos": position, "reach": 2})
around = client.subscribe(near, {"pos": position, "reach": 50})
position.value = 5.5  # nothing is sent
if abs(position.value - position.last) > 0.2:
    position.release()  # both subscriptions move
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakSet


class Holder(Protocol):
    """A holder of parameters that follow variables: `follow` is called with each one that was released."""

    def follow(self, variable: PinnedVariable) -> None: ...


class PinnedVariable:
    """A value that parameters of several subscriptions share.

    Invariant: after `release()` every parameter it was given to has the value `last`; nothing else moves
    them. A parameter stops following when something else is assigned to it, or its subscription is closed.
    """

    def __init__(self, value: Any, run: Callable[[Callable[[], None]], None]) -> None:
        self.value = value
        self._last = value
        self._run = run
        self._holders: WeakSet[Holder] = WeakSet()

    @property
    def last(self) -> Any:
        """The value that was released last: what the subscriptions have."""
        return self._last

    def release(self) -> None:
        """Give the value to every subscription that uses it."""
        release(self)

    def _tell(self) -> None:
        self._last = self.value
        for holder in list(self._holders):
            holder.follow(self)

    def __repr__(self) -> str:
        return f"PinnedVariable({self.value!r}, last={self._last!r})"


def release(*variables: PinnedVariable) -> None:
    """Release several variables at once: a subscription that uses them moves in one step."""

    def tell() -> None:
        for variable in variables:
            variable._tell()

    if variables:
        variables[0]._run(tell)


class Pins:
    """The parameters of one subscription that follow variables."""

    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        self._variables: dict[str, PinnedVariable] = {}

    def bind(self, name: str, value: Any) -> Any:
        """The value of a parameter that is given a value, or a variable that it follows from now on."""
        self._unbind(name)
        if not isinstance(value, PinnedVariable):
            return value
        self._variables[name] = value
        value._holders.add(self._holder)
        return value.last

    def names(self, variable: PinnedVariable) -> list[str]:
        """The parameters that follow a variable."""
        return [name for name, followed in self._variables.items() if followed is variable]

    def clear(self) -> None:
        """Nothing is followed any more."""
        for name in list(self._variables):
            self._unbind(name)

    def _unbind(self, name: str) -> None:
        variable = self._variables.pop(name, None)
        if variable is not None and variable not in self._variables.values():
            variable._holders.discard(self._holder)
