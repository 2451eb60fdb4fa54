"""A query as the update monitor registers it: every end of a range is a parameter of its own.

    x BETWEEN :pos - :reach AND :pos + :reach   →   x BETWEEN :end_1 AND :end_2
    x = :at                                     →   x BETWEEN :end_1 AND :end_2

These are the generated variables of [Parametric] 7.3, and the two variables by which its figure 11 approximates an
equality. A parameter that is an end already, and nothing else, keeps its name; so a query of such ends is registered
as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from prosem_client.conditions import Comparison, Condition
from prosem_client.errors import NotMonitorable, ProsemError
from prosem_client.held import End, Limit, Limits
from prosem_client.scales import scale
from prosem_client.terms import Parameter, Term, TermError, evaluate, given, parameters_of, settled
from prosem_client.values import JsonObject


class Origin(NamedTuple):
    """Where the value of an end comes from."""

    limit: Limit
    term: Term

    def value(self, params: Mapping[str, Any]) -> Any:
        """What is sent for it: as it was given, or computed and rounded inward to what the column holds."""
        if isinstance(self.term, Parameter):
            return given(params, self.term.name)
        end, column = self.limit.end, self.limit.scale
        assert column.operand is not None
        found = evaluate(self.term, params, column.operand)
        return None if found is None else settled(found, column.digits, end.is_lower is not end.is_open)


class Registration:
    """The text to register, the ends in it, and their values for the parameters of the user.

    Invariant: the registered text with `exact(params)` has the answer of the user's text with `params`.
    """

    def __init__(self, sql: str, origins: Sequence[Origin], consumed: frozenset[str]) -> None:
        self.sql = sql
        self.limits = Limits([origin.limit for origin in origins])
        self._origins = tuple(origins)
        self._consumed = consumed  # parameters of the user that the registered text no longer has

    def exact(self, params: JsonObject) -> JsonObject:
        """The parameters to register; ProsemError as the server would answer if it had these of the user."""
        found = {name: value for name, value in params.items() if name not in self._consumed}
        for origin in self._origins:
            name = next(parameters_of(origin.term))
            try:
                if origin.limit.end.parameter != name:
                    found[origin.limit.end.parameter] = origin.value(params)
                origin.limit.constant(found)
            except ValueError as error:
                name = error.name if isinstance(error, TermError) else name
                detail = str(error) if name not in params else f":{name}: {error}"
                problem = {"at": f"/params/{name}", "detail": detail}
                raise ProsemError(422, "bad-input", detail, [problem]) from None
        return found


def registration(condition: Condition, definition: Mapping[str, Any]) -> Registration:
    """How a query over this table is registered; NotMonitorable if none of its ends can be foretold.

    >>> table = {"columns": [{"name": "x", "type": "integer"}], "primary_key": ["x"]}
    >>> from prosem_client.conditions import condition
    >>> made = registration(condition("SELECT * FROM t WHERE x < :pos + :reach AND x > :lo"), table)
    >>> made.sql, made.exact({"pos": 5, "reach": 2, "lo": 1})
    ('SELECT * FROM t WHERE x < :end_1 AND x > :lo', {'lo': 1, 'end_1': 7})
    """
    types = {column["name"]: column["type"] for column in definition["columns"]}
    taken = [
        (one, found)
        for one in condition.comparisons
        if (found := scale(types.get(one.column, ""))) and (found.operand or isinstance(one.term, Parameter))
    ]
    if not taken:
        shown = ", ".join(
            f"{one.column} ({types.get(one.column, 'no such column')})" for one in condition.comparisons
        )
        raise NotMonitorable(
            f"the update monitor needs a range over numbers or times, not over {shown}; arithmetic is of numbers"
        )
    needed = {*definition["primary_key"], *(one.column for one, _ in taken)}
    if condition.selected is not None and (missing := needed - set(condition.selected)):
        raise NotMonitorable(
            f"the update monitor needs {', '.join(sorted(missing))} among the selected columns: "
            "rows are told apart by their key and checked by the columns of the range"
        )
    names = (name for n in count(1) if (name := f"end_{n}") not in condition.uses)
    origins: list[Origin] = []
    sql, after = condition.sql, len(condition.sql)
    replaced = []
    for one, column in taken:
        ends = list(_ends(one, condition.uses, names))
        origins += [Origin(Limit(end, column), one.term) for end in ends]
        replaced.append((one, _text(one, ends)))
    for one, text in sorted(replaced, key=lambda pair: pair[0].start, reverse=True):
        assert one.stop <= after
        sql, after = sql[: one.start] + text + sql[one.stop :], one.start
    here = Counter(name for one, _ in taken for name in parameters_of(one.term))
    kept = {origin.limit.end.parameter for origin in origins}
    consumed = {name for name, uses in here.items() if uses == condition.uses[name] and name not in kept}
    return Registration(sql, origins, frozenset(consumed))


def _ends(one: Comparison, uses: Mapping[str, int], names: Iterator[str]) -> Iterator[End]:
    if one.sign == "=":
        for is_lower in (True, False):
            yield End(one.column, next(names), is_lower, is_open=False)
        return
    is_own = isinstance(one.term, Parameter) and uses[one.term.name] == 1
    name = one.term.name if isinstance(one.term, Parameter) and is_own else next(names)
    yield End(one.column, name, is_lower=one.sign[0] == ">", is_open=len(one.sign) == 1)


def _text(one: Comparison, ends: Sequence[End]) -> str:
    if one.sign == "=":
        return f"{one.source} BETWEEN :{ends[0].parameter} AND :{ends[1].parameter}"
    return f":{ends[0].parameter}"
