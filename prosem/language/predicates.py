"""Row predicates of keys: which rows of a table a key may see, as a conjunction of `=` and IN.

At registration they become conditions of the query, over parameters that the server gives. So they are constants of the
subscription's point like its own: keys of one shape share a group, and snapshots, changes and replays obey them because
they obey the query. Parameters that begin with `prosem_` are the server's, and no caller can give or change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from prosem.language.parse import parse
from prosem.language.restrict import restrict
from prosem.language.syntax import Atom, ColumnName, Constant, Parameter, Query
from prosem.values.access import Predicate, Predicates
from prosem.values.errors import ForbiddenError, InputError, LanguageError, pointer
from prosem.values.model import JsonObject, Table, View

RESERVED = "prosem_"
EVERY_TABLE = "*"
MOST_VALUES = 1_000


# -- as they are given ---------------------------------------------------------------------------------------------
def read_predicates(given: Any, at: str = "/rows") -> Predicates:
    """Predicates by table; each is a condition as text, or an object with a list of values for each column.

    >>> read_predicates({"stocks": "sector = 'tech' AND region IN (1, 2)"})
    {'stocks': {'sector': ('tech',), 'region': (1, 2)}}
    """
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise InputError("expected an object with a condition for each table (* for all tables)", at)
    found: dict[str, Predicate] = {}
    for table, condition in given.items():
        place = at + pointer(table)
        if isinstance(condition, str):
            found[table] = read_condition(condition, place)
        elif isinstance(condition, dict) and condition:
            found[table] = {
                column: _values(values, place + pointer(column)) for column, values in condition.items()
            }
        else:
            raise InputError("expected a condition like sector = 'tech'", place)
    return found


def read_condition(text: str, at: str = "/rows") -> Predicate:
    """A conjunction of `=` and IN over constants."""
    wanted = "a row predicate is a conjunction of column = constant and column IN (constants)"
    try:
        query = parse(f"SELECT * FROM this_table WHERE {text}")
    except LanguageError as error:
        raise InputError(f"{wanted}: {error.detail}", at) from None
    if len(query.where) != 1 or query.tables != ("this_table",) or query.parameters:
        raise InputError(wanted, at)
    found: dict[str, tuple[object, ...]] = {}
    for atom in query.where[0]:
        values = [term.value for term in atom.args if isinstance(term, Constant)]
        if atom.op not in ("=", "in") or len(values) < len(atom.args):
            raise InputError(wanted, at)
        if atom.column.name in found:
            raise InputError(f"the column {atom.column.name} stands twice", at)
        found[atom.column.name] = _values(values, at)
    if not found:
        raise InputError(wanted, at)
    return found


def _values(given: Any, at: str) -> tuple[object, ...]:
    if not isinstance(given, list) or not given or len(given) > MOST_VALUES:
        raise InputError(f"expected a list of 1 to {MOST_VALUES} values", at)
    for value in given:
        if not isinstance(value, str | int | Decimal | bool):
            raise InputError("a value is a text, a number, true or false", at)
    return tuple(dict.fromkeys(given))


# -- as they are applied -------------------------------------------------------------------------------------------
def check_given(params: Mapping[str, Any]) -> None:
    """InputError for a parameter of the server's."""
    for name in params:
        if name.startswith(RESERVED):
            raise InputError(
                f"parameters that begin with {RESERVED} are the server's", pointer("params", name)
            )


def restricted(
    query: Query, tables: Sequence[Table], heirs: Iterable[Table], predicates: Predicates
) -> tuple[Query, JsonObject]:
    """The query as a key with these predicates may ask it, and the constants that belong to it.

    `tables` are those of FROM. `heirs` are the tables that extend those of the query, or the tables of its views: a
    predicate of theirs alone cannot be evaluated from above.
    """
    for name in query.parameters:
        if name.startswith(RESERVED):
            raise LanguageError(f"parameters that begin with {RESERVED} are the server's; rename :{name}")
    if not predicates:
        return query, {}
    hidden = [heir for heir in heirs if heir.name in predicates]
    for heir in hidden:
        if any(ancestor in tables for ancestor in heir.ancestors):
            raise ForbiddenError(
                f"this key sees some rows of {heir.name} alone, and {heir.name} extends a table of the query; "
                f"ask {heir.name} itself"
            )
    atoms: list[Atom] = []
    constants: JsonObject = {}
    for source, table in zip(query.sources, tables, strict=True):
        _check_view(table, predicates, hidden)
        conditions = _conditions(table, predicates)
        if conditions and source.join == "left":
            raise LanguageError(
                f"this key sees only some rows of {table.name}, which cannot be decided on the right of a LEFT JOIN; "
                "use an inner join"
            )
        for column, values in conditions:
            if column not in table.position:
                raise ForbiddenError(
                    f"this key sees rows by their {column}, and the table {table.name} has no such column"
                )
            names = [f"{RESERVED}{len(constants) + number}" for number in range(1, len(values) + 1)]
            constants |= dict(zip(names, values, strict=True))
            op = "=" if len(names) == 1 else "in"
            atoms.append(Atom(ColumnName(column, source.alias), op, tuple(map(Parameter, names))))
    return restrict(query, atoms), constants


def _check_view(table: Table, predicates: Predicates, hidden: Sequence[Table]) -> None:
    """A view over rows that the key may not all see needs conditions of its own, by its name."""
    if not isinstance(table, View) or table.name in predicates:
        return
    extending = [heir for heir in hidden if any(ancestor in table.bases for ancestor in heir.ancestors)]
    for below in (*_made_of(table), *extending):
        if _conditions(below, predicates):
            raise LanguageError(
                f"this key sees only some rows of {below.name}, and the view {table.name} is made of all of them; "
                f"the key needs a condition for {table.name}"
            )


def _made_of(view: View) -> Iterator[Table]:
    for table in view.inputs:
        yield table
        if isinstance(table, View):
            yield from _made_of(table)


def _conditions(table: Table, predicates: Predicates) -> list[tuple[str, tuple[object, ...]]]:
    """The conditions on a table's rows: its own, those of the tables it extends, and those on all."""
    names = [table.name, *(ancestor.name for ancestor in table.ancestors), EVERY_TABLE]
    return [item for name in names for item in predicates.get(name, {}).items()]
