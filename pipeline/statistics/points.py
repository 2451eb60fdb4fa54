"""Where the points of subscriptions lie: for each group and dimension a histogram of the constants compared.

The dimensions of a group are those that its subscription type names, such as `risk >=` or `NOTIFY change`. The constants
stand in the parameters or in the text of the statement; statements are recognised on the executors, each once per
partition. Numbers are ordered as doubles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from pipeline.statistics.definitions import Definition, Definitions
from pipeline.statistics.histograms import SKETCHES, Sketches, merged
from pipeline.statistics.kinds import kind, point_kind
from prosem.language.dimensions import Dimension, placed
from prosem.language.parse import parse
from prosem.types import registry
from prosem.values.errors import ProsemError
from prosem.values.wire import decode_exact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def point_statistics(subscriptions: DataFrame, definitions: Sequence[Definition]) -> DataFrame:
    """One row of `histograms.STATISTICS` for each group and dimension; the events are the active subscriptions, each once,
    whether it has one constant there, a list of them, or none."""
    active = subscriptions.where("active").select("group_id", "params", "sql", "notify", "per", "tenant")
    return merged(active.mapInArrow(_summarise(definitions), SKETCHES))


def _summarise(definitions: Sequence[Definition]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def summarise(batches: Iterator[Any]) -> Iterator[Any]:
        found, statements = Sketches(), Statements(definitions)
        for batch in batches:
            columns = (batch.column(at).to_pylist() for at in range(6))
            constants: dict[tuple[int, str, str], list[Any]] = {}
            subscriptions: Counter[tuple[int, str, str]] = Counter()
            for group, params, *statement in zip(*columns, strict=True):
                values, compared = decode_exact(params), set()
                for dimension in statements.dimensions(*statement):
                    at = group, dimension.name, point_kind(dimension.type.name)
                    points = [placed(one, dimension.type) for one in dimension.constants(values)]
                    constants.setdefault(at, []).extend(point for point in points if point is not None)
                    compared.add(at)
                subscriptions.update(compared)
            for at, some in constants.items():
                sketch = found.of(*at)
                sketch.events += subscriptions[at]
                sketch.take(pa.array(some, kind(at[2]).arrow))
        yield from found.batches()

    return summarise


class Statements:
    """The dimensions of statements over some tables and views, each recognised once."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self._definitions = Definitions(definitions)
        self._known: dict[tuple[str, str | None, str, str], tuple[Dimension, ...]] = {}

    def dimensions(self, sql: str, notify: str | None, per: str, tenant: str) -> tuple[Dimension, ...]:
        """None of a statement that is not served, since a table of it was dropped."""
        key = sql, notify, per, tenant
        found = self._known.get(key)
        if found is None:
            try:
                query = replace(parse(sql), per=per)
                given = None if notify is None else decode_exact(notify)
                found = registry.dimensions(self._definitions.recognise(query, given, tenant))
            except ProsemError:
                found = ()
            self._known[key] = found
        return found
