"""From checked expressions to one Python function: straight-line code with one variable per node.

A strict function costs one test for NULL per argument that may be NULL and one statement, where closures would cost a call
per node. A node that occurs twice is computed once where the first occurrence is certain to have been computed. Nothing is
computed earlier than PostgreSQL would: branches of CASE and COALESCE and later operands of AND and OR are blocks that run
only if they are needed.

Only numbers, names of `NAMES` and numbered constants stand in the code, never a text of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from prosem.values.columns import Value
from prosem.values.model import Row
from prosem.views.arithmetic import (
    EXACT,
    EvaluationError,
    double_of,
    lower,
    multiply,
    numeric_of,
    rounded,
    upper,
)
from prosem.views.typed import Apply, Choice, FirstValue, Fixed, Junction, Load, Node, Test

Rows = Sequence[Row | None]
MAX_INDENT = 90  # Python's parser takes 100
NAMES: dict[str, Any] = {
    "Decimal": Decimal,
    "EvaluationError": EvaluationError,
    "add": EXACT.add,
    "subtract": EXACT.subtract,
    "minus": EXACT.minus,
    "multiply": multiply,
    "rounded": rounded,
    "double_of": double_of,
    "numeric_of": numeric_of,
    "lower": lower,
    "upper": upper,
}


def value_function(node: Node) -> Callable[[Rows], Value]:
    """The value of one expression. ValueError if blocks are nested too deeply."""
    code = _Code()
    return code.function(code.value(node))


def row_function(nodes: Sequence[Node]) -> Callable[[Rows], Row]:
    """The values of several expressions, as a row."""
    code = _Code()
    values = [code.value(node) for node in nodes]
    return code.function(f"({', '.join(values)},)")


class _Code:
    """Lines of a function in the making, the constants it refers to, and which node is in which variable."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = 1
        self._names = dict(NAMES)
        self._known: list[dict[Node, str]] = [{}]  # one per open block, the innermost last
        self._sources: set[int] = set()
        self._count = 0

    def function(self, result: str) -> Callable[[Rows], Any]:
        loads = [f"    r{source} = rows[{source}]" for source in sorted(self._sources)]
        text = "\n".join(["def evaluate(rows):", *loads, *self._lines, f"    return {result}"])
        exec(compile(text, "<view expression>", "exec"), self._names)
        made: Callable[[Rows], Any] = self._names["evaluate"]
        return made

    def value(self, node: Node) -> str:
        """The name under which the node's value stands, after the lines that compute it."""
        if isinstance(node, Fixed):
            return self._constant(node.value)
        for known in self._known:
            if node in known:
                return known[node]
        name = self._computed(node)
        self._known[-1][node] = name
        return name

    def _computed(self, node: Node) -> str:
        match node:
            case Load():
                return self._load(node)
            case Apply():
                return self._apply(node)
            case Junction():
                return self._junction(node)
            case Choice():
                return self._choice(node)
            case FirstValue():
                return self._first(node)
            case Test():
                tested = self.value(node.argument)
                if isinstance(node.argument, Fixed):
                    tested = self._assigned(tested)  # Python warns of `1 is None`
                return self._assigned(node.code.format(tested))
        raise AssertionError(f"{node} has no code")

    # -- nodes -------------------------------------------------------------------------------------------------------
    def _load(self, node: Load) -> str:
        source, position, _, nullable = node.field
        self._sources.add(source)
        cell = f"r{source}[{position}]"
        return self._assigned(f"None if r{source} is None else {cell}" if nullable else cell)

    def _apply(self, node: Apply) -> str:
        args = [self.value(argument) for argument in node.args]
        missing = " or ".join(
            dict.fromkeys(
                f"{name} is None" for name, argument in zip(args, node.args, strict=True) if argument.nullable
            )
        )
        code = node.code.format(*args)
        if not node.before and not node.after:
            return self._assigned(f"None if {missing} else {code}" if missing else code)
        result = self._variable()
        if missing:
            self._line(f"{result} = None")
            self._line(f"if not ({missing}):")
        with self._block(bool(missing)):
            if node.before:
                self._line(node.before.format(*args))
            self._line(f"{result} = {code}")
            if node.after:
                self._line(node.after.format(*args, result=result))
        return result

    def _junction(self, node: Junction) -> str:
        """The result stays at what does not decide; an operand that decides ends it, a NULL makes it NULL."""
        neutral, decisive = str(node.is_and), str(not node.is_and)
        result = self._assigned(neutral)
        for at, argument in enumerate(node.args):
            if at:
                self._line(f"if {result} is not {decisive}:")
            with self._block(at > 0):
                value = self.value(argument)
                if argument.nullable:
                    self._line(f"if {value} is not {neutral}: {result} = {value}")
                else:
                    self._line(f"if {value} is {decisive}: {result} = {decisive}")
        return result

    def _choice(self, node: Choice) -> str:
        result, is_open = self._assigned("None"), self._variable()
        self._line(f"{is_open} = True")
        for at, (condition, value) in enumerate(node.whens):
            if at:
                self._line(f"if {is_open}:")
            with self._block(at > 0):
                tested = self.value(condition)
                self._line(f"if {tested}:")
                with self._block():
                    self._line(f"{result} = {self.value(value)}")
                    self._line(f"{is_open} = False")
        if node.default is not None:
            self._line(f"if {is_open}:")
            with self._block():
                self._line(f"{result} = {self.value(node.default)}")
        return result

    def _first(self, node: FirstValue) -> str:
        first, *others = node.args
        result = self._assigned(self.value(first))
        for argument in others:
            self._line(f"if {result} is None:")
            with self._block():
                self._line(f"{result} = {self.value(argument)}")
        return result

    # -- lines -------------------------------------------------------------------------------------------------------
    def _constant(self, value: Value) -> str:
        if value is None or isinstance(value, bool | int | float):
            return f"({value!r})" if isinstance(value, int | float) and value < 0 else repr(value)
        self._count += 1
        name = f"c{self._count}"
        self._names[name] = value
        return name

    def _variable(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _assigned(self, code: str) -> str:
        name = self._variable()
        self._line(f"{name} = {code}")
        return name

    def _line(self, text: str) -> None:
        self._lines += ["    " * self._indent + line for line in text.split("\n")]

    @contextmanager
    def _block(self, is_one: bool = True) -> Iterator[None]:
        """Lines that may not run: what they compute is not known after them."""
        if not is_one:
            yield
            return
        if self._indent == MAX_INDENT:
            raise ValueError("CASE, COALESCE, AND and OR are nested too deeply")
        self._indent += 1
        self._known.append({})
        yield
        self._known.pop()
        self._indent -= 1
