"""Expressions after type checking: every node knows its type and whether it may be NULL, every cast is explicit.

Nodes are values: equal ones compute the same, so generated code computes each once where it can.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from prosem.values.columns import ColumnType, Value


class Field(NamedTuple):
    """Where the value of a column is: a position in the row of a source."""

    source: int
    position: int
    type: ColumnType
    nullable: bool


@dataclass(frozen=True, slots=True)
class Load:
    """The value of a column."""

    field: Field

    @property
    def type(self) -> ColumnType:
        return self.field.type

    @property
    def nullable(self) -> bool:
        return self.field.nullable


@dataclass(frozen=True, slots=True)
class Fixed:
    """A constant. 1.5 and 1.50 differ, as 1 and TRUE do."""

    type: ColumnType
    value: Value = field(compare=False)
    written: str = ""  # distinguishes constants

    @property
    def nullable(self) -> bool:
        return self.value is None


@dataclass(frozen=True, slots=True)
class Apply:
    """A strict function: NULL if an argument is, without computing anything.

    `code` is a Python expression over the arguments {0}, {1} and names of `runtime.NAMES`. `before` and `after` are
    statements around it, which raise errors; in `after`, {result} is the value.
    """

    type: ColumnType
    code: str
    args: tuple[Node, ...]
    before: str = ""
    after: str = ""
    is_total: bool = True  # False: it may give NULL for arguments that are not

    @property
    def nullable(self) -> bool:
        return not self.is_total or any(argument.nullable for argument in self.args)


@dataclass(frozen=True, slots=True)
class Junction:
    """AND or OR of two or more, from left to right until one decides."""

    type: ColumnType
    is_and: bool
    args: tuple[Node, ...]

    @property
    def nullable(self) -> bool:
        return any(argument.nullable for argument in self.args)


@dataclass(frozen=True, slots=True)
class Choice:
    """CASE: the result of the first condition that is true; NULL without any and without a default."""

    type: ColumnType
    whens: tuple[tuple[Node, Node], ...]
    default: Node | None

    @property
    def nullable(self) -> bool:
        results = [result for _, result in self.whens]
        return self.default is None or any(result.nullable for result in (*results, self.default))


@dataclass(frozen=True, slots=True)
class FirstValue:
    """COALESCE: the first argument that is not NULL."""

    type: ColumnType
    args: tuple[Node, ...]

    @property
    def nullable(self) -> bool:
        return all(argument.nullable for argument in self.args)


@dataclass(frozen=True, slots=True)
class Test:
    """`argument is …`: a Python expression over {0} that is never NULL (IS NULL, IS TRUE)."""

    type: ColumnType
    code: str
    argument: Node

    @property
    def nullable(self) -> bool:
        return False


Node = Load | Fixed | Apply | Junction | Choice | FirstValue | Test


@dataclass(frozen=True, slots=True)
class Unknown:
    """A quoted constant or NULL before its context gives it a type."""

    value: str | None
