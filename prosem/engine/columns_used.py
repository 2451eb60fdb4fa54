"""Which columns of tables must be in memory: those that the space of a group or a view reads. Keys always are.

What a filter or a MIN shows of rows beyond its conditions is read when it is needed. A join by `SELECT *`, MIN and MAX with
`notify`, and those of several topics (`IN`) or several changes at one seq use all columns of their tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prosem.types.base import Form, columns_read
from prosem.values.model import Table, View
from prosem.views.definition import ViewDefinition
from prosem.views.subscription import definition_of

Used = dict[Table, frozenset[int]]  # table → positions of its columns


def every_column(table: Table) -> frozenset[int]:
    return frozenset(range(len(table.columns)))


def used_by_view(definition: ViewDefinition) -> Used:
    """Of its tables; the views that it reads use theirs."""
    found: Used = {}
    for number, (_, table) in enumerate(definition.sources):
        if not isinstance(table, View):
            read = frozenset(at for source, at in definition.reads if source == number)
            found[table] = found.get(table, frozenset()) | read
    return found


def used_by_form(form: Form) -> Used:
    """Of its tables, and of those of the join that it is over."""
    found: Used = {}
    read = columns_read(form)
    for table in form.tables:
        if not isinstance(table, View):
            found[table] = every_column(table) if read is None else read
        elif table.is_unnamed:
            found = together([found, used_by_view(definition_of(table))])
    return found


def together(several: Iterable[Mapping[Table, frozenset[int]]]) -> Used:
    found: Used = {}
    for some in several:
        for table, columns in some.items():
            found[table] = found.get(table, frozenset()) | columns
    return found
