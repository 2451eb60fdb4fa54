"""Forms of joins and exact histograms, for tests of how statistics arrange a join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from prosem.language.parse import parse
from prosem.types.join.form import JoinForm
from prosem.types.registry import recognise
from prosem.values.model import Table
from prosem.values.statistics import HotKey


def join_form(sql: str, tables: Mapping[str, Table]) -> JoinForm:
    query = parse(sql)
    made = recognise(query, [tables[name] for name in query.tables], None)
    assert isinstance(made, JoinForm)
    return made


def bounds(values: list[Any], buckets: int = 64) -> list[Any]:
    """An exact equi-depth histogram."""
    order = sorted(values)
    return [order[min(len(order) - 1, len(order) * at // buckets)] for at in range(buckets + 1)]


def hot(values: list[Any]) -> list[HotKey]:
    """The values that are more frequent than one in a hundred, exactly; none that is there but a few times."""
    some = [HotKey(value, count / len(values)) for value, count in Counter(values).items() if count > 3]
    return [one for one in some if one.share > 0.01]
