"""Statistics of join edges: how often each side has events, and how many rows share a key.

Edges are those of the groups that join tables. Rows per key are those of the tables as of the run, which follow from the
archive (`join_keys`). The server prices semijoins by them (`prosem/types/join/decomposition.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from prosem.language.joins import join_classes
from prosem.language.parse import parse
from prosem.values.errors import LanguageError
from prosem.values.model import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Side(NamedTuple):
    """A table and those of its columns that are joined."""

    table: int
    columns: tuple[str, ...]


class Edge(NamedTuple):
    """Two sides joined by equality; R is the one with the lower table id."""

    r: Side
    s: Side


class Frequencies(NamedTuple):
    """Of one side: its keys, the rows per key, and how uneven that is (1: all keys alike)."""

    keys: int
    rows: float
    skew: float


class JoinStatistics(NamedTuple):
    edge: Edge
    p: tuple[float, float]
    r: Frequencies
    s: Frequencies


def edges(statements: Iterable[tuple[str, Sequence[Table]]]) -> list[Edge]:
    """The edges of the join graph, from a statement of each group and the tables it names; each once, sorted."""
    found: set[Edge] = set()
    for sql, tables in statements:
        if len(tables) > 1:
            found |= set(_edges(sql, {table.name: table for table in tables}))
    return sorted(found)


def _edges(sql: str, tables: Mapping[str, Table]) -> Iterable[Edge]:
    """Each table of a join with the first one before it that has all columns of its USING."""
    try:
        query = parse(sql)
        joined = [tables[name] for name in query.tables]
        classes = join_classes(query, joined)
    except (LanguageError, KeyError):  # KeyError: a table that was dropped since
        return
    for number, names in enumerate(query.using, 1):
        if not names:
            continue  # joined by ON
        own = [
            next(one for one in classes if one.get(number) == joined[number].position[name]) for name in names
        ]
        for other in range(number):
            if all(other in one for one in own):
                columns = tuple(joined[other].names[one[other]] for one in own)
                r, s = sorted([Side(joined[other].id, columns), Side(joined[number].id, names)])
                yield Edge(r, s)
                break


def frequencies(keys: DataFrame) -> DataFrame:
    """Of each side the number of keys, the rows per key, and the skew: (Σn²/Σn) / (Σn/keys); from `join_keys.side_keys`."""
    from pyspark.sql import functions as f

    together = keys.groupBy("side").agg(
        f.count("*").alias("keys"),
        f.sum("rows").alias("rows"),
        f.sum(f.pow("rows", f.lit(2))).alias("squares"),
    )
    rows = f.col("rows") / f.col("keys")
    return together.select(
        "side", "keys", rows.alias("rows"), (f.col("squares") / f.col("rows") / rows).alias("skew")
    )
