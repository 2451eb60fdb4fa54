"""What a backtest needs to know before Spark reads: the tables of the query, and how its work is split into slices.

Subscriptions do not see each other, so any split of them gives the same notifications; every slice then needs all events.
Where each subscription has constants for one column (`symbol = :s`), a slice needs only the events of its constants: that
divides the events too. The exception is `may` and `must`: whether a subscription is notified between its two radii depends
on the others of the same item, so that these stay together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pipeline.backtest.simulation import Statement
from pipeline.statistics import StatisticsError
from pipeline.statistics.definitions import Definitions
from prosem.language import resolve
from prosem.language.evaluate import evaluate, evaluate_list
from prosem.language.notify import check_notify, radius_names
from prosem.language.parse import parse
from prosem.language.syntax import Atom, Parameter
from prosem.store.recovery import StoredView
from prosem.types.base import Form
from prosem.values.columns import ColumnType, column_type
from prosem.values.errors import ProsemError
from prosem.values.model import JsonObject, Table, View

_PLAIN = ("integer", "bigint", "text")  # types whose values are one text in the archive


@dataclass(frozen=True)
class Question:
    """A statement that was understood: its form, and the tables and views it depends on."""

    statement: Statement
    form: Form
    tables: tuple[Table, ...]
    views: tuple[StoredView, ...]

    @property
    def parameters(self) -> frozenset[str]:
        return self.statement.query.parameters | radius_names(self.statement.notify)

    def check(self, params: JsonObject) -> None:
        """InputError if a subscription with these parameters would be refused."""
        query, notify = self.statement.query, self.statement.notify
        resolve.check_parameters(query, params, radius_names(notify))
        self.form.bind(params)

    def column_of(self, atom: Atom) -> ColumnType | None:
        """The type of the column of a comparison."""
        for table in self.form.tables:
            at = table.position.get(atom.column.name)
            if at is not None:
                return table.columns[at].type
        return None

    @property
    def texts(self) -> frozenset[str]:
        """The parameters that are compared with texts, dates or bytes: in a file of parameters they are not JSON."""
        found = set()
        for atom in (atom for conjunction in self.statement.query.where for atom in conjunction):
            kind = self.column_of(atom)
            if kind is not None and not kind.numeric and kind.name != "boolean":
                found |= {term.name for term in atom.args if isinstance(term, Parameter)}
        return frozenset(found)


def statement_of(sql: str, notify: JsonObject | None, per: str, tenant: str) -> Statement:
    """StatisticsError with the server's own words if it is none, whatever tables there are."""
    try:
        return Statement(replace(parse(sql), per=per), check_notify(notify), tenant)
    except ProsemError as error:
        raise StatisticsError(error.detail) from error


def ask(definitions: Definitions, sql: str, notify: JsonObject | None, per: str, tenant: str) -> Question:
    """StatisticsError with the server's own words if the server would refuse the subscription."""
    statement = statement_of(sql, notify, per, tenant)
    try:
        form = definitions.recognise(statement.query, notify, tenant)
    except ProsemError as error:
        raise StatisticsError(
            f"{error.detail} (the archive has the tables and views as of the last prosem stats refresh)"
        ) from error
    return Question(statement, form, *definitions.needed(form))


# -- slices ------------------------------------------------------------------------------------------------------
class Dividing(NamedTuple):
    """An equality that all rows of a subscription satisfy, and the position and type of its column."""

    atom: Atom
    position: int
    type_name: str

    def constants(self, params: JsonObject) -> list[str]:
        """The values that it selects for one subscription, as texts."""
        kind, atom = column_type(self.type_name), self.atom
        if atom.list_name is not None:
            given = evaluate_list(atom.list_name, params, kind)
        else:
            given = [evaluate(term, params, kind) for term in atom.args]
        present = [value for value in given if value is not None]
        if self.type_name == "text":
            return [str(value) for value in present]
        codes = [kind.exact(value) for value in present]
        return [str(code) for code in codes if code is not None]


@dataclass(frozen=True)
class Split:
    """The slice of each subscription. `dividing`: the equality by whose constants events are divided (None: all to all).

    `values`: the slices that need the events of a value.
    """

    count: int
    slices: Sequence[int]
    dividing: Dividing | None = None
    values: frozenset[tuple[str, int]] = frozenset()


def split(question: Question, subscriptions: Sequence[JsonObject], parts: int) -> Split:
    """At most so many slices, each with about as many subscriptions, or constants."""
    dividing = _dividing(question)
    if dividing is None:
        together = "may" in (question.statement.notify or {})
        count = 1 if together else max(1, min(parts, len(subscriptions)))
        return Split(count, [at % count for at in range(len(subscriptions))])
    needs = [dividing.constants(params) for params in subscriptions]
    slice_of: dict[str, int] = {}
    slices: list[int] = []
    for some in needs:
        known = next((slice_of[value] for value in some if value in slice_of), None)
        chosen = len(slice_of) % parts if known is None else known
        for value in some:
            slice_of.setdefault(value, chosen)
        slices.append(chosen)
    values = {(value, at) for some, at in zip(needs, slices, strict=True) for value in some}
    return Split(parts, slices, dividing, frozenset(values))


def _dividing(question: Question) -> Dividing | None:
    """The first equality on a column of the one table that the query reads."""
    query, tables = question.statement.query, question.form.tables
    if len(query.sources) != 1 or len(query.where) != 1 or isinstance(tables[0], View):
        return None
    together = "may" in (question.statement.notify or {})
    for atom in query.where[0]:
        if atom.op == "=" or (atom.op == "in" and not together):
            kind = question.column_of(atom)
            if kind is not None and kind.name in _PLAIN:
                return Dividing(atom, tables[0].position[atom.column.name], kind.name)
    return None
