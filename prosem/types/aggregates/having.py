"""HAVING: aggregates compared with constants and parameters.

Numbers compare exactly, also an average with the digits it is answered with; where one side is a double both are. Values of
other types compare by their codes. NULL compares with nothing. The constants of a subscription travel in its edge state.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from prosem.language.evaluate import evaluate
from prosem.language.syntax import Having
from prosem.types.aggregates.columns import Output, Part
from prosem.values.codes import value_of
from prosem.values.columns import ColumnType
from prosem.values.errors import LanguageError

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Constants = tuple[Any, ...]  # of one subscription, as `_comparable` gives them; None is NULL


class Condition(NamedTuple):
    output: Output
    having: Having

    def constant(self, params: Mapping[str, Any]) -> Any:
        """What the aggregate is compared with; errors point at the parameter, or into the text."""
        kind = self.output.type
        try:
            found = evaluate(self.having.term, params, kind)
        except LanguageError as error:
            called = self.output.function
            raise LanguageError(f"{called} in HAVING is of type {kind.name}: {error.detail}") from None
        return None if found is None else _comparable(kind, kind.constant(found))

    def holds(self, part: Part, constant: Any) -> bool:
        value = self.output.value(part)
        if value is None or constant is None:
            return False
        if self.output.function in ("MIN", "MAX"):
            value = value_of(self.output.kind, value)
        return _OPERATORS[self.having.op](_comparable(self.output.type, value), constant)

    def pack(self, constant: Any) -> str | None:
        if constant is None:
            return None
        return constant.hex() if isinstance(constant, float) else str(constant)

    def unpack(self, packed: str | None) -> Any:
        if packed is None:
            return None
        kind = self.output.type
        if kind.name == "double precision":
            return float.fromhex(packed)
        return Fraction(packed) if kind.numeric else int(packed) if kind.int64 else packed


def _comparable(kind: ColumnType, value: Any) -> Any:
    """A number, or the code of another type's value."""
    if kind.name == "double precision":
        return float(value)
    return Fraction(value) if kind.numeric else kind.code(value)


def constants(conditions: Sequence[Condition], params: Mapping[str, Any]) -> Constants:
    return tuple([condition.constant(params) for condition in conditions])


def holds(conditions: Sequence[Condition], given: Constants, part: Part) -> bool:
    """Whether a group is in the answer; `given` are the constants of the subscription."""
    return all(condition.holds(part, constant) for condition, constant in zip(conditions, given, strict=True))
