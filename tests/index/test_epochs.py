"""Epochs against a list of subscriptions that each remember their last notified value."""

from __future__ import annotations

import random
from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.match import kernels
from cn.model.geometry import Box, Interval
from prosem.index.radii.ba_tree_radii import Run
from prosem.index.radii.ba_tree_scan import UnfitError
from prosem.index.radii.epochs import Epochs, ItemEpochs, Piece, epochs_of, in_python, more, restored
from prosem.index.radii.packed_radii import PackedRadii
from prosem.index.radii.radius_block import RadiusBlocks
from prosem.index.radii.radius_pairs import RadiusPairs
from prosem.types.value.measure import Measure
from prosem.values.columns import column_type
from tests.index.test_b2_tree import FORMS as STRICT
from tests.index.test_b2_tree import Form, narrow_nodes, random_steps
from tests.support.effort import examples
from tests.support.makers import COMPILED, is_built
from tests.types.test_may_must import FORMS as FREE

STRUCTURES = ["runs", pytest.param("compiled", marks=is_built)]
FORMS = STRICT | {f"may and must, {name}": form for name, form in FREE.items()}


def none_yet(form: Form) -> RadiusBlocks:
    return RadiusPairs() if form.ends.loose else PackedRadii("q" if form.ends.exact else "d")


def box(low: Any, high: Any, first: int, last: int) -> Box:
    return Interval(low, high), Interval(first, last)


def empty(form: Form, value: Any) -> ItemEpochs:
    is_whole = not any(isinstance(radius, Fraction) for radius in form.radii)
    return epochs_of(form.ends, value) if is_whole else Epochs(form.ends, value)


class World:
    """One item; all subscriptions select it."""

    def __init__(self, form: Form) -> None:
        self.form, self.value = form, form.values[0]
        self.radii: RadiusBlocks = none_yet(form)
        self.item = empty(form, self.value)
        self.held: list[list[Any]] = []  # radius, birth, last notified value
        self.birth = 0

    def add(self, radius: Any, *, alone: bool) -> None:
        self.birth += alone or not self.held
        self.radii = more(self.radii, radius)
        self.held.append([radius, self.birth, self.value])

    def event(self, d: Any) -> list[Piece]:
        birth = self.birth if self.held else -1
        try:
            notified = self.item.event(d, birth, self.radii)
        except UnfitError:
            assert self.item.value == self.value, "nothing has changed"
            self.item = in_python(self.item, self.form.ends, self.radii)
            notified = self.item.event(d, birth, self.radii)
        pieces = [Piece(*r[:2], *b[:2], before) for before, region in notified for r, b in region]
        moved, self.value, loose = d != self.value, d, self.form.ends.loose
        for subscription in self.held:
            radius, birth, centre = subscription
            hit = [p for p in pieces if p.low <= radius <= p.high and p.first <= birth <= p.last]
            assert len(hit) <= 1, "pieces are disjoint"
            assert all(piece.before == centre for piece in hit), "a piece holds the last notified value"
            may, must = radius if loose else (radius, radius)
            if hit:
                assert centre != d, "an equal value is never notified"
                assert self.form.condition(centre, d, may), "none is notified below may"
                subscription[2] = d
            else:
                assert not moved or centre == d or not self.form.condition(centre, d, must), "at must always"
        return pieces

    def reload(self) -> None:
        """As after a restart: the radii are those of the subscriptions that are left."""
        if self.held:
            self.radii = none_yet(self.form)
            for radius, _, _ in self.held:
                self.radii = more(self.radii, radius)
            item = empty(self.form, self.value)
            self.item = restored(item, self.form.ends, self.item.state(), self.radii)

    def check(self) -> None:
        self.item.check()
        for radius, birth, centre in self.held:
            assert self.item.last_notified(radius, birth) == centre
        if self.item.is_plain:
            assert all(centre == self.value for _, _, centre in self.held)


def play(form: Form, steps: list[tuple[str, int]], every: int = 1) -> World:
    world = World(form)
    go_on(world, steps, every)
    return world


def go_on(world: World, steps: list[tuple[str, int]], every: int = 1) -> None:
    form = world.form
    for number, (step, choice) in enumerate(steps):
        if step == "add":
            world.add(form.radii[choice % len(form.radii)], alone=choice % 3 > 0)
        elif step == "remove" and world.held:
            world.held.pop(choice % len(world.held))
        elif step == "event":
            world.event(form.values[choice % len(form.values)])
            world.birth += 1  # who comes after an event came after it
        elif step == "reload":
            world.reload()
        if number % every == 0:
            world.check()


KINDS = ["add", "add", "add", "remove", "event", "event", "event", "event", "reload"]
histories = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 200)), max_size=50)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", FORMS)
@given(steps=histories)
@settings(max_examples=examples(20), deadline=None)
def test_a_history(name: str, structure: str, steps: list[tuple[str, int]]) -> None:
    with narrow_nodes(structure):
        play(FORMS[name], steps)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", FORMS)
@given(steps=histories, more_steps=histories)
@settings(max_examples=examples(20), deadline=None)
def test_a_copy_is_what_it_was(
    name: str, structure: str, steps: list[tuple[str, int]], more_steps: list[tuple[str, int]]
) -> None:
    """And goes on like one that was never copied, whatever happened to the other meanwhile."""
    form = FORMS[name]
    with narrow_nodes(structure):
        world = play(form, steps)
        copied, state, held = world.item.copy(), world.item.state(), deepcopy(world.held)
        value, radii, birth = world.value, world.radii, world.birth
        go_on(world, more_steps)
        copied.check()
        assert copied.state() == state
        again = World(form)
        again.item, again.held, again.value, again.radii, again.birth = copied, held, value, radii, birth
        after = world.item.state()
        go_on(again, more_steps)
        assert world.item.state() == after, "the copy is no part of it"
        assert again.item.state() == after


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", FORMS)
def test_a_walk(name: str, structure: str) -> None:
    with narrow_nodes(structure):
        play(FORMS[name], random_steps(1, 300, len(FORMS[name].values)), every=7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", FORMS)
def test_long_walks(name: str, structure: str, seed: int) -> None:
    with narrow_nodes(structure):
        play(FORMS[name], random_steps(seed, 1_000, len(FORMS[name].values)), every=23)


@pytest.fixture(params=STRUCTURES)
def maker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "compiled", lambda: COMPILED if request.param == "compiled" else None)


@is_built
def test_wide_numbers_leave_the_compiled_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "compiled", lambda: COMPILED)
    form = STRICT["change, wide"]
    radii = RadiusBlocks([1, 5])
    item = epochs_of(form.ends, 0)
    assert type(item) is COMPILED.IntegerEpochs
    assert list(item.event(2, 1, radii)) == [(0, (box(1, 1, 0, 1),))]
    copied = deepcopy(item)
    for d, held in ((2**70, radii), (3, more(radii, 2**70))):
        with pytest.raises(UnfitError):
            item.event(d, 2, held)
    assert item.state() == copied.state()
    wide = in_python(item, form.ends, radii)
    assert type(wide) is Epochs
    assert wide.event(2**70, 2, radii) == [(2, (box(1, 1, 0, 1), box(1, 5, 2, 2))), (0, (box(5, 5, 0, 1),))]
    assert list(copied.event(5, 1, radii)) == [(2, (box(1, 1, 0, 1),)), (0, (box(5, 5, 0, 1),))]
    assert item.last_notified(5, 1) == 0
    assert type(epochs_of(form.ends, 2**70)) is Epochs


@pytest.mark.usefixtures("maker")
def test_epochs_with_equal_centres_become_one() -> None:
    world = World(STRICT["change"])
    for birth in range(10):
        world.add(5, alone=True)
        world.add(12, alone=False)
        world.event(birth % 2)
        world.birth += 1
    assert 1 < len(world.item.stops) <= 10
    world.event(-15)
    assert len(world.item.stops) == 1
    assert world.item.is_plain


@pytest.mark.usefixtures("maker")
def test_who_comes_adds_nothing_to_an_item_that_stays() -> None:
    world = World(STRICT["change"])
    for number in range(1000):
        world.add(number % 13, alone=True)
    assert world.item.stops == []
    assert [piece[2:] for piece in world.event(20)] == [(0, 1000, -15)]


def test_radii_are_shared_until_they_differ() -> None:
    rng, kept = random.Random(2), []
    for form in (STRICT["change"], FREE["exact"]):
        radii, held = none_yet(form), set()
        for _ in range(60):
            radius = rng.choice(form.radii)
            held.add(radius)
            radii = more(radii, radius)
            kept.append((radii, sorted(held)))
        for some, wanted in kept:
            some.check()
            assert list(some) == wanted


@is_built
@pytest.mark.parametrize("is_double", [False, True])
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 4)), min_size=1, max_size=40),
    st.lists(st.integers(-40, 40), max_size=12),
)
def test_named_ids_are_those_of_the_regions(
    is_double: bool, held: list[tuple[int, int]], values: list[int]
) -> None:
    """What the compiled event finds by itself is what a search for its regions finds."""
    number, code = (float, Measure(column_type("double precision")).code) if is_double else (int, int)
    points = COMPILED.PointIndex(2)
    for sid, (radius, birth) in enumerate(held):
        points.insert(sid, b"ab"[sid % 2 :][:1], (code(number(radius)), birth))
    radii = PackedRadii("d" if is_double else "q", {number(radius) for radius, _ in held})
    make = COMPILED.DoubleEpochs if is_double else COMPILED.IntegerEpochs
    item = make("change", 1, number(0), Run, Interval, UnfitError)
    for at, value in enumerate(values):
        notified = item.event(number(value), min(at + 1, 4), radii)
        coded = notified.coded()
        assert list(coded) == [
            (before, tuple((Interval(code(r.low), code(r.high)), births) for r, births in region))
            for before, region in notified
        ]
        for topics in ([b"a"], [b"b", b"a", b"none"]):
            expected = [
                (before, sorted(sid for topic in topics for sid in points.find(topic, region).tolist()))
                for before, region in coded
            ]
            found = [(before, sorted(ids)) for before, ids in notified.named(points, topics)]
            assert found == [(before, ids) for before, ids in expected if ids]
            assert [(before, sorted(ids)) for before, ids in coded.named(points, topics)] == found
