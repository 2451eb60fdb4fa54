"""The parts of the update monitor, held against brute force and against the server's own codes."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prosem_client import AsyncClient, NotMonitorable, UpdateMonitor, fold
from prosem_client.conditions import End, condition
from prosem_client.coverage import Aim, Coverage
from prosem_client.forecast import History
from prosem_client.held import HeldRows, Limit, Limits
from prosem_client.monitor import Widening, limits_of
from prosem_client.scales import scale
from prosem_client.spline import Spline
from prosem_client.values import encode

from prosem.language.extents import extent
from prosem.language.syntax import Atom, ColumnName, Parameter
from prosem.values.columns import column_type
from prosem.values.model import Column
from prosem.values.wire import decode_exact
from tests.support.monitored import SQL, TABLE, by_key, scan


# -- which queries -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("x BETWEEN :lo AND :hi", [("x", "lo", True, False), ("x", "hi", False, False)]),
        ("x >= :lo AND x < :hi", [("x", "lo", True, False), ("x", "hi", False, True)]),
        (":lo < x AND s = :s", [("x", "lo", True, True)]),
        ("(t.x > :a AND (x <= :b))", [("x", "a", True, True), ("x", "b", False, False)]),
        ("y BETWEEN 3 AND :c AND s LIKE 'a%'", [("y", "c", False, False)]),
        ('"My X" >= :lo AND (x = 1 OR y > :y)', [("My X", "lo", True, False)]),
        ("s = 'a AND x > :no' AND x > :a -- AND x < :b", [("x", "a", True, True)]),
        ("x > :twice AND y < :twice AND y > :once", [("y", "once", True, True)]),
        ("NOT x > :a AND y > :b", [("y", "b", True, True)]),
        ("x BETWEEN :pos - :reach AND :hi", [("x", "hi", False, False)]),
        ("y BETWEEN 1 AND 2 AND x > :a", [("x", "a", True, True)]),
        ("d >= :from_day::date AND x > :a", [("x", "a", True, True)]),
    ],
)  # fmt: skip
def test_the_ends_of_a_range(where: str, expected: list[tuple[str, str, bool, bool]]) -> None:
    assert list(condition(f"SELECT * FROM t WHERE {where}").ends) == [End(*end) for end in expected]


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT MIN(x) FROM t WHERE x BETWEEN :lo AND :hi", "aggregate"),
        ("SELECT DISTINCT s FROM t WHERE x > :lo", "distinct"),
        ("SELECT * FROM t JOIN u USING (k) WHERE x > :lo", "join"),
        ("SELECT * FROM t WHERE x > :lo OR s = 'a'", "OR"),
        ("SELECT * FROM t WHERE x BETWEEN :pos - :reach AND :pos + :reach", "arithmetic"),
        ("SELECT * FROM t WHERE x = :x", "BETWEEN"),
        ("SELECT * FROM t", "range"),
        ("SELECT x FROM t WHERE x > :lo", "value notification"),
    ],
)
async def test_a_query_that_cannot_be_checked_is_refused(sql: str, word: str) -> None:
    async with AsyncClient("http://127.0.0.1:9") as client:
        with pytest.raises(NotMonitorable, match=word):
            client.subscribe(sql, monitor=UpdateMonitor())
        with pytest.raises(NotMonitorable, match="notification"):
            client.subscribe(SQL, notify={"change": 1}, monitor=UpdateMonitor())


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT * FROM t WHERE s > :lo", "numbers or times"),
        ("SELECT * FROM t WHERE nonsense > :lo", "no such column"),
        ("SELECT k, s FROM t WHERE x > :lo", "needs x"),
        ("SELECT x, s FROM t WHERE x > :lo", "needs k"),
    ],
)
def test_a_range_that_cannot_be_foretold_is_refused(sql: str, word: str) -> None:
    with pytest.raises(NotMonitorable, match=word):
        limits_of(condition(sql), TABLE)


def test_a_monitor_needs_sensible_settings() -> None:
    for bad in ({"frequency_hz": 0}, {"window_s": -1.0}, {"margin": -0.1}):
        with pytest.raises(ValueError, match="needs"):
            UpdateMonitor(**bad)


# -- comparing as the server does ----------------------------------------------------------------------------
_WHOLE = st.integers(-5, 5) | st.integers(-(2**70), 2**70)
_TENTHS = st.integers(-60, 60).map(lambda n: n / 10)
_DAYS = st.integers(-40, 40).map(lambda n: (date(2024, 1, 1) + timedelta(days=n)).isoformat())
_MOMENTS = st.integers(-9, 9).map(lambda n: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=n))
_ODD = st.sampled_from(
    [
        True,
        "abc",
        "",
        "NaN",
        "2024-13-01",
        "2024-01-01",
        "1e3",
        "0x1",
        float("1e300"),
        Decimal("1.5"),
        date(2024, 1, 1),
        [1],
    ]
)
_TEXTS = st.sampled_from(["1.005", " 2 ", "-0.5", Decimal("0.10"), "9" * 40])
_LOCAL = _MOMENTS.map(lambda m: m.isoformat()[:-6]) | st.sampled_from(
    ["2024-01-01", "2024-01-01T01:00:00+01:00"]
)
_CASES: dict[str, tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]]] = {
    "integer": (st.integers(-6, 6), _WHOLE | _TENTHS),
    "bigint": (st.integers(-(2**63), 2**63 - 1) | st.integers(-6, 6), _WHOLE | _TENTHS),
    "double precision": (_TENTHS | st.sampled_from([0.0, -0.0, 1e300, 2.0**53]), _WHOLE | _TENTHS | st.just(2**53 + 1)),
    "numeric(6,2)": (st.integers(-600, 600).map(lambda n: f"{n / 100:.2f}"), _WHOLE | _TENTHS | _TEXTS),
    "date": (_DAYS, _DAYS | st.just(date(2024, 1, 1))),
    "timestamptz": (_MOMENTS.map(datetime.isoformat), _MOMENTS | _LOCAL),
}  # fmt: skip


@pytest.mark.parametrize("type", sorted(_CASES))
@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_comparison_is_the_servers(type: str, sign: str, data: st.DataObject) -> None:
    values, params = _CASES[type]
    value = data.draw(st.none() | values)
    given_param = data.draw(st.none() | params | _ODD)
    sent = decode_exact(encode({"p": given_param}).encode())  # as it reaches the server
    kind, found = column_type(type), scale(type)
    assert found is not None
    limit = Limit(End("x", "p", sign[0] == ">", len(sign) == 1), found)
    atom = Atom(ColumnName("x"), sign, (Parameter("p"),))
    try:
        constant = Limits([limit]).constants({"p": given_param})
    except ValueError:
        with pytest.raises(Exception, match="p"):  # the server refuses it too
            extent(atom, Column("x", kind), sent)
        return
    code = None if value is None else kind.code(kind.read(decode_exact(encode({"v": value}).encode())["v"]))
    expected = code in extent(atom, Column("x", kind), sent)
    limits = Limits([limit])
    assert limits.admit(limits.places({"x": value}), constant) == expected, (value, sign, given_param)


@pytest.mark.parametrize("type", sorted(_CASES))
@given(place=st.floats(-1e17, 1e17), upward=st.booleans())
def test_a_wider_end_lies_beyond(type: str, place: float, upward: bool) -> None:
    found = scale(type)
    assert found is not None
    value = found.beyond(place, upward)
    column_type(type).constant(decode_exact(encode({"v": value}).encode())["v"])
    there = found.constant(value)
    is_clamped = type in ("date", "timestamptz")
    assert is_clamped or (there >= place if upward else there <= place)
    assert is_clamped or abs(float(there) - place) <= 1 + abs(place) * 1e-15


# -- the curve -----------------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.floats(0.01, 3), st.floats(-100, 100)), min_size=2, max_size=12))
@settings(max_examples=80, deadline=None)
def test_a_spline_is_smooth_and_its_extremes_bound_it(steps: list[tuple[float, float]]) -> None:
    times, now = [], 0.0
    for width, _ in steps:
        now += width
        times.append(now)
    curve = Spline(times, [value for _, value in steps])
    curve.check()
    low, high = curve.extremes()
    samples = [curve.at(times[0] + (times[-1] - times[0]) * at / 500) for at in range(501)]
    assert low - 1e-6 <= min(samples)
    assert max(samples) <= high + 1e-6
    assert low in {*curve.values} or any(math.isclose(low, curve.at(at)) for at in curve.turning_points())


def test_a_spline_follows_a_smooth_function() -> None:
    times = [at / 4 for at in range(41)]
    curve = Spline(times, [math.sin(time) for time in times])
    assert max(abs(curve.at(at / 100) - math.sin(at / 100)) for at in range(100, 900)) < 1e-3
    turns = curve.turning_points()
    assert [round(turn, 2) for turn in turns] == [round(math.pi * (n + 0.5), 2) for n in range(3)]
    for bad in ([0.0], [0.0, 0.0]):
        with pytest.raises(ValueError, match="spline"):
            Spline(bad, [1.0] * len(bad))


def history(values: list[float], rate: float = 100.0) -> History:
    found = History(window_s=1.0)
    for at, value in enumerate(values):
        found.record(at / rate, value)
        found.check()
    return found


def test_a_trend_is_carried_on_and_an_oscillation_bounded() -> None:
    dice = random.Random(1)
    low, high = history([3.0 * at for at in range(100)]).band() or (0, 0)
    assert low == pytest.approx(297, abs=1)
    assert high == pytest.approx(597, abs=5)
    low, high = history([-3.0 * at + dice.uniform(-2, 2) for at in range(100)]).band() or (0, 0)
    assert -700 < low < -500
    assert -300 < high < -280
    for period in (5, 20, 50):
        low, high = history([10 * math.sin(2 * math.pi * at / period) for at in range(100)]).band() or (0, 0)
        assert -25 < low < -9
        assert 9 < high < 25
    low, high = history([5.0 if at % 2 else -5.0 for at in range(60)]).band() or (0, 0)
    assert low <= -5
    assert high >= 5
    jump = history([0.0] * 50 + [1000.0]).band() or (0, 0)
    assert jump[0] >= -1001
    assert jump[1] <= 4000
    assert history([1.0, 2.0, 3.0]).band() is None


def test_frequency_counts_within_the_window() -> None:
    found = history([float(at) for at in range(300)])
    assert found.frequency(2.99) == pytest.approx(101, abs=1)
    assert found.frequency(3.49) == pytest.approx(51, abs=1)
    assert found.frequency(9.0) == 0
    found.record(9.0, 1.0)
    found.record(9.0, 2.0)
    assert len(found) == 1


# -- rows at hand --------------------------------------------------------------------------------------------
def limits_for(sql: str = SQL) -> Limits:
    return limits_of(condition(sql), TABLE)


TWO_ENDS = "SELECT * FROM t WHERE x > :lo AND x < :hi AND k <= :most"


@given(data=st.data(), sql=st.sampled_from([SQL, TWO_ENDS]))
@settings(max_examples=150, deadline=None)
def test_held_rows_are_those_of_a_scan(data: st.DataObject, sql: str) -> None:
    limits, ends = limits_for(sql), condition(sql).ends
    xs, constant = st.none() | st.integers(0, 9), st.none() | st.integers(-1, 10)
    rows: dict[int, dict[str, Any]] = {
        k: {"k": k, "x": data.draw(xs)} for k in range(data.draw(st.integers(0, 5)))
    }
    params = {end.parameter: data.draw(constant) for end in ends}
    held = HeldRows(limits, ("k",), list(rows.values()), limits.constants(params))
    told = held.result()
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            params = {
                **params,
                data.draw(st.sampled_from([end.parameter for end in ends])): data.draw(constant),
            }
            held.show(limits.constants(params))
        else:
            k = data.draw(st.integers(0, 7))
            row = {"k": k, "x": data.draw(xs)}
            if k not in rows:
                held.apply({"add": [row]})
                rows[k] = row
            elif data.draw(st.booleans()):
                held.apply({"update": [row]})
                rows[k] = row
            else:
                held.apply({"remove": [{"k": k}]})
                del rows[k]
        held.check()
        if data.draw(st.booleans()):
            change = held.take()
            if change is not None:
                after = fold(told, change, key=("k",))
                assert by_key(after) != by_key(told), "a change that changes nothing"
                told = after
            assert by_key(told) == by_key(held.result()) == scan(rows, ends, params)


def test_coverage_while_an_answer_is_outstanding() -> None:
    def covers(wide: dict[str, Any], exact: dict[str, Any]) -> bool:
        return bool(wide["lo"] <= exact["lo"] and exact["hi"] <= wide["hi"])

    def span(lo: int, hi: int) -> dict[str, Any]:
        return {"lo": lo, "hi": hi}

    coverage = Coverage(covers, span(0, 10))
    step = coverage.begin(span(5, 20), Aim(1, span(6, 12)))
    assert not coverage.holds(span(2, 8)), "a frame may come from either range"
    assert coverage.holds(span(5, 10))
    assert coverage.must_wait(span(2, 8))
    assert not coverage.must_wait(span(6, 9))
    step.seq = 7
    assert coverage.holds(span(2, 8)), "it is known to be ahead"
    assert coverage.arrive(6) is None
    assert coverage.arrive(7) is step
    assert coverage.holds(span(6, 12))
    lost = coverage.begin(span(100, 200), Aim(1, span(100, 200)))
    again = coverage.begin(span(5, 30), Aim(1, span(6, 12)))
    again.seq = 9
    assert not coverage.holds(span(6, 12)), "the lost one may be in force until the next one is"
    assert not coverage.must_wait(span(6, 12))
    coverage.check()
    assert coverage.arrive(9) is again
    assert coverage.at_server == span(5, 30)
    assert lost.seq is None
    asleep = coverage.begin(span(5, 30), Aim(2, span(6, 12)), is_active=False)
    asleep.seq = 10
    assert coverage.holds(span(6, 12))
    coverage.arrive(10)
    assert not coverage.holds(span(6, 12)), "nothing is told of what happens from here on"
    awake = coverage.begin(span(5, 30), Aim(2, span(6, 12)))
    awake.seq = 12
    coverage.arrive(12)
    refused = coverage.begin(span(0, 1), Aim(1, span(0, 1)))
    coverage.refuse(refused)
    assert coverage.holds(span(6, 12))


def test_a_range_is_widened_only_where_it_moves_often() -> None:
    widening = Widening(UpdateMonitor(frequency_hz=10, window_s=1.0, margin=0.0), limits_for())
    for at in range(30):
        params = {"lo": 0, "hi": 10 * at}
        widening.record(at / 30, params)
        if at < 5:
            assert widening.widen(at / 30, params) == params, "not often enough yet"
    wide = widening.widen(29 / 30, params)
    assert wide["lo"] == 0
    assert 290 + 250 < wide["hi"] <= 290 + 600
    assert widening.covers(wide, params)
    assert not widening.covers(params, wide)
    assert not widening.covers({**wide, "other": 1}, {**params, "other": True})
    assert widening.widen(5.0, params) == params, "it has come to rest"
