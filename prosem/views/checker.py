"""The type checker: from an expression over names to typed nodes, as PostgreSQL resolves operators and casts.

A quoted constant has no type of its own and takes that of the other operand; NULL likewise. What PostgreSQL would refuse
(`name + 1`, a comparison of text with a number) is a LanguageError at its place in the text, and so is what the contract
leaves out: jsonb in comparisons, `/` without a double, casts between other types than numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from prosem.language.positions import located
from prosem.language.syntax import ColumnName
from prosem.language.view_syntax import Call, Case, Cast, ColumnRef, Expression, Literal, Operation
from prosem.values.columns import ColumnType, column_type
from prosem.values.numerics import is_unconstrained, unconstrained_numeric
from prosem.views.arithmetic import like
from prosem.views.literals import exact_type, number, numeric_type, read_quoted
from prosem.views.number_rules import (
    DOUBLE,
    absolute,
    arithmetic,
    base,
    cast,
    common_number,
    fixed,
    folded,
    negative,
    numeric_of_type,
)
from prosem.views.typed import Apply, Choice, Field, FirstValue, Fixed, Junction, Load, Node, Test, Unknown

Resolve = Callable[[ColumnName], Field]
T = TypeVar("T")
BOOLEAN, TEXT = column_type("boolean"), column_type("text")
NUMERIC = unconstrained_numeric(1, 0)  # for any; a constant or a cast has bounds of its own
_SIGNS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TESTS = {
    "is null": "({0} is None)",
    "is not null": "({0} is not None)",
    "is true": "({0} is True)",
    "is not true": "({0} is not True)",
    "is false": "({0} is False)",
    "is not false": "({0} is not False)",
}


class Checker:
    """Checks the expressions of one statement."""

    def __init__(self, resolve: Resolve, sql: str) -> None:
        self._resolve, self._sql = resolve, sql

    def typed(self, expression: Expression) -> Node:
        """The expression with its types; a quoted constant alone is a text."""
        return self._as(self._node(expression), TEXT, expression)

    def condition(self, expression: Expression, what: str = "WHERE") -> Node:
        """The expression, which must be boolean."""
        found = self._node(expression)
        if not isinstance(found, Unknown) and found.type is not BOOLEAN:
            self._refuse(
                f"{what} takes a condition, and this is a value of type {found.type.name}", expression
            )
        return self._as(found, BOOLEAN, expression)

    def _node(self, expression: Expression) -> Node | Unknown:
        match expression:
            case ColumnRef(name):
                return Load(self._resolve(name))
            case Literal():
                return self._literal(expression)
            case Operation(op):
                return self._operation(op, expression)
            case Call():
                return self._call(expression)
            case Case():
                return self._case(expression)
            case Cast():
                return self._cast(expression)

    def _literal(self, literal: Literal) -> Node | Unknown:
        value = literal.value
        if isinstance(value, bool):
            return fixed(BOOLEAN, value)
        if value is None or isinstance(value, str):
            return Unknown(value)
        kind = self._tried(literal, exact_type, value)
        return fixed(kind, number(str(value)) if is_unconstrained(kind) else value)

    # -- operators ---------------------------------------------------------------------------------------------------
    def _operation(self, op: str, node: Operation) -> Node:
        if op in ("and", "or"):
            operands = tuple(self.condition(part, op.upper()) for part in node.args)
            return Junction(BOOLEAN, op == "and", operands)
        if op == "not":
            return folded(Apply(BOOLEAN, "(not {0})", (self.condition(node.args[0], "NOT"),)))
        if op in _TESTS:
            return self._test(op, node)
        if op in _SIGNS:
            return self._compared(op, node.args[0], node.args[1], node)
        if op in ("between", "not between"):
            value, low, high = node.args
            signs = ("<", ">") if op.startswith("not") else (">=", "<=")
            ends = zip(signs, (low, high), strict=True)
            sides = tuple(self._compared(sign, value, end, node) for sign, end in ends)
            return Junction(BOOLEAN, op == "between", sides)
        if op in ("in", "not in"):
            found = self._member(node)
            return found if op == "in" else folded(Apply(BOOLEAN, "(not {0})", (found,)))
        if op in ("like", "not like"):
            return self._like(node)
        if op == "||":
            return folded(Apply(TEXT, "({0} + {1})", tuple(self._text(part, "||") for part in node.args)))
        if op == "neg":
            return self._tried(node, negative, self._number(node.args[0], "-"))
        return self._arithmetic(op, node)

    def _test(self, op: str, node: Operation) -> Node:
        argument = node.args[0]
        found = self.typed(argument) if op.endswith("null") else self.condition(argument, op.upper())
        return Test(BOOLEAN, _TESTS[op], found)

    def _arithmetic(self, op: str, node: Operation) -> Node:
        left, right = (self._node(part) for part in node.args)
        if isinstance(left, Unknown) and isinstance(right, Unknown):
            self._refuse(f"the type of {op} is not known; write one operand as CAST(… AS type)", node)
        sides = (self._like_other(left, right, node.args[0]), self._like_other(right, left, node.args[1]))
        for side, part in zip(sides, node.args, strict=True):
            self._check_number(side, op, part)
        return folded_null(self._tried(node, arithmetic, op, *sides))

    def _compared(self, op: str, one: Expression, other: Expression, node: Expression) -> Node:
        return self._comparison(op, self._node(one), self._node(other), (one, other), node)

    def _comparison(
        self,
        op: str,
        one: Node | Unknown,
        other: Node | Unknown,
        parts: tuple[Expression, Expression],
        node: Expression,
    ) -> Node:
        left = self._like_other(one, other, parts[0])
        right = self._like_other(other, one, parts[1])
        for side, part in zip((left, right), parts, strict=True):
            if not side.type.ordered:
                self._refuse(f"a {side.type.name} cannot be compared; only IS [NOT] NULL applies to it", part)
        if left.type.numeric and right.type.numeric:
            kinds = {base(left.type), base(right.type)}
            if DOUBLE.name in kinds and kinds & {"numeric", "bigint"}:  # compared as doubles, not exactly
                left, right = self._tried(node, cast, left, DOUBLE), self._tried(node, cast, right, DOUBLE)
        elif left.type is not right.type:
            self._refuse(
                f"{left.type.name} and {right.type.name} cannot be compared; both sides must be of one type",
                node,
            )
        return folded_null(Apply(BOOLEAN, f"({{0}} {_SIGNS[op]} {{1}})", (left, right)))

    def _member(self, node: Operation) -> Node:
        """IN: one test of a set where the list is constant, else an OR of equalities."""
        value, *others = node.args
        tests = [self._compared("=", value, other, node) for other in others]
        pairs = [test.args for test in tests if isinstance(test, Apply)]
        constants = [constant.value for _, constant in pairs if isinstance(constant, Fixed)]
        nulls = [test for test in tests if isinstance(test, Fixed)]
        heads = {head for head, _ in pairs}
        if len(constants) + len(nulls) < len(tests) or len(heads) != 1:
            return Junction(BOOLEAN, False, tuple(tests)) if len(tests) > 1 else tests[0]
        members = Fixed(BOOLEAN, frozenset(constants), f"in {sorted(map(repr, constants))}")
        code = "({0} in {1} or None)" if nulls else "({0} in {1})"
        return Apply(BOOLEAN, code, (heads.pop(), members), is_total=not nulls)

    def _like(self, node: Operation) -> Node:
        text, pattern = node.args
        found = self._text(text, "LIKE")
        assert isinstance(pattern, Literal)
        if not isinstance(pattern.value, str):
            if pattern.value is None:
                return Fixed(BOOLEAN, None)
            self._refuse("LIKE takes a quoted pattern, like 'abc%'", pattern)
        matches = Fixed(BOOLEAN, self._tried(pattern, like, pattern.value), f"like {pattern.value}")
        word = "not " if node.op.startswith("not") else ""
        return folded(Apply(BOOLEAN, f"({word}{{1}}({{0}}))", (found, matches)))

    # -- functions ---------------------------------------------------------------------------------------------------
    def _call(self, call: Call) -> Node:
        if call.function == "coalesce":
            kind, values = self._common(call.args, "COALESCE", call)
            return FirstValue(kind, tuple(values))
        argument = call.args[0]
        if call.function == "abs":
            return self._tried(call, absolute, self._number(argument, "abs"))
        return folded(Apply(TEXT, call.function + "({0})", (self._text(argument, call.function),)))

    def _case(self, case: Case) -> Node:
        if case.operand is None:
            conditions = [self.condition(when, "WHEN") for when, _ in case.whens]
        else:
            conditions = [self._compared("=", case.operand, when, case) for when, _ in case.whens]
        results = [result for _, result in case.whens]
        if case.default is not None:
            results.append(case.default)
        kind, values = self._common(results, "CASE", case, has_null=case.default is None)
        default = values[-1] if case.default is not None else None
        return Choice(kind, tuple(zip(conditions, values, strict=False)), default)

    def _common(
        self, parts: Sequence[Expression], what: str, place: Expression, has_null: bool = False
    ) -> tuple[ColumnType, list[Node]]:
        """The type that several results have in common, and the results of that type.

        Results of one numeric(p,s) keep it, as in PostgreSQL, unless one of them is a constant or is missing.
        """
        found = [self._node(part) for part in parts]
        kinds = [one.type for one in found if not isinstance(one, Unknown)]
        for kind in kinds:
            if base(kind) != base(kinds[0]) and not (kind.numeric and kinds[0].numeric):
                names = f"{kinds[0].name} and {kind.name}"
                self._refuse(f"the results of {what} are of types {names}; they must be of one type", place)
        kind = kinds[0] if kinds else TEXT
        if len(set(kinds)) > 1:
            kind = self._tried(place, common_number, kinds)
        nodes = [self._as(one, kind, part) for one, part in zip(found, parts, strict=True)]
        if base(kind) == "numeric" and (len(kinds) < len(found) or has_null):
            kind = self._tried(place, common_number, [node.type for node in nodes])
        return kind, [
            self._tried(part, _converted, node, kind) for node, part in zip(nodes, parts, strict=True)
        ]

    def _cast(self, node: Cast) -> Node:
        found, name = self._node(node.expression), node.type_name
        target = NUMERIC if name == "numeric" else self._tried(node, column_type, name)
        if isinstance(found, Unknown):
            found = self._as(found, target, node)
        if found.type is target:
            return found
        if not found.type.numeric or not target.numeric:
            detail = f"a cast from {found.type.name} to {name} is not supported"
            self._refuse(f"{detail}; types of numbers are cast, and quoted constants", node)
        if name == "numeric":
            target = self._tried(node, numeric_of_type, found.type)
        return self._tried(node, cast, found, target)

    # -- operands ----------------------------------------------------------------------------------------------------
    def _as(self, found: Node | Unknown, kind: ColumnType, part: Expression) -> Node:
        """A quoted constant or NULL as a value of the type; anything else as it is."""
        if not isinstance(found, Unknown):
            return found
        if found.value is None:
            return Fixed(kind, None)
        value = self._tried(part, read_quoted, found.value, kind)
        return fixed(self._tried(part, numeric_type, value) if base(kind) == "numeric" else kind, value)

    def _like_other(self, one: Node | Unknown, other: Node | Unknown, part: Expression) -> Node:
        return self._as(one, TEXT if isinstance(other, Unknown) else other.type, part)

    def _number(self, part: Expression, what: str) -> Node:
        found = self._as(self._node(part), DOUBLE, part)
        self._check_number(found, what, part)
        return found

    def _check_number(self, found: Node, what: str, part: Expression) -> None:
        if not found.type.numeric:
            self._refuse(f"{what} takes numbers, and this is a value of type {found.type.name}", part)

    def _text(self, part: Expression, what: str) -> Node:
        found = self._as(self._node(part), TEXT, part)
        if found.type is not TEXT:
            self._refuse(f"{what} takes texts, and this is a value of type {found.type.name}", part)
        return found

    # -- errors ------------------------------------------------------------------------------------------------------
    def _tried(self, place: Expression, function: Callable[..., T], *args: Any) -> T:
        try:
            return function(*args)
        except ValueError as error:
            self._refuse(str(error), place)

    def _refuse(self, detail: str, place: Expression) -> NoReturn:
        raise located(detail, self._sql, *place.place)


def folded_null(node: Node) -> Node:
    """NULL for a strict function of the constant NULL: then nothing of it is computed."""
    if isinstance(node, Apply) and any(isinstance(part, Fixed) and part.value is None for part in node.args):
        return Fixed(node.type, None)
    return node


def _converted(node: Node, kind: ColumnType) -> Node:
    """A result of CASE or COALESCE as a value of their common type of numbers."""
    return node if base(node.type) == base(kind) else cast(node, kind)
