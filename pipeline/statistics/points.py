"""Where the points of subscriptions lie: for each group and dimension a histogram of the constants compared.

A dimension is a column and how it is compared, such as `risk >=`. The constants stand in the parameters or in the text
of the statement; statements are parsed on the executors, each text once per partition. Numbers are ordered as doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from pipeline.statistics.histograms import SKETCHES, Sketches, merged
from pipeline.statistics.kinds import kind, point_kind
from prosem.language.evaluate import evaluate
from prosem.language.parse import parse
from prosem.language.syntax import Parameter, Term
from prosem.values.columns import ColumnType, column_type
from prosem.values.errors import ProsemError
from prosem.values.wire import decode_exact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from prosem.values.model import Table

# open and closed ends are one dimension: both are the low or the high end of a range
_DIMENSION = {"<": "<=", "<=": "<=", ">": ">=", ">=": ">=", "=": "=", "<>": "<>"}
Comparison = tuple[str, str, Term]  # column, operator, what it is compared with


def point_statistics(subscriptions: DataFrame, groups: Mapping[int, tuple[Table, ...]]) -> DataFrame:
    """One row of `histograms.STATISTICS` for each group and dimension; the events are the active subscriptions."""
    active = subscriptions.where("active").select("group_id", "sql", "params")
    return merged(active.mapInArrow(_summarise(groups), SKETCHES))


def _summarise(groups: Mapping[int, tuple[Table, ...]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    types = {  # by names, which travel to the executors
        group: {column.name: column.type.name for table in tables for column in table.columns}
        for group, tables in groups.items()
    }

    def summarise(batches: Iterator[Any]) -> Iterator[Any]:
        found = Sketches()
        for batch in batches:
            columns = (batch.column(at).to_pylist() for at in range(3))
            constants: dict[tuple[int, str, str], list[Any]] = {}
            for group, sql, params in zip(*columns, strict=True):
                values = decode_exact(params)
                for column, operator, term in comparisons(sql):
                    type_name = types.get(group, {}).get(column)
                    if type_name is not None:
                        dimension = f"{column} {_DIMENSION[operator]}"
                        points = _points(term, values, column_type(type_name))
                        constants.setdefault((group, dimension, point_kind(type_name)), []).extend(points)
            for (group, dimension, kind_name), some in constants.items():
                sketch = found.of(group, dimension, kind_name)
                points = [point for point in some if point is not None]
                sketch.events += len(some)
                sketch.nulls += len(some) - len(points)
                sketch.take(pa.array(points, kind(kind_name).arrow))
        yield from found.batches()

    return summarise


def _points(term: Term, params: Mapping[str, Any], type: ColumnType) -> list[Any]:
    """The constant of a comparison; of a parameter that is a list all its values."""
    given = params.get(term.name) if isinstance(term, Parameter) else None
    if isinstance(given, list):
        return [_point(Parameter(""), {"": value}, type) for value in given]
    return [_point(term, params, type)]


def _point(term: Term, params: Mapping[str, Any], type: ColumnType) -> Any:
    """The constant as Arrow takes it; None if it has no value of this type."""
    value = constant(term, params, type)
    try:
        if value is None or not type.ordered:
            return None
        value = type.constant(value)
        return float(value) if type.numeric else int(value) if isinstance(value, bool) else value
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=10_000)
def comparisons(sql: str) -> tuple[Comparison, ...]:
    """Every comparison of a column with a constant in a statement, once; none if it cannot be parsed.

    >>> [(c, o) for c, o, _ in comparisons("SELECT * FROM t WHERE NOT x > :a AND y BETWEEN 1 AND 2")]
    [('x', '<='), ('y', '>='), ('y', '<=')]
    """
    try:
        query = parse(sql)
    except ProsemError:
        return ()
    found = (
        (atom.column.name, "=" if atom.op == "in" else atom.op, term)
        for conjunction in query.where
        for atom in conjunction
        for term in (atom.args if atom.list_name is None else (Parameter(atom.list_name),))
    )
    return tuple(dict.fromkeys(one for one in found if one[1] in _DIMENSION))


def constant(term: Term, params: Mapping[str, Any], type: ColumnType) -> Any:
    """The value of a constant, a parameter or arithmetic over them for a column of this type; None if it has none."""
    try:
        return evaluate(term, params, type)
    except ProsemError:
        return None
