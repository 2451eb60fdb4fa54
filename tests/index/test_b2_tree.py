"""The B²-tree against a plain list of subscriptions, its invariants checked after every step."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.match import kernels
from prosem.index.radii import ba_tree, ba_tree_nodes, radius_block
from prosem.index.radii.b2_tree import B2Tree
from prosem.index.radii.ba_tree_ends import Change, Ends, Factor, Percent
from prosem.index.radii.ba_tree_radii import Fired
from prosem.index.radii.ba_tree_scan import RadiusArrays
from prosem.values.undo import UndoLog, undo
from tests.support.effort import examples
from tests.support.makers import COMPILED, is_built


def fired_range(low: Any, high: Any, arcs: Any = None) -> Fired:
    return low, high, arcs


Condition = Callable[[Any, Any, Any], bool]  # last notified value, new value, radius


# -- the conditions as the contract words them ---------------------------------------------------------------
def changed(c: Any, d: Any, r: Any) -> bool:
    return bool(d >= c + r or d <= c - r)


def changed_percent(c: Any, d: Any, p: Any) -> bool:
    reach = abs(c) * p / 100
    return bool(d >= c + reach or d <= c - reach)


def changed_factor(c: Any, d: Any, f: Any) -> bool:
    return bool(c <= 0 or d <= 0 or d >= c * f or d <= c / f)


def exactly(condition: Condition, scale: int = 1) -> Condition:
    return lambda c, d, r: condition(Fraction(c), Fraction(d), Fraction(r) / scale)


class Form:
    def __init__(self, ends: Ends, condition: Condition, radii: list[Any], values: list[Any]) -> None:
        self.ends, self.condition, self.radii, self.values = ends, condition, radii, values


TENTHS = [number / 10 for number in range(-30, 31)]
FORMS = {
    "change": Form(Change(), exactly(changed), list(range(13)), list(range(-15, 16))),
    "change of doubles": Form(Change(exact=False), changed, [n / 10 for n in range(13)], TENTHS),
    "change, wide": Form(
        Change(),
        exactly(changed),
        [1, 3, 2**62, 2**63, 2**70],
        [n + k for n in (0, 2**62, -(2**70)) for k in range(-3, 4)],
    ),
    "change of doubles, huge": Form(
        Change(exact=False),
        changed,
        [0.0, 1e-300, 1.0, 1e308, 1.7e308],
        [0.0, -0.0, 5e-324, 1.0, 1e308, -1e308, 1.7e308],
    ),
    "percent": Form(
        Percent(scale=2), exactly(changed_percent, 2), [0, 3, 25, 50, 99, 200, 250], list(range(-15, 40))
    ),
    "percent, fractions": Form(
        Percent(), exactly(changed_percent), [1, Fraction(1, 3), Fraction(25, 2), 50], list(range(-9, 30))
    ),
    "percent, wide": Form(
        Percent(), exactly(changed_percent), [1, 5, 2**61, 50], [2**60 + n for n in range(30)]
    ),
    "percent of doubles": Form(
        Percent(exact=False), changed_percent, [0.0, 0.1, 12.5, 30.0, 75.0, 130.0], TENTHS
    ),
    "factor": Form(Factor(scale=4), exactly(changed_factor, 4), [5, 6, 7, 8, 12], list(range(-2, 40))),
    "factor, wide": Form(Factor(), exactly(changed_factor), [2, 3, 2**40], [2**n for n in range(70)]),
    "factor of doubles": Form(
        Factor(exact=False),
        changed_factor,
        [1.0000000000000002, 1.1, 1.5, 3.0],
        [n / 10 for n in range(-2, 60)],
    ),
}


class Oracle:
    """All subscriptions in a list: radius, label, last notified value."""

    def __init__(self, form: Form, value: Any) -> None:
        self.form, self.value = form, value
        self.held: list[list[Any]] = []

    def fires(self, centre: Any, d: Any, radius: Any) -> bool:
        if centre is None or d is None or centre == d:
            return bool(centre != d)
        return self.form.condition(centre, d, radius)

    def relabel(self, moves: list[tuple[Any, int, int]]) -> None:
        after = {(radius, old): new for radius, old, new in moves}
        for subscription in self.held:
            subscription[1] = after.get((subscription[0], subscription[1]), subscription[1])

    def event(self, d: Any) -> list[Fired]:
        """The only right answer."""
        self.value = d
        fired: list[Fired] = []
        begun = False
        for radius, group in groupby(sorted(self.held, key=lambda s: (s[0], s[1])), key=lambda s: s[0]):
            here = list(group)
            hit = [self.fires(centre, d, radius) for _, _, centre in here]
            if all(hit):
                fired[-1:] = (
                    [fired_range(fired[-1][0], radius)]
                    if begun
                    else [*fired[-1:], fired_range(radius, radius)]
                )
            elif any(hit):
                runs = [
                    list(run)
                    for fires, run in groupby(zip(hit, here, strict=True), lambda pair: pair[0])
                    if fires
                ]
                fired.append(
                    fired_range(radius, radius, tuple((run[0][1][1], run[-1][1][1]) for run in runs))
                )
            begun = all(hit)
        for subscription in self.held:
            if self.fires(subscription[2], d, subscription[0]):
                subscription[2] = d
        return fired


STRUCTURES = ["runs", "arrays", pytest.param("compiled", marks=is_built)]


@contextmanager
def narrow_nodes(structure: str = "runs") -> Iterator[None]:
    """Nodes of four, so that small histories see all that large ones do; and to arrays and back at every third event."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ba_tree_nodes, "FAN_OUT", 4)
        patch.setattr(ba_tree_nodes, "LEAST", 2)
        patch.setattr(radius_block, "BLOCK", 4)
        patch.setattr(ba_tree, "BLOCK", 4)
        patch.setattr(kernels, "compiled", lambda: COMPILED if structure == "compiled" else None)
        if structure == "arrays":
            patch.setattr(ba_tree, "MANY", 4)
            patch.setattr(B2Tree, "_weigh", other_form)
        yield


def other_form(tree: B2Tree) -> None:
    tree._regret += 1
    if tree._regret % 3 == 0:
        if type(tree._centres) is RadiusArrays:
            tree._as_runs()
        else:
            tree._as_arrays(tree._centres)


def play(form: Form, steps: list[tuple[str, int]], every: int = 1, kind: type[Oracle] = Oracle) -> B2Tree:
    oracle = kind(form, form.values[0])
    tree = B2Tree(form.ends, form.values[0])
    for number, (step, choice) in enumerate(steps):
        if step == "add":
            radius = form.radii[choice % len(form.radii)]
            label, moves = tree.add(radius)
            oracle.relabel(moves)
            oracle.held.append([radius, label, oracle.value])
        elif step == "remove" and oracle.held:
            radius, label, _ = oracle.held.pop(choice % len(oracle.held))
            tree.remove(radius, label)
        elif step == "event":
            d = form.values[choice % len(form.values)]
            assert tree.event(d) == oracle.event(d)
        elif step == "vanish":
            assert tree.event(None) == oracle.event(None)
        elif step == "reload":
            tree = B2Tree.from_state(form.ends, tree.state())
        if number % every == 0:
            tree.check()
            assert len(tree) == len(oracle.held)
            assert tree.radii == len({radius for radius, _, _ in oracle.held})
            for radius, label, last_notified in oracle.held:
                assert tree.last_notified(radius, label) == last_notified
    return tree


KINDS = ["add", "add", "add", "remove", "event", "event", "event", "event", "reload", "vanish"]
histories = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 200)), max_size=50)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", FORMS)
@given(steps=histories)
@settings(max_examples=examples(20), deadline=None)
def test_a_history(name: str, structure: str, steps: list[tuple[str, int]]) -> None:
    with narrow_nodes(structure):
        play(FORMS[name], steps)


def random_steps(seed: int, count: int, values: int) -> list[tuple[str, int]]:
    """Values that walk, so that classes live long enough to split and merge."""
    rng = random.Random(seed)
    at, steps = rng.randrange(values), []
    for _ in range(count):
        kind = rng.choices(["add", "remove", "event", "reload", "vanish"], [30, 12, 50, 1, 0.3])[0]
        if kind == "event":
            at = min(values - 1, max(0, at + rng.randint(-4, 4)))
        steps.append((kind, at if kind == "event" else rng.randrange(10**6)))
    return steps


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", FORMS)
def test_a_walk(name: str, seed: int, structure: str) -> None:
    with narrow_nodes(structure):
        play(FORMS[name], random_steps(seed, 300, len(FORMS[name].values)), every=7)


Numbers = list[int | None]  # of values, or None for a missing row
numbers = st.lists(st.one_of(st.integers(0, 200), st.none()), max_size=12)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", FORMS)
@given(steps=histories, undone=st.lists(st.tuples(numbers, st.integers(0, 200)), max_size=4), more=numbers)
@settings(max_examples=examples(20), deadline=None)
def test_events_are_undone(
    name: str, structure: str, steps: list[tuple[str, int]], undone: list[tuple[Numbers, int]], more: Numbers
) -> None:
    """Batches of events, each with one that comes and goes; then it behaves like a tree that never saw them."""
    form = FORMS[name]

    def value_of(number: int | None) -> Any:
        return None if number is None else form.values[number % len(form.values)]

    with narrow_nodes(structure):
        state, log = play(form, steps).state(), UndoLog()
        tree, again = B2Tree.from_state(form.ends, state, log), B2Tree.from_state(form.ends, state)
        batches = []
        for some, choice in undone:
            for number in some:
                log.add(setattr, tree, "value", tree.value)
                tree.event(value_of(number))
            radius = form.radii[choice % len(form.radii)]
            if radius not in tree._order:
                label, _ = tree.add(radius)
                log.add(tree.remove, radius, label)
            batches.append(log.cut())
        with log.paused():
            for batch in reversed(batches):
                undo(batch)
        tree.check()
        assert tree.state() == state
        for number in more:
            assert tree.event(value_of(number)) == again.event(value_of(number))
        assert tree.state() == again.state()


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", FORMS)
def test_long_walks(name: str, seed: int, structure: str) -> None:
    with narrow_nodes(structure):
        play(FORMS[name], random_steps(seed, 3_000, len(FORMS[name].values)), every=23)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("exact", [True, False])
def test_a_walk_among_many_radii(exact: bool, structure: str) -> None:
    radii: list[Any] = list(range(1, 400)) if exact else [number / 7 for number in range(1, 400)]
    values: list[Any] = list(range(600)) if exact else [number / 3 for number in range(600)]
    form = Form(Change(exact=exact), exactly(changed) if exact else changed, radii, values)
    rng = random.Random(3)
    fill = [("add", rng.randrange(10**6)) for _ in range(500)]
    drain = [("remove" if rng.random() < 0.8 else "event", rng.randrange(600)) for _ in range(700)]
    with narrow_nodes(structure):
        play(form, fill + random_steps(3, 150, len(values)) + drain, every=97)


# -- by hand -------------------------------------------------------------------------------------------------
def test_the_thesis_example_of_different_radii() -> None:
    """Example 3: a change from 100 to 102 concerns the radius 4 alone."""
    tree = B2Tree.from_state(
        Change(), (100, [(r, [(c, [(1 << 61, 1)])]) for r, c in ((2, 101), (4, 98), (6, 99))])
    )
    assert tree.event(102) == [fired_range(4, 4)]


def test_the_thesis_example_of_one_radius() -> None:
    """Example 4: created at 101, 103 and 100; from 100 to 98 concerns the second one, not 103 - 4 = 99 of the others."""
    tree = B2Tree(Change(), 101)
    labels = {}
    for value in (101, 103, 100):
        tree.event(value)
        labels[value], _ = tree.add(4)
    assert tree.event(98) == [fired_range(4, 4, ((labels[103], labels[103]),))]
    assert [tree.last_notified(4, label) for label in labels.values()] == [101, 98, 100]


def alike(value: int, radii: range) -> B2Tree:
    return B2Tree.from_state(Change(), (value, [(radius, [(value, [(1 << 61, 1)])]) for radius in radii]))


def test_an_equal_value_and_a_quiet_event_touch_nothing() -> None:
    tree = alike(0, range(10, 2000))
    assert (tree.event(9), tree.event(9), tree.event(-9), tree.visits) == ([], [], [], 0)
    assert tree.event(10) == [fired_range(10, 10)]
    assert tree.visits == 1


def test_a_range_enters_one_node_per_level() -> None:
    state = [(radius, [(radius // 5 % 2 * 10, [(1 << 61, 1)])]) for radius in range(20, 20_020)]
    tree = B2Tree.from_state(Change(), (0, state))
    assert tree.event(20) == [fired_range(20, 20)]
    assert 1 <= tree.visits <= 4
    assert tree.event(None) == [fired_range(20, 20_019)]
    tree.check()


def test_a_missing_row() -> None:
    tree = B2Tree(Change())
    label, _ = tree.add(5)
    assert tree.last_notified(5, label) is None
    assert tree.event(None) == []
    assert tree.event(3) == [fired_range(5, 5)]
    assert tree.last_notified(5, label) == 3
    assert tree.event(None) == [fired_range(5, 5)]
    assert tree.last_notified(5, label) is None
    assert B2Tree(Change(), 3).event(None) == []


def test_what_is_not_there() -> None:
    tree = B2Tree(Change(), 0)
    label, _ = tree.add(5)
    for radius, wrong in ((4, label), (5, label + 1)):
        with pytest.raises(KeyError):
            tree.remove(radius, wrong)
        with pytest.raises(KeyError):
            tree.last_notified(radius, wrong)
    assert len(tree) == 1
    tree.remove(5, label)
    assert (len(tree), tree.radii) == (0, 0)


@pytest.mark.parametrize("name", ["change", "percent", "factor of doubles"])
def test_a_restored_tree_goes_on_alike(name: str) -> None:
    """Through JSON, as a checkpoint goes; from then on both give the same labels and fire the same."""
    form = FORMS[name]
    rng = random.Random(name)
    tree = play(form, random_steps(4, 200, len(form.values)))
    again = B2Tree.from_state(form.ends, json.loads(json.dumps(tree.state())))
    again.check()
    points = [
        (radius, label) for radius, classes in tree.state()[1] for _, held in classes for label, _ in held
    ]
    for _ in range(300):
        if rng.random() < 0.4:
            radius = rng.choice(form.radii)
            added = tree.add(radius)
            assert again.add(radius) == added
        elif rng.random() < 0.2 and points:
            point = points.pop()
            tree.remove(*point)
            again.remove(*point)
            points = [(r, at) for r, classes in tree.state()[1] for _, held in classes for at, _ in held]
        else:
            d = rng.choice(form.values)
            assert again.event(d) == tree.event(d)
        assert again.state() == tree.state()
