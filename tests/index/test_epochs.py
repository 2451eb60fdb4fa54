"""Epochs against a list of subscriptions that each remember what they were told."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.index.radii.epochs import Epochs, Piece, more
from prosem.index.radii.radius_block import RadiusBlocks
from prosem.index.radii.radius_pairs import RadiusPairs
from tests.index.test_b2_tree import FORMS as STRICT
from tests.index.test_b2_tree import Form, narrow_nodes, random_steps
from tests.types.test_may_must import FORMS as FREE

FORMS = STRICT | {f"may and must, {name}": form for name, form in FREE.items()}


def none_yet(form: Form) -> RadiusBlocks:
    return RadiusPairs() if form.ends.loose else RadiusBlocks()


class World:
    """One item; everybody selects it."""

    def __init__(self, form: Form) -> None:
        self.form, self.value = form, form.values[0]
        self.radii: RadiusBlocks = none_yet(form)
        self.item = Epochs(form.ends, self.value)
        self.held: list[list[Any]] = []  # radius, birth, told
        self.birth = 0

    def add(self, radius: Any, *, alone: bool) -> None:
        self.birth += alone or not self.held
        self.radii = more(self.radii, radius)
        self.held.append([radius, self.birth, self.value])

    def event(self, d: Any) -> list[Piece]:
        pieces = self.item.event(d, self.birth if self.held else -1, self.radii)
        moved, self.value, loose = d != self.value, d, self.form.ends.loose
        for subscription in self.held:
            radius, birth, told = subscription
            hit = [p for p in pieces if p.low <= radius <= p.high and p.first <= birth <= p.last]
            assert len(hit) <= 1, "pieces are disjoint"
            assert all(piece.before == told for piece in hit), "a piece knows what was told"
            may, must = radius if loose else (radius, radius)
            if hit:
                assert told != d, "an equal value is never told"
                assert self.form.condition(told, d, may), "nobody is told below may"
                subscription[2] = d
            else:
                assert not moved or told == d or not self.form.condition(told, d, must), "at must always"
        return pieces

    def reload(self) -> None:
        """As after a restart: the radii are those of the subscriptions that are left."""
        if self.held:
            self.radii = none_yet(self.form)
            for radius, _, _ in self.held:
                self.radii = more(self.radii, radius)
            self.item = Epochs.from_state(self.form.ends, self.value, self.item.state(), self.radii)

    def check(self) -> None:
        self.item.check()
        for radius, birth, told in self.held:
            assert self.item.told(radius, birth) == told
        if self.item.is_plain:
            assert all(told == self.value for _, _, told in self.held)


def play(form: Form, steps: list[tuple[str, int]], every: int = 1) -> World:
    world = World(form)
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
    return world


KINDS = ["add", "add", "add", "remove", "event", "event", "event", "event", "reload"]
histories = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 200)), max_size=50)


@pytest.mark.parametrize("name", FORMS)
@given(steps=histories)
@settings(max_examples=20, deadline=None)
def test_a_history(name: str, steps: list[tuple[str, int]]) -> None:
    with narrow_nodes():
        play(FORMS[name], steps)


@pytest.mark.parametrize("name", FORMS)
def test_a_walk(name: str) -> None:
    with narrow_nodes():
        play(FORMS[name], random_steps(1, 300, len(FORMS[name].values)), every=7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", FORMS)
def test_long_walks(name: str, seed: int) -> None:
    with narrow_nodes():
        play(FORMS[name], random_steps(seed, 1_000, len(FORMS[name].values)), every=23)


def test_epochs_that_were_told_alike_become_one() -> None:
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
