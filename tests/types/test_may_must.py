"""May and must: the tree against the rule written down, and against the bounds that the contract sets."""

from __future__ import annotations

import random
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings

from prosem.index.radii import radius_block
from prosem.index.radii.b2_tree import B2Tree
from prosem.index.radii.ba_tree_ends import Change, MayMust
from prosem.index.radii.ba_tree_radii import Fired
from prosem.index.radii.radius_pairs import RadiusPairs
from tests.index.test_b2_tree import (
    TENTHS,
    Form,
    Oracle,
    changed,
    exactly,
    histories,
    narrow_nodes,
    play,
    random_steps,
)
from tests.support.effort import examples

PAIRS = [(may, may + more) for may in range(0, 9, 2) for more in (0, 1, 4, 9)]
EXACT = Form(MayMust(), exactly(changed), PAIRS, list(range(-15, 16)))
WIDE = Form(
    MayMust(),
    exactly(changed),
    [(1, 3), (1, 2**63), (2**62, 2**63), (2**64, 2**70)],
    [n + k for n in (0, 2**62, -(2**70)) for k in range(-3, 4)],
)
DOUBLES = Form(MayMust(exact=False), changed, [(a / 10, b / 10) for a, b in PAIRS], TENTHS)
FORMS = {"exact": EXACT, "wide": WIDE, "doubles": DOUBLES}


class Rule(Oracle):
    """Neighbouring pairs that may be notified wholly are if one of theirs must be; other pairs that must, alone."""

    def event(self, d: Any) -> list[Fired]:
        self.value = d
        found: list[tuple[str, Any, list[Any], list[bool]]] = []
        for pair, group in groupby(sorted(self.held, key=lambda s: (s[0], s[1])), key=lambda s: s[0]):
            here = list(group)
            may = [self.fires(centre, d, pair[0]) for _, _, centre in here]
            must = any(self.fires(centre, d, pair[1]) for _, _, centre in here)
            found.append(("whole" if all(may) else "part" if must else "quiet", must, here, may))
        fired: list[Fired] = []
        for kind, some in groupby(found, key=lambda one: one[0]):
            pairs = list(some)
            if kind == "whole" and any(must for _, must, _, _ in pairs):
                fired.append((pairs[0][2][0][0], pairs[-1][2][0][0], None))
                self.notify([s for _, _, here, _ in pairs for s in here], d)
            elif kind == "part":
                for _, _, here, may in pairs:
                    runs = [
                        list(run)
                        for hit, run in groupby(zip(may, here, strict=True), lambda pair: pair[0])
                        if hit
                    ]
                    arcs = tuple((run[0][1][1], run[-1][1][1]) for run in runs)
                    fired.append((here[0][0], here[0][0], arcs))
                    self.notify([s for hit, s in zip(may, here, strict=True) if hit], d)
        self.compare_with_the_contract(d)
        return fired

    def notify(self, some: list[Any], d: Any) -> None:
        for subscription in some:
            assert self.fires(subscription[2], d, subscription[0][0]), "never below may"
            subscription[2] = d

    def compare_with_the_contract(self, d: Any) -> None:
        assert not any(self.fires(centre, d, pair[1]) for pair, _, centre in self.held), "at must always"


@pytest.mark.parametrize("name", FORMS)
@given(steps=histories)
@settings(max_examples=examples(40), deadline=None)
def test_a_history(name: str, steps: list[tuple[str, int]]) -> None:
    with narrow_nodes():
        play(FORMS[name], steps, kind=Rule)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FORMS)
def test_a_walk(name: str, seed: int) -> None:
    """`check` after each step sees theorem 3: the centres of a pair ascend once around their labels."""
    with narrow_nodes():
        play(FORMS[name], random_steps(seed, 300, len(FORMS[name].values)), every=3, kind=Rule)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", FORMS)
def test_long_walks(name: str, seed: int) -> None:
    with narrow_nodes():
        play(FORMS[name], random_steps(seed, 1_000, len(FORMS[name].values)), every=23, kind=Rule)


def random_values(form: Form, seed: int, count: int) -> Any:
    """Radii of many subscriptions, and values that walk slowly among them."""
    rng = random.Random(seed)
    radii = sorted({(may := rng.randrange(20, 400), may + rng.randrange(1, 200)) for _ in range(count)})
    values = [0]
    for _ in range(1500):
        values.append(values[-1] + rng.randrange(-30, 34))
    return radii, values


def test_fewer_messages_than_at_must_alone() -> None:
    """What the choice is for: the same walk, once with it and once notifying as late as possible."""
    for seed in range(3):
        radii, values = random_values(EXACT, seed, 300)
        free, strict = B2Tree(MayMust(), 0), B2Tree(Change(), 0)
        for may, must in radii:
            free.add((may, must))
            strict.add(must)
        ranges = sum(len(free.event(value)) for value in values)
        late = sum(len(strict.event(value)) for value in values)
        assert ranges < 0.75 * late


def test_equal_pairs_are_one_radius() -> None:
    """Without a choice it is the tree of that radius."""
    loose, tree = B2Tree(MayMust(), 0), B2Tree(Change(), 0)
    rng = random.Random(5)
    for _ in range(2000):
        if rng.random() < 0.2:
            radius = rng.randrange(1, 30)
            assert loose.add((radius, radius))[0] == tree.add(radius)[0]
        else:
            d = rng.randrange(-40, 40)
            fired = [(low, high, arcs) for (low, _), (high, _), arcs in loose.event(d)]
            assert fired == tree.event(d)
    loose.check()


def test_an_event_that_nobody_must_hear_touches_nothing() -> None:
    tree = B2Tree(MayMust(), 0)
    for may in range(1, 2000):
        tree.add((may, 2 * may + 100))
    visits = tree.visits
    assert (tree.event(101), tree.event(-101), tree.event(50), tree.visits) == ([], [], [], visits)
    assert tree.event(102) == [((1, 102), (102, 304), None)]


@given(histories)
@settings(deadline=None)
def test_the_least_must(steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radius_block, "BLOCK", 4)
        pairs, held = RadiusPairs(), set()
        for step, number in steps:
            pair = (number % 7, number % 31)
            if step == "add" and pair not in held:
                pairs.add(pair)
                held.add(pair)
            elif step == "remove" and held:
                gone = sorted(held)[number % len(held)]
                pairs.remove(gone)
                held.remove(gone)
            pairs.check()
            order = sorted(held)
            for low in range(len(order)):
                for high in range(low, len(order)):
                    least = min(must for _, must in order[low : high + 1])
                    assert pairs.least_must(order[low], order[high]) == least
