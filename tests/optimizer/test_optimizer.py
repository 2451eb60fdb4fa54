"""The optimizer without a server: estimates against brute force, and which plan is taken when and why."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.match.point_index import PointIndex
from cn.model.geometry import EVERYTHING, Box, Interval, contains
from optimizer.choose import SETTLED, Chooser, Training, chooser
from optimizer.cost import REFERENCE, STRAIGHT, TREE, Carriage, Weights, calibrated, carried, prior
from optimizer.estimate import NEAREST, REACH, SOFT, Estimator, Neighbours, medians
from optimizer.known import FREE_NS, LOOKING
from optimizer.plan import METRICS, Descriptor, Estimate
from optimizer.sketch import Sketch

_cells = st.tuples(*[st.integers(0, 6)] * 3)
_estimates = st.builds(Estimate, *[st.integers(0, 1000).map(float)] * 5)
_entries = st.lists(st.tuples(_cells, _estimates), max_size=60)


# -- estimates ---------------------------------------------------------------------------------------------
def slow_estimate(entries: Sequence[tuple[Descriptor, Estimate]], wanted: Descriptor) -> list[Estimate]:
    """Every estimate the rule allows: where cells are equally far, any of them may be among the nearest."""
    cells: dict[Descriptor, list[Estimate]] = {}
    for descriptor, estimate in entries:
        cells.setdefault(descriptor, []).append(estimate)

    def distance(cell: Descriptor) -> float:
        return sum((a - b) ** 2 for a, b in zip(cell, wanted, strict=True))

    order = sorted(cells, key=distance)
    if not order or distance(order[0]) > REACH:
        return []
    last = distance(order[:NEAREST][-1])
    sure = [cell for cell in order if distance(cell) < last]
    tied = [cell for cell in order if distance(cell) == last]
    first = distance(order[0])
    found = []
    for some in itertools.islice(itertools.combinations(tied, min(NEAREST, len(order)) - len(sure)), 3000):
        total, sums = 0.0, [0.0] * 5
        for cell in sure + list(some):
            if distance(cell) > max(1.0, 4 * first):
                continue
            weight = len(cells[cell]) / (SOFT + distance(cell)) ** 2
            total += weight
            for at, column in enumerate(zip(*cells[cell], strict=True)):
                sums[at] += weight * statistics.median_low(column)
        found.append(Estimate(*(value / total for value in sums)))
    return found


@given(_entries, _cells)
def test_the_nearest_neighbours_are_those_of_brute_force(
    entries: list[tuple[Descriptor, Estimate]], wanted: Descriptor
) -> None:
    index = Neighbours(entries)
    index.check()
    assert len(index) == len({descriptor for descriptor, _ in entries})
    found, allowed = index.estimate(wanted), slow_estimate(entries, wanted)
    if not allowed:
        assert found is None
    else:
        assert found is not None
        assert any(np.allclose(found, one) for one in allowed), (found, allowed[:3])


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 100)), min_size=1, max_size=50))
def test_medians_of_cells(rows: list[tuple[int, float]]) -> None:
    numbers, cells, counts = np.unique([cell for cell, _ in rows], return_inverse=True, return_counts=True)
    found = medians(np.array([[value, -value] for _, value in rows]), cells, counts)
    for number, (one, other) in zip(numbers, found, strict=True):
        values = [value for cell, value in rows if cell == number]
        assert one == statistics.median_low(values)
        assert other == statistics.median_low([-value for value in values])


def test_an_estimator_is_bounded_and_forgets_the_oldest() -> None:
    estimator = Estimator(limit=40)
    for at in range(200):
        estimator.learn((at, 0), Estimate(at, 0, 0, 0, 0))
    assert len(estimator) == 40
    assert estimator.index.estimate((0, 0)) is None, "the old ones are gone"
    newest = estimator.index.estimate((190, 0))
    assert newest is not None
    assert abs(newest.server_time - 190) < 2
    assert estimator.index.estimate((190,)) is None, "a descriptor of another kind resembles nothing"


# -- the picture of a space --------------------------------------------------------------------------------
def text(number: int) -> str:
    return f"{number:06}"


@pytest.mark.parametrize("code", [int, text], ids=["integers", "texts"])
def test_the_histogram_knows_about_how_many_are_in_a_box(code: Any) -> None:
    chance = random.Random(3)
    points = [
        (code(lo), code(lo + chance.randrange(1, 4000)))
        for lo in (chance.randrange(100_000) for _ in range(5000))
    ]
    sketch = Sketch(points[:1024], 2, len(points))
    for _ in range(100):
        x, reach = chance.randrange(100_000), chance.randrange(500, 40_000)
        box: Box = (Interval(code(max(0, x - reach)), code(x)), Interval(code(x), code(x + reach)))
        true = sum(contains((box,), point) for point in points)
        assert abs(len(points) * sketch.share(sketch.hull([box])) - true) < 0.3 * true + 150
    everything: Box = (EVERYTHING, EVERYTHING)
    assert sketch.share(sketch.hull([everything])) == 1.0


@given(st.lists(st.tuples(*[st.integers(0, 60)] * 4), min_size=1, max_size=80), st.data())
def test_ranges_that_reach_between_two_codes(ends: list[tuple[int, ...]], data: st.DataObject) -> None:
    """Of the sample each range is estimated exactly; several are taken as independent."""
    points = [(min(a, b), max(a, b), min(c, d), max(c, d)) for a, b, c, d in ends]
    sketch = Sketch(points, 4)
    shares = []
    for low in (0, 2):
        first, last = sorted(data.draw(st.tuples(st.integers(-5, 65), st.integers(-5, 65))))
        reached = sum(point[low] <= last and point[low + 1] >= first for point in points)
        found = sketch.reaching([(low, low + 1, first, last)])
        assert found == pytest.approx(reached / len(points))
        shares.append((found, (low, low + 1, first, last)))
    assert sketch.reaching([one for _, one in shares]) == pytest.approx(shares[0][0] * shares[1][0])


@given(st.lists(st.tuples(*[st.integers(0, 50)] * 2), min_size=1, max_size=80), st.data())
def test_both_ways_to_a_descriptor_agree(points: list[tuple[int, int]], data: st.DataObject) -> None:
    sketch = Sketch(points, 2)
    ends = st.none() | st.integers(-5, 55)
    box: Box = tuple(Interval(data.draw(ends), data.draw(ends)) for _ in range(2))
    short = sketch.descriptor([(b"", (box,))], 100)
    long = sketch.descriptor([(b"", (box, box))], 100)
    assert len(short) == len(long) == 7
    assert short[2:] == long[2:], "the same hull"
    assert (short[:2], long[:2]) == ((1, 1), (1, 2))
    assert sketch.descriptor([], 0) == (0, 0, 0, 0, 0, 0, 0)


@given(st.lists(st.integers(0, 30), max_size=120), st.integers(1, 50))
def test_a_sample_of_points(codes: list[int], count: int) -> None:
    index = PointIndex(1, True, block_size=8)
    for at, code in enumerate(codes):
        index.insert(at, b"x" if code % 2 else b"y", (code,))
    sample = index.thinned(count)
    assert set(sample) <= {(code,) for code in codes}
    if codes:
        step = max(1, len(codes) // count)
        assert abs(len(sample) - len(codes) / step) <= 1, "evenly from the order"
    assert index.population(b"x") == sum(code % 2 for code in codes)
    assert index.population(b"nobody") == 0


# -- choices -----------------------------------------------------------------------------------------------
class Space:
    """Two plans; a description is its own descriptor, and `holds` many subscriptions are expected in it."""

    def __init__(
        self, number: int = 1, holds: float = 10, plans: tuple[str, ...] = ("reformulate", "enumerate")
    ) -> None:
        self.network, self.plans, self.holds = SimpleNamespace(id=number), plans, holds

    def descriptor(self, description: Any) -> Descriptor:
        return (*description, 0)

    def expected(self, description: Any) -> float:
        return self.holds

    def affected(self, description: Any) -> int:
        return int(self.holds)


FEW, MANY = (1, 1), (1, 9)
CHEAP_FOR_THE_SERVER = Estimate(5, 4_000, 200, 9_000, 3)
CHEAP_FOR_THE_NETWORK = Estimate(30, 400, 900, 0, 3)


def training(space: int, *rows: tuple[str, Any, Estimate]) -> Training:
    plans: dict[str, list[Any]] = {}
    for plan, description, estimate in rows:
        plans.setdefault(plan, []).append(((*description, 0), estimate))
    return {space: plans}


def test_decisions_flip_with_the_weights() -> None:
    made, space = Chooser(share=0), Space()
    rows = (("reformulate", FEW, CHEAP_FOR_THE_SERVER), ("enumerate", FEW, CHEAP_FOR_THE_NETWORK))
    made.adopt(made.prepare(training(1, *rows)))
    winners = {}
    for metric in METRICS:
        made.weigh(Weights.of(dict.fromkeys(METRICS, 0.0) | {metric: 1.0}))
        winners[metric] = made.choose(space, FEW)
        choice = made.consider(space, FEW)
        assert {*choice.sources.values()} == {"measured"}
        assert choice.costs == {
            plan: pytest.approx(getattr(estimate, metric) / REFERENCE[metric]) for plan, _, estimate in rows
        }
    assert winners == {
        "server_time": "reformulate",
        "response_time": "enumerate",
        "server_stress": "reformulate",
        "bandwidth": "enumerate",
    }


def test_decisions_flip_with_the_statistics_and_back() -> None:
    made, space = Chooser(share=0), Space()
    dear, cheap = Estimate(100, 100, 900, 0, 3), Estimate(5, 5, 90, 0, 3)
    first = made.prepare(training(1, ("reformulate", FEW, dear), ("enumerate", FEW, cheap)))
    second = made.prepare(training(1, ("reformulate", FEW, cheap), ("enumerate", FEW, dear)))
    for run, wanted in ((first, "enumerate"), (second, "reformulate"), (first, "enumerate")):
        made.adopt(run)
        assert made.choose(space, FEW) == wanted


def test_a_run_flips_decisions_of_a_space_it_knows_nothing_of() -> None:
    """What it measured elsewhere says what a message costs on this machine."""
    made, space = Chooser(share=0), Space(number=2, holds=3)
    assert made.choose(space, FEW) == "reformulate"
    few, many = (
        Estimate(7, 7, 175, 0, 1),
        Estimate(1, 1, 12, 0, 3),
    )  # addressing takes a tenth of what is assumed
    cheap = training(1, ("reformulate", FEW, few), ("enumerate", FEW, many))
    for run, wanted in ((cheap, "enumerate"), ({}, "reformulate"), (cheap, "enumerate")):
        made.adopt(made.prepare(run))
        assert made.choose(space, FEW) == wanted
        assert {*made.consider(space, FEW).sources.values()} == {"histogram"}


def test_a_run_flips_the_order_of_spaces_that_nothing_was_measured_in() -> None:
    """The cheapest plan of each counts, per affected subscription."""
    made, spaces = Chooser(share=0), [Space(number=1), Space(number=2)]

    def order() -> list[int]:
        return [space.network.id for space in made.order(spaces)]

    slow, fast = Estimate(90, 90, 9, 0, 1), Estimate(100, 100, 9, 0, 50)
    first = training(1, ("reformulate", FEW, slow), ("enumerate", FEW, fast))
    second = training(2, ("reformulate", FEW, slow))
    assert order() == [1, 2]
    made.adopt(made.prepare(first | second, 5))
    assert order() == [1, 2]
    made.adopt(
        made.prepare(training(1, ("reformulate", FEW, slow)) | training(2, ("enumerate", FEW, fast)), 6)
    )
    assert order() == [2, 1]
    made.choose(spaces[0], FEW)
    assert order() == [2, 1], "also once a space is open"


def test_the_statistic_behind_a_choice_is_named() -> None:
    made, known, other = Chooser(share=0), Space(number=1), Space(number=2)
    cheap = Estimate(5, 5, 90, 0, 3)

    def named(space: Space) -> Any:
        found = made.statistics(space.network.id, made.consider(space, FEW))
        return found["reformulate"] if len({*found.values()}) == 1 else found

    assert named(known) == "sample of the group's points"
    assert made.server_cost(Space(1)) == (0, "not measured yet")
    every = training(1, ("reformulate", FEW, cheap), ("enumerate", FEW, cheap))
    made.adopt(made.prepare(every, 7))
    assert named(known) == "training set of run 7, measurements of this server"
    assert named(other) == "sample of the group's points, priced by run 7"
    assert made.server_cost(Space(1)) == (5 / 3, "training set of run 7")
    made.choose(known, FEW)
    made.executed(1, 1, "reformulate", 1, 90, 50_000)
    made.learn(1, "reformulate", (*FEW, 0), cheap._replace(server_time=50), executed=True)
    assert made.server_cost(Space(1))[1] == "training set of run 7, measurements of this server"
    made.adopt(made.prepare(every))
    assert named(known) == made.server_cost(Space(1))[1] == "measurements of this server"
    assert made.statistics(2, made.by_counts(Space(2, plans=("reformulate",)), 3.0)) == {
        "reformulate": "messages"
    }
    made.adopt(made.prepare(training(1, ("enumerate", FEW, cheap)), 8))
    assert named(known) == {
        "reformulate": "sample of the group's points, priced by run 8",
        "enumerate": "training set of run 8, measurements of this server",
    }, "each plan has its own"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["reformulate", "enumerate"]),
            _cells.map(lambda c: (1 + c[0], *c[1:])),
            _estimates,
        )
    )
)
def test_calibration_is_the_median_of_the_factors(measured: list[tuple[str, Descriptor, Estimate]]) -> None:
    found = calibrated(measured)
    for plan, scale in (("reformulate", found.regions), ("enumerate", found.addressed)):
        factors = []
        for name, descriptor, estimate in measured:
            assumed = prior(plan, descriptor[0], (1 << int(descriptor[1])) / 2, estimate.affected)
            if name == plan and estimate.server_time:
                factors.append(estimate.server_time / assumed.server_time)
        assert scale.time == pytest.approx(statistics.median(factors) if factors else 1.0)
        scaled, assumed = prior(plan, 2, 3, 5, found), prior(plan, 2, 3, 5)
        assert scaled.server_time == pytest.approx(scale.time * assumed.server_time)
        assert scaled.server_stress == pytest.approx(scale.size * assumed.server_stress)


def test_what_was_measured_overrides_the_favourite() -> None:
    made, space = Chooser(), Space(holds=10)
    assert made.choose(space, FEW) == "reformulate", "the histogram expects ten messages against one"
    assert {*made.consider(space, FEW).sources.values()} == {"histogram"}
    for _ in range(8):
        for plan, time in (("reformulate", 50.0), ("enumerate", 5.0)):
            made.learn(1, plan, (*FEW, 0), Estimate(time, time, 100, 0, 1), executed=False)
    assert made.choose(space, FEW) == "enumerate"
    assert made.choose(space, MANY) == "reformulate", "far from all that was measured the histogram counts"
    assert {*made.consider(space, MANY).sources.values()} == {"histogram"}


@given(_entries, _entries, _cells, st.tuples(*[st.integers(0, 5)] * 4))
def test_the_cheapest_estimate_is_taken(one: Any, other: Any, wanted: Any, weights: Any) -> None:
    made, space = Chooser(share=0), Space()
    made.weigh(Weights(*map(float, weights)))
    plans = dict(zip(space.plans, (one, other), strict=True))
    prepared = made.prepare({1: plans})
    made.adopt(prepared)
    space.descriptor = lambda description: description  # type: ignore[method-assign]
    chosen = made.choose(space, wanted)
    costs = {}
    for plan, entries in plans.items():
        estimate = Neighbours(entries).estimate(wanted)
        if estimate is None:
            boxes = (1 << wanted[1]) / 2
            estimate = prior(plan, wanted[0], boxes, space.holds, prepared.calibration)
        costs[plan] = made.weights.cost(estimate)
    assert costs[chosen] == min(costs.values())
    assert made.choose(space, wanted) == chosen, "remembered"


class Ticking:
    """A clock that goes on by a millisecond whenever it is read."""

    ns = 0

    def __call__(self) -> int:
        self.ns += 1_000_000
        return self.ns


def test_choosing_takes_its_share_of_the_time_and_no_more() -> None:
    made, space = Chooser(share=0, elapsed_ns=Ticking()), Space()
    rows = (("reformulate", FEW, CHEAP_FOR_THE_SERVER), ("enumerate", FEW, CHEAP_FOR_THE_NETWORK))
    other = (("reformulate", MANY, CHEAP_FOR_THE_NETWORK), ("enumerate", MANY, CHEAP_FOR_THE_SERVER))
    made.adopt(made.prepare(training(1, *rows, *other)))
    looks = 0

    def descriptor(description: Any) -> Descriptor:
        nonlocal looks
        looks += 1
        return (*description, 0)

    def choose(description: Any, took_ns: int) -> str:
        plan = made.choose(space, description)
        made.executed(1, 1, plan, 1, 10, took_ns)
        return plan

    space.descriptor = descriptor  # type: ignore[method-assign]
    made.weigh(Weights(response_time=0, bandwidth=0))
    assert choose(MANY, 0) == "enumerate"
    assert {choose(FEW, 0) for _ in range(100)} == {"reformulate"}
    assert looks == FREE_NS // 1_000_000, "a look takes a millisecond here"
    assert choose(MANY, 0) == "reformulate", "no time is left: the first plan"
    looks = 0
    for _ in range(1_000):
        choose(FEW, 10_000_000)
    assert looks == pytest.approx(1_000 * 10 * LOOKING, rel=0.1)
    made.weigh(Weights(server_time=0, server_stress=0))
    assert choose(FEW, 0) == "enumerate", "other weights count at once"


def test_a_pause_of_the_process_is_not_charged_to_choosing() -> None:
    """Ten seconds would be paid back by 250 s of events, in which nothing were looked at and nothing measured."""
    clock = Ticking()
    made, space = Chooser(elapsed_ns=clock), Space()
    rows = (("reformulate", MANY, CHEAP_FOR_THE_NETWORK), ("enumerate", MANY, CHEAP_FOR_THE_SERVER))
    made.adopt(made.prepare(training(1, *rows)))
    looks = 0

    def descriptor(description: Any) -> Descriptor:
        nonlocal looks
        looks += 1
        clock.ns += 10_000_000_000 if looks == 1 else 0
        return (*description, 0)

    space.descriptor = descriptor  # type: ignore[method-assign]
    sampled = []
    for number in range(200):
        plan = made.choose(space, MANY)
        if made.executed(1, 1, plan, 1, 10, 10_000_000):
            sampled.append(number)
            made.sampled(1, 10_000_000_000 if number == 0 else 1_000)
    assert looks > 50
    assert len(sampled) > 1


def test_what_has_won_many_times_in_a_row_is_taken_without_a_look() -> None:
    made, space = Chooser(share=0, elapsed_ns=Ticking()), Space()
    rows = (("reformulate", MANY, CHEAP_FOR_THE_NETWORK), ("enumerate", MANY, CHEAP_FOR_THE_SERVER))
    made.adopt(made.prepare(training(1, *rows)))
    made.weigh(Weights(response_time=0, bandwidth=0))
    space.descriptor = lambda description: (*description, 0)  # type: ignore[method-assign]
    chosen = []
    for took_ms in [*([1_000] * SETTLED), *([0] * 50)]:
        chosen.append(made.choose(space, MANY))
        made.executed(1, 1, chosen[-1], 1, 10, took_ms * 1_000_000)
    assert set(chosen) == {"enumerate"}, "also after the time for looks is spent"


def test_a_choice_counts_until_there_is_time_to_consider_it_again() -> None:
    made, space = Chooser(share=0, elapsed_ns=Ticking()), Space()
    rows = (("reformulate", MANY, CHEAP_FOR_THE_NETWORK), ("enumerate", MANY, CHEAP_FOR_THE_SERVER))
    made.adopt(made.prepare(training(1, *rows)))
    made.weigh(Weights(response_time=0, bandwidth=0))
    space.descriptor = lambda description: (*description, 0)  # type: ignore[method-assign]
    assert made.choose(space, MANY) == "enumerate"
    made.executed(1, 1, "enumerate", 1, 10, 0)
    for at in range(30):  # new descriptors, until no time is left to consider one
        made.choose(space, (9, 9 + at, 9))
        made.executed(1, 1, "reformulate", 1, 10, int(1_000_000 / LOOKING) if at < 29 else 0)
    for _ in range(4):  # both indexes are built anew
        for plan in space.plans:
            made.learn(1, plan, (*MANY, 0), CHEAP_FOR_THE_NETWORK, executed=False)
    assert made.choose(space, MANY) == "enumerate"


def test_a_single_plan_is_not_considered() -> None:
    made, lone = Chooser(), Space(plans=("match",))
    lone.descriptor = None  # type: ignore[method-assign, assignment]
    assert made.choose(lone, FEW) == "match"
    assert made.executed(1, 1, "match", 1, 10, 5_000) is False
    assert made.decisions.last(1)[0].choice is None


def test_plans_that_cannot_be_compared_are_taken_in_the_order_of_the_type() -> None:
    blind: Any = SimpleNamespace(network=SimpleNamespace(id=3), plans=("first", "second"))
    made = Chooser()
    assert made.choose(blind, FEW) == "first"
    assert not made.executed(1, 3, "first", 1, 10, 10**12), "and never measured"
    assert chooser("second").choose(blind, FEW) == "second"


def test_plans_by_name_and_at_random() -> None:
    space = Space()
    assert chooser("enumerate").choose(space, FEW) == "enumerate"
    assert chooser("relax").choose(space, FEW) == "reformulate"
    assert chooser("auto:ref-j+").choose(space, FEW) == chooser("auto").choose(space, FEW)
    assert chooser("auto:ref-j+").choose(space, MANY) == chooser("auto").choose(space, MANY)
    one, other = chooser("random:5"), chooser("random:5")
    drawn = [one.choose(space, FEW) for _ in range(40)]
    assert drawn == [other.choose(space, FEW) for _ in range(40)]
    assert set(drawn) == {"reformulate", "enumerate"}


def test_spaces_run_in_increasing_cost_a_subscription() -> None:
    made = Chooser()
    spaces = [Space(number) for number in (1, 2, 3)]
    for space, time, affected in zip(spaces, (90.0, 10.0, 100.0), (1, 1, 50), strict=True):
        made.choose(space, FEW)
        made.executed(1, space.network.id, "reformulate", 1, 10, 1_000)
        made.learn(
            space.network.id, "reformulate", (1, 1, 0), Estimate(time, time, 10, 0, affected), executed=True
        )
    assert [space.network.id for space in made.order(spaces)] == [3, 2, 1]
    assert made.decisions.last(1)[0].measured == Estimate(100.0, 100.0, 10, 0, 50)


def test_measuring_takes_its_share_of_the_time_and_no_more() -> None:
    made, space = Chooser(share=0.01), Space()
    spent = busy = 0
    for seq in range(20_000):
        plan = made.choose(space, FEW)
        busy += 1_000
        if made.executed(seq, 1, plan, 1, 10, 1_000):
            spent += 4_000
            made.sampled(1, 4_000)
    learning = 32 * 4_000
    assert 0.5 * 0.01 * busy < spent < 0.01 * busy + learning
    assert not Chooser(share=0).executed(1, 1, "reformulate", 1, 10, 10**12)


def test_a_space_that_a_run_knows_is_not_learned_again() -> None:
    """Measuring takes ten times its share only in a space that nothing is known of."""
    measured = {}
    for run in ({}, training(1, ("reformulate", FEW, CHEAP_FOR_THE_SERVER))):
        made, space = Chooser(share=0.01), Space()
        made.adopt(made.prepare(run, 7))
        spent = 0
        for seq in range(4_000):
            if made.executed(seq, 1, made.choose(space, FEW), 1, 10, 1_000):
                spent += 4_000
                made.sampled(1, 4_000)
        measured[bool(run)] = spent / (4_000 * 1_000)
    assert measured[True] <= 0.012 < 3 * measured[True] < measured[False]


def test_plans_too_dear_to_try_are_extrapolated() -> None:
    made, space = Chooser(), Space()
    made.choose(space, FEW)
    made.learn(1, "enumerate", (1, 3, 0), Estimate(100, 100, 1_000, 0, 50), executed=False)
    for _ in range(8):
        made.extrapolate(space, "enumerate", (*MANY, 0), 100_000)
    found = made.consider(space, MANY).estimates["enumerate"]
    assert found.server_time == pytest.approx(200_000)
    assert found.server_stress == pytest.approx(2_000_000)


TWO_WAYS = {TREE: Carriage(2, 6, 900.0, 10.0), STRAIGHT: Carriage(5, 5, 300.0, 25.0)}


@pytest.mark.parametrize("is_measured", [False, True])
def test_plans_too_dear_to_try_are_not_free_on_the_network(is_measured: bool) -> None:
    made, space = Chooser(), Space()
    made.carriages = lambda space: TWO_WAYS
    made.choose(space, FEW)
    if is_measured:
        for way, carriage in TWO_WAYS.items():
            measured = carried(Estimate(50, 50, 500, 0, 50), 1, carriage)
            made.learn(1, "enumerate", (1, 3, 0), measured, executed=False, way=way)
    for _ in range(8):
        made.extrapolate(space, "enumerate", (*MANY, 0), 1_000)
    choice = made.consider(space, MANY)
    assert choice.sources["enumerate"] == "measured"
    tree, straight = (choice.ways["enumerate"][way] for way in (TREE, STRAIGHT))
    for found, way in ((tree, TREE), (straight, STRAIGHT)):
        copies, all_copies, way_us, _ = TWO_WAYS[way]
        assert found.bandwidth == pytest.approx(found.server_stress * all_copies / copies)
        assert found.server_stress >= 9_000 * copies
        assert found.response_time > way_us
        assert found.response_time - way_us < found.server_time
    assert tree.response_time > straight.response_time


def test_plans_are_priced_by_the_cheaper_way_under_the_weights_in_force() -> None:
    made, space, counted = Chooser(share=0), Space(), Space(2, plans=("reformulate", "enumerate"))
    made.carriages = lambda space: TWO_WAYS
    for metric, way in (("response_time", STRAIGHT), ("server_stress", TREE), ("bandwidth", STRAIGHT)):
        made.weigh(Weights.of(dict.fromkeys(METRICS, 0.0) | {metric: 1.0}))
        for choice in (made.consider(space, FEW), made.by_counts(counted, 10)):
            for plan in space.plans:
                assert choice.estimates[plan] is choice.ways[plan][way]
                assert choice.costs[plan] == min(map(made.weights.cost, choice.ways[plan].values()))


def test_what_was_measured_by_both_ways_is_learned_from_a_run() -> None:
    """A way that nothing was measured of is no reason to price the plan by constants."""
    made, space = Chooser(share=0), Space()
    rows = [
        *(("reformulate" if way == TREE else "reformulate, straight", FEW, estimate) for way, estimate in
          ((TREE, CHEAP_FOR_THE_SERVER), (STRAIGHT, CHEAP_FOR_THE_NETWORK))),
        ("enumerate", FEW, CHEAP_FOR_THE_SERVER._replace(server_time=6)),
    ]  # fmt: skip
    made.adopt(made.prepare(training(1, *rows)))
    assert made.consider(space, FEW).ways["reformulate"] == {TREE: CHEAP_FOR_THE_SERVER}, "there is one way"
    made.carriages = lambda space: TWO_WAYS
    made.weigh(Weights(server_time=0, server_stress=0))
    choice = made.consider(space, FEW)
    assert choice.ways["reformulate"] == {TREE: CHEAP_FOR_THE_SERVER, STRAIGHT: CHEAP_FOR_THE_NETWORK}
    assert (choice.plan, choice.ways["enumerate"].keys()) == ("reformulate", {TREE})
    assert {*choice.sources.values()} == {"measured"}


def test_decisions_are_bounded_and_newest_first() -> None:
    made, space = Chooser(share=0), Space()
    for seq in range(3_000):
        made.executed(seq, 1, made.choose(space, FEW), 1, 10, 1_000)
    assert [decision.seq for decision in made.decisions.last(3)] == [2999, 2998, 2997]
    assert len(made.decisions.last(10_000)) == 1_000


@pytest.mark.parametrize(
    "given", [{"speed": 1}, {"bandwidth": -1}, {"bandwidth": float("nan")}, {"bandwidth": True}]
)
def test_bad_weights_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"metric|number"):
        Weights.of(given)
