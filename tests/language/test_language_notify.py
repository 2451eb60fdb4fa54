"""The shape of `notify`."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from prosem.language.notify import check_notify, duration, radius_names, sizes_of
from prosem.values.errors import InputError


@pytest.mark.parametrize(
    "notify",
    [
        None,
        {"change": 1},
        {"change": 0.5},
        {"change": Decimal("0.01")},
        {"change": "2.5"},
        {"change": "P3D"},
        {"percent": 25},
        {"factor": 1.0001},
        {"may": 1, "must": 1},
        {"may": "PT1H", "must": "P1D"},
        {"change": ":r"},
        {"factor": ":much_more"},
        {"may": ":r", "must": 1},
    ],
)
def test_accepted(notify: Any) -> None:
    assert check_notify(notify) is notify


@pytest.mark.parametrize(
    ("notify", "at"),
    [
        (7, "/notify"),
        ([], "/notify"),
        ("change", "/notify"),
        ({}, "/notify"),
        ({"nosuch": 1}, "/notify/nosuch"),
        ({"change": 1, "percent": 2}, "/notify"),
        ({"may": 1}, "/notify"),
        ({"change": -1}, "/notify/change"),
        ({"change": 0}, "/notify/change"),
        ({"change": "x"}, "/notify/change"),
        ({"change": ""}, "/notify/change"),
        ({"change": True}, "/notify/change"),
        ({"change": None}, "/notify/change"),
        ({"change": [1]}, "/notify/change"),
        ({"change": "P1M"}, "/notify/change"),
        ({"change": "P0D"}, "/notify/change"),
        ({"change": "NaN"}, "/notify/change"),
        ({"change": float("inf")}, "/notify/change"),
        ({"change": "1e99999999"}, "/notify/change"),
        ({"change": "9" * 100_000}, "/notify/change"),
        ({"percent": -5}, "/notify/percent"),
        ({"percent": "P1D"}, "/notify/percent"),
        ({"factor": 1}, "/notify/factor"),
        ({"factor": 0.5}, "/notify/factor"),
        ({"may": 2, "must": 1}, "/notify/must"),
        ({"may": 0, "must": 1}, "/notify/may"),
        ({"may": 1, "must": "P1D"}, "/notify/must"),
        ({"may": "P2D", "must": "PT47H"}, "/notify/must"),
        ({"change": ":"}, "/notify/change"),
        ({"change": ":1"}, "/notify/change"),
        ({"change": ": r"}, "/notify/change"),
        ({"change": "r"}, "/notify/change"),
        ({"change": ":prosem_1"}, "/notify"),
        ({"may": ":r", "must": 0}, "/notify/must"),
    ],
)
def test_refused(notify: Any, at: str) -> None:
    with pytest.raises(InputError) as caught:
        check_notify(notify)
    assert caught.value.at == at


def test_radii_may_be_parameters() -> None:
    notify = {"may": ":r", "must": 5}
    assert radius_names(notify) == {"r"}
    assert radius_names(None) == radius_names({"change": "P1D"}) == frozenset()
    assert sizes_of(notify, {"r": "2.5"}) == {"may": ("2.5", "/params/r"), "must": (5, "/notify/must")}


@pytest.mark.parametrize(
    ("notify", "params", "at"),
    [
        ({"change": ":r"}, {"r": 0}, "/params/r"),
        ({"change": ":r"}, {"r": -1}, "/params/r"),
        ({"change": ":r"}, {"r": "far"}, "/params/r"),
        ({"change": ":r"}, {"r": ":r"}, "/params/r"),
        ({"change": ":r"}, {"r": None}, "/params/r"),
        ({"change": ":r"}, {"r": True}, "/params/r"),
        ({"change": ":r"}, {"r": [1]}, "/params/r"),
        ({"change": ":r"}, {"r": "P1M"}, "/params/r"),
        ({"change": ":r"}, {"r": "P0D"}, "/params/r"),
        ({"percent": ":r"}, {"r": "P1D"}, "/params/r"),
        ({"factor": ":f"}, {"f": 1}, "/params/f"),
        ({"factor": ":f"}, {"f": Decimal("0.5")}, "/params/f"),
        ({"may": ":r", "must": ":s"}, {"r": 2, "s": 1}, "/params/s"),
        ({"may": ":r", "must": 1}, {"r": 2}, "/params/r"),
        ({"may": ":r", "must": 1}, {"r": "P1D"}, "/params/r"),
        ({"may": 2, "must": ":s"}, {"s": 1}, "/params/s"),
    ],
)
def test_refused_parameters(notify: Any, params: Any, at: str) -> None:
    with pytest.raises(InputError) as caught:
        sizes_of(notify, params)
    assert caught.value.at == at


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("P3D", timedelta(days=3)),
        ("P1W", timedelta(weeks=1)),
        ("PT1H", timedelta(hours=1)),
        ("PT90M", timedelta(minutes=90)),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("PT0,25S", timedelta(milliseconds=250)),
    ],
)
def test_durations(text: str, length: timedelta) -> None:
    assert duration(text) == length


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("P1M", "months"),
        ("P1Y2D", "months"),
        ("P", "ISO"),
        ("PT", "ISO"),
        ("P1DT", "ISO"),
        ("P1H", "ISO"),
        ("-P1D", "ISO"),
        ("P1D ", "ISO"),
        ("1 day", "ISO"),
        ("P" + "9" * 50 + "D", "too long"),
    ],
)
def test_wrong_durations(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        duration(text)
