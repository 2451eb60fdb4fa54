"""WHERE as an OR of conjunctions (disjunctive normal form).

NOT is pushed down to the operators by De Morgan's laws, which hold in SQL's three-valued logic too: an
atom and its negation are both unknown on NULL, and only TRUE lets a row through, so that in the end
unknown and false need no distinction. Equalities of one column that stand in one OR become one `in` atom:
x = 1 OR x = 2 is a single conjunction.

The form can grow exponentially ((a OR b) AND (c OR d) AND …), hence the limits; they are checked before a
product is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from prosem.language.syntax import Atom, ColumnName, Conjunction, Constant, Term
from prosem.language.terms import term
from prosem.language.tree import Node, bare, column_name, operands, refuse, settings, unsupported

MAX_CONJUNCTIONS = 1_000
MAX_ATOMS = 20_000
Disjunction = list[Conjunction]

COMPARISONS: dict[type[Node], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_OPPOSITE |= {"like": "not like", "not like": "like", "is null": "is not null", "is not null": "is null"}
TURNED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_INSTEAD = "a condition is made of = <> < <= > >=, BETWEEN, IN, LIKE 'prefix%', IS [NOT] NULL, AND, OR, NOT"


def disjunction(sql: str, node: Node | None) -> tuple[Conjunction, ...]:
    """The normal form of a WHERE clause; ((),) without one, () for a condition that is never true."""
    if node is None:
        return ((),)
    result = _normal(sql, node, negated=False)
    _check_size(sql, node, len(result), sum(map(len, result)))
    return tuple(result)


def _normal(sql: str, node: Node, negated: bool) -> Disjunction:
    """Recurses once a pair of parentheses, not once an operator."""
    node = bare(node)
    while isinstance(node, exp.Not):
        node, negated = bare(node.this), not negated
    if isinstance(node, exp.Or | exp.And):
        parts = (_normal(sql, part, negated) for part in operands(node, type(node)))
        combine = _either if isinstance(node, exp.Or) is not negated else _both
        return combine(sql, node, parts)
    if isinstance(node, exp.Boolean):
        return [()] if bool(node.this) is not negated else []
    if isinstance(node, exp.Null):
        return []
    if type(node) in COMPARISONS:
        return _comparison(sql, node, negated)
    if type(node) in _READERS:
        return _READERS[type(node)](sql, node, negated)
    unsupported(sql, node, _INSTEAD)


def _either(sql: str, node: Node, parts: Iterator[Disjunction]) -> Disjunction:
    """OR: all conjunctions, each once; equalities of one column merged at the place of the first."""
    found: dict[object, Conjunction] = {}
    points: dict[ColumnName, dict[Term, None]] = {}
    for part in parts:
        for conjunction in part:
            atom = conjunction[0] if len(conjunction) == 1 else None
            if atom and atom.op in ("=", "in") and atom.list_name is None:
                if atom.column not in points:
                    points[atom.column] = {}
                    found[atom.column] = conjunction
                points[atom.column].update(dict.fromkeys(atom.args))
            else:
                found[conjunction] = conjunction
    if () in found:
        return [()]
    for column, terms in points.items():
        first = found[column][0]
        found[column] = (Atom(first.column, "in" if len(terms) > 1 else "=", tuple(terms)),)
    result = list(found.values())
    _check_size(sql, node, len(result), sum(map(len, result)))
    return result


def _both(sql: str, node: Node, parts: Iterator[Disjunction]) -> Disjunction:
    """AND: every choice of one conjunction from each part."""
    built: list[dict[Atom, None]] = [{}]
    for part in parts:
        if len(part) == 1:
            for atoms in built:
                atoms.update(dict.fromkeys(part[0]))
        else:
            atoms_a, atoms_b = sum(map(len, built)), sum(map(len, part))
            _check_size(sql, node, len(built) * len(part), atoms_a * len(part) + atoms_b * len(built))
            built = [left | dict.fromkeys(right) for left in built for right in part]
    result = list(dict.fromkeys(tuple(atoms) for atoms in built))
    _check_size(sql, node, len(result), sum(map(len, result)))
    return result


def _check_size(sql: str, node: Node, conjunctions: int, atoms: int) -> None:
    if conjunctions > MAX_CONJUNCTIONS or atoms > MAX_ATOMS:
        refuse(
            f"the condition is too complex: written as an OR of ANDs it has {conjunctions:,} alternatives "
            f"with {atoms:,} comparisons; simplify it to at most {MAX_CONJUNCTIONS:,} and {MAX_ATOMS:,}",
            sql,
            node,
        )


# -- atoms -------------------------------------------------------------------------------------------------
def _one(column: ColumnName, op: str, negated: bool, *args: Term) -> Disjunction:
    return [(Atom(column, _OPPOSITE[op] if negated else op, args),)]


def _left_column(sql: str, node: Node, what: str) -> ColumnName:
    side = bare(node)
    if isinstance(side, exp.Column):
        return column_name(sql, side)
    if side.find(exp.Column):
        unsupported(sql, side, "compare the column itself")
    refuse(f"{what} needs a column on its left side", sql, side)


def _comparison(sql: str, node: Node, negated: bool) -> Disjunction:
    op, left, right = COMPARISONS[type(node)], bare(node.this), bare(node.expression)
    if not isinstance(left, exp.Column) and isinstance(right, exp.Column):
        left, right, op = right, left, TURNED[op]
    if not isinstance(left, exp.Column):
        _refuse_comparison(sql, node, left, right)
    return _one(_left_column(sql, left, op), op, negated, term(sql, right))


def _refuse_comparison(sql: str, node: Node, left: Node, right: Node) -> None:
    for side in left, right:
        if isinstance(side, exp.Select | exp.Subquery | exp.Tuple | exp.Case):
            unsupported(sql, side, _INSTEAD)
        if side.find(exp.Column):
            _left_column(sql, side, "")
    refuse("a comparison needs a column on one side", sql, node)


def _between(sql: str, node: Node, negated: bool) -> Disjunction:
    if settings(node).get("symmetric"):
        refuse("BETWEEN SYMMETRIC is not supported; write BETWEEN with the smaller end first", sql, node)
    column = _left_column(sql, node.this, "BETWEEN")
    low, high = term(sql, node.args["low"]), term(sql, node.args["high"])
    if negated:
        return [(Atom(column, "<", (low,)),), (Atom(column, ">", (high,)),)]
    return [(Atom(column, ">=", (low,)), Atom(column, "<=", (high,)))]


def _in(sql: str, node: Node, negated: bool) -> Disjunction:
    given = settings(node)
    if "query" in given:
        refuse("a subquery (IN (SELECT …)) is not supported; list the values, or join the tables", sql, node)
    column = _left_column(sql, node.this, "IN")
    field = given.get("field")
    if isinstance(field, exp.Placeholder) and isinstance(field.args.get("this"), str):
        name = str(field.this)
        if negated:
            refuse(f"NOT IN :{name} is not supported; write NOT IN (…) with its values", sql, node)
        return [(Atom(column, "in", list_name=name),)]
    if set(given) - {"this", "expressions"} or "expressions" not in given:
        refuse(
            "IN takes a list of at least one constant in parentheses, like IN (1, 2, :three), "
            "or a parameter that is a list, like IN :some",
            sql,
            node,
        )
    terms = tuple(dict.fromkeys(term(sql, part) for part in given["expressions"]))
    if negated:
        return [tuple(Atom(column, "<>", (value,)) for value in terms)]
    return [(Atom(column, "in" if len(terms) > 1 else "=", terms),)]


def _like(sql: str, node: Node, negated: bool) -> Disjunction:
    column = _left_column(sql, node.this, "LIKE")
    if settings(node).get("negate"):
        negated = not negated
    return _one(column, "like", negated, term(sql, node.expression))


def _is(sql: str, node: Node, negated: bool) -> Disjunction:
    column, what = _left_column(sql, node.this, "IS"), node.expression
    if settings(node).get("negate"):
        negated = not negated
    while isinstance(what, exp.Not):
        what, negated = what.this, not negated
    if isinstance(what, exp.Null):
        return _one(column, "is null", negated)
    if not isinstance(what, exp.Boolean):
        refuse("IS takes NULL, NOT NULL, TRUE or FALSE", sql, node)
    if not negated:
        return _one(column, "=", False, Constant(bool(what.this)))
    return [*_one(column, "=", False, Constant(not what.this)), *_one(column, "is null", False)]


def _flag(sql: str, node: Node, negated: bool) -> Disjunction:
    """A boolean column alone."""
    assert isinstance(node, exp.Column)
    return _one(column_name(sql, node), "=", False, Constant(not negated))


_READERS: dict[type[Node], Callable[[str, Node, bool], Disjunction]] = {
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Is: _is,
    exp.Column: _flag,
}
