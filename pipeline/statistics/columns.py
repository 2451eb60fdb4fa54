"""Column statistics from the event log, by sketches that are kept with each segment of the archive and merged.

What is counted is the row an event leaves behind (of a delete, the row it takes away): a row that is written ten times
counts ten times, since the optimizer prices events and not rows. A segment is scanned once, when it is new. Sketches are
by the column's name and type, so that they stay true of a table whose columns change.

Quantiles are Spark's KLL sketches ([Karnin]) over 64-bit integers and doubles, distinct values its HyperLogLog; both come
from Apache DataSketches and run in Java, where the values are. Spark has no quantiles of texts, bytes and numerics of more
than 18 digits: their order is kept by our own `Sketch`, in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import functions as f

from pipeline.statistics.histograms import RANKS, STATISTICS, described
from pipeline.statistics.kinds import Kind, kind
from pipeline.statistics.sketch import Sketch
from prosem.values.columns import column_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pipeline.statistics.typed import Columns

K = 2_048  # of KLL: a rank is wrong by 0.14 % at most, in 99 of 100 sketches
RANK_ERROR = 2.296 / K**0.9723  # as DataSketches states it
LG_REGISTERS = 14  # of HyperLogLog: a standard error of 0.8 %
SKETCHES = (
    "table_id int, name string, type string, events long, nulls long, changes long, distinct_values binary,"
    " integers binary, doubles binary, texts binary"
)
_SKETCHES = pa.schema(
    [("table_id", pa.int32()), ("name", pa.string()), ("type", pa.string())]
    + [(name, pa.int64()) for name in ("events", "nulls", "changes")]
    + [(name, pa.binary()) for name in ("distinct_values", "integers", "doubles", "texts")]
)
_FIGURES = pa.schema(
    [("owner", pa.int32()), ("item", pa.string()), ("type", pa.string())]
    + [(name, pa.int64()) for name in ("events", "nulls", "changes")]
    + [("distinct_values", pa.float64()), ("histogram", pa.string()), ("rank_error", pa.float64())]
    + [("hot_keys", pa.string())]
)
Batches = Iterator[Any]


# -- the sketches of a segment ---------------------------------------------------------------------------------
def column_sketches(events: DataFrame, table_id: int, columns: Columns) -> DataFrame:
    """Rows of `SKETCHES` for the columns of a table: one per column, and of texts one more per partition."""
    made = _by_spark(events, table_id, columns)
    texts = tuple(one for one in columns if _is_text(one[1]))
    if texts:
        chosen = events.select(*[_value(name).alias(str(at)) for at, (name, _) in enumerate(texts)])
        made = made.union(chosen.mapInArrow(_summarise(table_id, texts), SKETCHES))
    return made


def _is_text(type_name: str) -> bool:
    made = kind(type_name)
    return made.ordered and not (pa.types.is_int64(made.arrow) or _is_temporal(made) or type_name == _DOUBLE)


_DOUBLE = "double precision"


def _is_temporal(made: Kind) -> bool:
    return bool(pa.types.is_temporal(made.arrow))


def _value(name: str) -> Column:
    new, old = f.col("new"), f.col("old")
    return f.when(new.isNotNull(), new.getField(name)).otherwise(old.getField(name))


def _integer(value: Column, type_name: str) -> Column | None:
    """A value as an integer in the order of its type; None if the type has no such order."""
    made = kind(type_name)
    if type_name == "date":
        return f.unix_date(value).cast("long")
    if type_name == "timestamptz":
        return f.unix_micros(value)
    if not pa.types.is_int64(made.arrow):
        return None
    if scale := column_type(type_name).scale:
        value = value * f.lit(10**scale).cast(f"decimal({scale + 1},0)")
    return value.cast("long")


def _by_spark(events: DataFrame, table_id: int, columns: Columns) -> DataFrame:
    new, old = f.col("new"), f.col("old")
    is_update = new.isNotNull() & old.isNotNull()
    values = [_value(name).alias(f"v{at}") for at, (name, _) in enumerate(columns)]
    changes = [
        (is_update & ~old.getField(name).eqNullSafe(new.getField(name))).alias(f"c{at}")
        for at, (name, _) in enumerate(columns)
    ]
    sums = [f.count(f.lit(1)).alias("events")]
    for at, (_, type_name) in enumerate(columns):
        value = f.col(f"v{at}")
        integer = _integer(value, type_name)
        counted = integer
        if counted is None:  # HyperLogLog takes no doubles, and leaves out empty texts
            counted = f.when(value.isNotNull(), f.xxhash64(value))
        sums += [
            f.count(value).alias(f"n{at}"),
            f.count_if(f.col(f"c{at}")).alias(f"c{at}"),
            f.hll_sketch_agg(counted, LG_REGISTERS).alias(f"d{at}"),
        ]
        if integer is not None:
            sums.append(f.kll_sketch_agg_bigint(integer, K).alias(f"q{at}"))
        elif type_name == _DOUBLE:
            sums.append(f.kll_sketch_agg_double(value, K).alias(f"q{at}"))
    row = events.select(*values, *changes).agg(*sums)
    made = [_row(row, table_id, at, *column) for at, column in enumerate(columns)]
    rows = row.select(f.explode(f.array(*made)).alias("one")).select("one.*")
    return rows.where("events > 0").to(_spark_schema())


def _row(row: DataFrame, table_id: int, at: int, name: str, type_name: str) -> Column:
    """One column's sketches out of the row that has those of all."""
    present = f.col(f"n{at}")
    nothing = f.lit(None).cast("binary")
    quantiles = f.when(present > 0, f.col(f"q{at}")) if f"q{at}" in row.columns else nothing
    is_double = type_name == _DOUBLE
    return f.struct(
        f.lit(table_id).cast("int").alias("table_id"), f.lit(name).alias("name"), f.lit(type_name).alias("type"),
        f.col("events"), (f.col("events") - present).alias("nulls"), f.col(f"c{at}").alias("changes"),
        f.when(present > 0, f.col(f"d{at}")).alias("distinct_values"),
        (nothing if is_double else quantiles).alias("integers"),
        (quantiles if is_double else nothing).alias("doubles"),
        nothing.alias("texts"),
    )  # fmt: skip


def _spark_schema() -> Any:
    from pipeline.statistics.typed import spark_schema

    return spark_schema(_SKETCHES)


def _summarise(table_id: int, columns: Columns) -> Callable[[Batches], Batches]:
    def summarise(batches: Batches) -> Batches:
        kinds = [kind(type_name) for _, type_name in columns]
        sketches = [Sketch(made.arrow, is_counted=False) for made in kinds]
        for batch in batches:
            for sketch, made, values in zip(sketches, kinds, batch.columns, strict=True):
                sketch.take(made.array(values.drop_null()))
        rows = [
            (table_id, *column, 0, 0, 0, None, None, None, sketch.pack()[1])
            for column, sketch in zip(columns, sketches, strict=True)
        ]
        yield pa.record_batch([list(values) for values in zip(*rows, strict=True)], schema=_SKETCHES)

    return summarise


# -- the sketches of several segments --------------------------------------------------------------------------
def merged_sketches(sketches: DataFrame) -> DataFrame:
    """One row of `SKETCHES` for each column, from any number of them."""
    return _merged(sketches).mapInArrow(_pack_texts, SKETCHES)


def _merged(sketches: DataFrame) -> DataFrame:
    """One row for each column; `texts` are still a list. What a column has no sketch of is NULL."""
    merges = {
        "distinct_values": f.hll_union_agg("distinct_values"),
        "integers": f.kll_merge_agg_bigint("integers", K),
        "doubles": f.kll_merge_agg_double("doubles", K),
    }
    whole = sketches.groupBy("table_id", "name", "type").agg(
        *[f.sum(name).alias(name) for name in ("events", "nulls", "changes")],
        *[merge.alias(name) for name, merge in merges.items()],
        *[f.count(name).alias(f"of_{name}") for name in merges],
        f.collect_list("texts").alias("texts"),
    )
    present = [f.when(f.col(f"of_{name}") > 0, f.col(name)).alias(name) for name in merges]
    return whole.select("table_id", "name", "type", "events", "nulls", "changes", *present, "texts")


def _pack_texts(batches: Batches) -> Batches:
    for batch in batches:
        *columns, lists = batch.columns
        named = zip(columns[2].to_pylist(), lists.to_pylist(), strict=True)
        packed = [_whole_sketch(name, texts).pack()[1] if texts else None for name, texts in named]
        yield pa.record_batch([*columns, pa.array(packed, pa.binary())], schema=_SKETCHES)


def _whole_sketch(type_name: str, texts: list[bytes]) -> Sketch:
    whole = Sketch(kind(type_name).arrow, is_counted=False)
    for packed in texts:
        whole.absorb(b"", packed)
    return whole


def merged_figures(sketches: DataFrame) -> DataFrame:
    """One row of `STATISTICS` for each column, from its sketches; the item is the column's name."""
    ranks = f.lit(np.arange(RANKS + 1) / RANKS)
    chosen = _merged(sketches).select(
        "table_id", "name", "type", "events", "nulls", "changes",
        f.coalesce(f.hll_sketch_estimate("distinct_values"), f.lit(0)).alias("distinct"),
        f.kll_sketch_get_quantile_bigint("integers", ranks).alias("of_integers"),
        f.kll_sketch_get_quantile_double("doubles", ranks).alias("of_doubles"),
        "texts",
    )  # fmt: skip
    return chosen.mapInArrow(_histograms, STATISTICS)


def _histograms(batches: Batches) -> Batches:
    for batch in batches:
        rows = []
        for *row, distinct, integers, doubles, texts in zip(
            *[c.to_pylist() for c in batch.columns], strict=True
        ):
            events, nulls = row[3], row[4]
            bounds, error = _bounds(row[2], events - nulls, integers or doubles, texts)
            shown = None if bounds is None else kind(row[2]).shown(bounds)
            rows.append((*row, float(distinct), *described(shown, error)))
        columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(_FIGURES)
        yield pa.record_batch(
            [pa.array(values, one.type) for values, one in zip(columns, _FIGURES, strict=True)],
            schema=_FIGURES,
        )


def _bounds(type_name: str, count: int, quantiles: list[Any] | None, texts: list[bytes]) -> tuple[Any, float]:
    """The quantiles of so many values at all `RANKS`, and the share by which their ranks can be wrong."""
    made = kind(type_name)
    if quantiles is not None:
        error = (RANK_ERROR if count > K else 0) + 1 / count
        numbers = pa.array(quantiles, pa.int32() if type_name == "date" else None)
        return numbers.cast(made.arrow), min(1.0, error)
    found = _whole_sketch(type_name, texts).histogram(RANKS) if texts else None
    return (None, 0.0) if found is None else found


def union(parts: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), parts)
