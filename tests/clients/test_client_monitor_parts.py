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
from prosem_client import AsyncClient, NotMonitorable, ProsemError, UpdateMonitor, fold
from prosem_client.conditions import condition
from prosem_client.coverage import Aim, Coverage
from prosem_client.forecast import History
from prosem_client.held import End, HeldRows, Limit, Limits
from prosem_client.monitor import Widening
from prosem_client.registration import registration
from prosem_client.scales import Scale, scale
from prosem_client.spline import Spline
from prosem_client.values import encode

from prosem.language.extents import extent
from prosem.language.parse import parse
from prosem.language.syntax import Atom, ColumnName, Parameter
from prosem.values.columns import column_type
from prosem.values.errors import InputError
from prosem.values.model import Column
from prosem.values.wire import decode_exact
from tests.support.effort import examples
from tests.support.monitored import CASES, SQL, TABLE, by_key, scan


# -- which queries: the cases are those of the JavaScript client too ------------------------------------------
@pytest.mark.parametrize("case", CASES["registrations"], ids=lambda case: case["where"])
def test_the_ends_of_a_range(case: dict[str, Any]) -> None:
    start = "SELECT * FROM t WHERE "
    made = registration(condition(start + case["where"]), CASES["table"])
    assert made.sql == start + (case["registered"] or case["where"])
    assert [list(limit.end) for limit in made.limits] == case["ends"]


@pytest.mark.parametrize(("sql", "word"), CASES["refused"])
async def test_a_query_that_cannot_be_checked_is_refused(sql: str, word: str) -> None:
    async with AsyncClient("http://127.0.0.1:9") as client:
        with pytest.raises(NotMonitorable, match=word):
            client.subscribe(sql, monitor=UpdateMonitor())
        with pytest.raises(NotMonitorable, match="notification"):
            client.subscribe(SQL, notify={"change": 1}, monitor=UpdateMonitor())


@pytest.mark.parametrize(("sql", "word"), CASES["unforetellable"])
def test_a_range_that_cannot_be_foretold_is_refused(sql: str, word: str) -> None:
    with pytest.raises(NotMonitorable, match=word):
        registration(condition(sql), CASES["table"])


@pytest.mark.parametrize("case", CASES["values"], ids=lambda case: f"{case['where']} {case['params']}")
def test_the_parameters_that_are_registered(case: dict[str, Any]) -> None:
    """Also held against the server's own reading of both texts."""
    made = registration(condition(f"SELECT * FROM t WHERE {case['where']}"), CASES["table"])
    if "at" in case:
        with pytest.raises(ProsemError) as refused:
            made.exact(case["params"])
        assert (refused.value.status, refused.value.errors[0]["at"]) == (422, case["at"])
        with pytest.raises(InputError) as caught:
            _extents(f"SELECT * FROM t WHERE {case['where']}", case["params"])
        assert caught.value.at == case["at"]
        return
    registered = made.exact(case["params"])
    assert encode(registered) == encode(case["registered"])
    expected = _extents(f"SELECT * FROM t WHERE {case['where']}", case["params"])
    assert _extents(made.sql, registered) == expected


def _extents(sql: str, params: dict[str, Any]) -> dict[str, Any]:
    """What the conditions of a text admit of each column, by the server's language."""
    sent = decode_exact(encode(params).encode())
    types = {column["name"]: column_type(column["type"]) for column in CASES["table"]["columns"]}
    (atoms,) = parse(sql).where
    found: dict[str, Any] = {}
    for atom in atoms:
        name = atom.column.name
        one = extent(atom, Column(name, types[name]), sent)
        found[name] = one & found[name] if name in found else one
    return found


# -- arithmetic: as the server computes it -------------------------------------------------------------------
_LITERALS = st.sampled_from(["0", "1", "2", "7", "0.5", "1.25", "10.0", "3"])
_TERMS = st.recursive(
    st.sampled_from([":a", ":b", ":c"]) | _LITERALS,
    lambda part: (
        st.tuples(part, st.sampled_from(["+", "-", "*", "/"]), part).map(" ".join)
        | part.map(lambda text: f"({text})")
        | part.map(lambda text: f"- {text}")
    ),
    max_leaves=6,
)
_OPERANDS = st.none() | st.integers(-9, 9) | st.integers(-30, 30).map(lambda n: n / 4)


@pytest.mark.parametrize("type", ["integer", "bigint", "double precision", "numeric(6,2)", "numeric(30,1)"])
@given(data=st.data(), term=_TERMS.filter(lambda text: ":" in text))
@settings(max_examples=examples(80), deadline=None)
def test_arithmetic_is_the_servers(type: str, data: st.DataObject, term: str) -> None:
    """The registered text admits what the user's text admits, and the client admits the same rows."""
    sign = data.draw(st.sampled_from(["<", "<=", ">", ">=", "="]))
    operands = _OPERANDS | (
        st.sampled_from(["1.5", "-2", "0.10"]) if type.startswith("numeric") else _OPERANDS
    )
    params = {name: data.draw(operands) for name in "abc"}
    sql = f"SELECT * FROM t WHERE x {sign} {term} AND s IN (:a, :b, :c)"
    table = {"columns": [{"name": "x", "type": type}, {"name": "s", "type": "text"}], "primary_key": ["x"]}
    made = registration(condition(sql), table)
    kind, sent = Column("x", column_type(type)), decode_exact(encode(params).encode())
    atom = next(atom for atom in parse(sql).where[0] if atom.column.name == "x")
    try:
        registered = made.exact(params)
    except ProsemError:
        with pytest.raises(InputError):
            extent(atom, kind, sent)
        return
    expected = extent(atom, kind, sent)
    given_back = decode_exact(encode(registered).encode())
    found = [extent(one, kind, given_back) for one in parse(made.sql).where[0] if one.column.name == "x"]
    constants = made.limits.constants(registered)
    for unit in range(-40, 41):
        value = {"integer": unit, "bigint": unit, "double precision": unit / 4}.get(type, f"{unit / 10:.1f}")
        code = kind.type.code(kind.type.read(value))
        assert all(code in one for one in found) == (code in expected), (registered, value)
        assert made.limits.admit(made.limits.places({"x": value}), constants) == (code in expected)


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
@settings(max_examples=examples(60), deadline=None)
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


@pytest.mark.parametrize(("type", "sign", "value", "param", "admits"), CASES["comparisons"])
def test_comparisons_of_the_cases(type: str, sign: str, value: Any, param: Any, admits: bool | None) -> None:
    """Held against the server, as the JavaScript client holds them against what is written."""
    atom, kind = Atom(ColumnName("x"), sign, (Parameter("p"),)), column_type(type)
    limit = Limit(End("x", "p", sign[0] == ">", len(sign) == 1), _scale(type))
    sent = decode_exact(encode({"p": param}).encode())
    if admits is None:
        with pytest.raises(ValueError):  # noqa: PT011 (of any kind)
            limit.constant({"p": param})
        with pytest.raises(InputError):
            extent(atom, Column("x", kind), sent)
        return
    limits = Limits([limit])
    assert limits.admit(limits.places({"x": value}), limits.constants({"p": param})) == admits
    code = None if value is None else kind.code(kind.read(value))
    assert (code in extent(atom, Column("x", kind), sent)) == admits


@pytest.mark.parametrize(("type", "place", "upward", "value"), CASES["beyond"])
def test_wider_ends_of_the_cases(type: str, place: float, upward: bool, value: Any) -> None:
    assert encode(_scale(type).beyond(place, upward)) == encode(value)


def _scale(type: str) -> Scale:
    found = scale(type)
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES["forecasts"], ids=lambda case: case["name"])
def test_forecasts_of_the_cases(case: dict[str, Any]) -> None:
    found = history(case["values"], case["rate_hz"])
    assert found.frequency((len(case["values"]) - 1) / case["rate_hz"]) == case["frequency"]
    assert found.span == case["span"]
    band = found.band()
    assert (band is None) == (case["band"] is None)
    assert band is None or band == pytest.approx(case["band"], abs=1e-6)


# -- the curve -----------------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.floats(0.01, 3), st.floats(-100, 100)), min_size=2, max_size=12))
@settings(max_examples=examples(80), deadline=None)
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
    return registration(condition(sql), TABLE).limits


TWO_ENDS = "SELECT * FROM t WHERE x > :lo AND x < :hi AND k <= :most"


@given(data=st.data(), sql=st.sampled_from([SQL, TWO_ENDS]))
@settings(max_examples=examples(150), deadline=None)
def test_held_rows_are_those_of_a_scan(data: st.DataObject, sql: str) -> None:
    limits = limits_for(sql)
    ends = tuple(limit.end for limit in limits)
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
