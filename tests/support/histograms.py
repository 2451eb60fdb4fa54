"""The check of a histogram against all values."""

from __future__ import annotations

import bisect
from collections import Counter
from typing import Any

from pipeline.statistics.histograms import HOT_KEYS, RANKS
from prosem.values.columns import column_type


def check_histogram(name: str, values: list[Any], bounds: list[Any], error: float) -> None:
    """Against all values in the order of their codes: the ends are exact, the others within the stated error."""
    made = column_type(name)
    codes: list[Any] = sorted(made.code(made.read(value)) for value in values)
    found: list[Any] = [made.code(made.read(bound)) for bound in bounds]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (codes[0], codes[-1])
    for at, code in enumerate(found):
        rank, slack = at * len(codes) / (len(found) - 1), error * len(codes) + 1e-6
        assert bisect.bisect_left(codes, code) <= rank + slack
        assert bisect.bisect_right(codes, code) >= rank - slack


def check_hot_keys(values: list[Any], found: list[tuple[Any, float]], error: float) -> None:
    """The most frequent values are there, each with about the share that it has, and no other that is not frequent.

    `values` and `found` are as the API shows them; `error` is that of a rank.
    """
    slack = 2 * error + 1 / RANKS
    exact = {value: count / len(values) for value, count in Counter(values).items()}
    for value, share in found:
        assert abs(share - exact[value]) <= slack, (value, share, exact[value])
    left = min((share for _, share in found), default=0.0) if len(found) == HOT_KEYS else 2 * error
    missing = exact.keys() - {value for value, _ in found}
    assert all(exact[value] <= left + 2 * slack for value in missing)
