"""Classes of one radius against a plain list; the circular order of theorem 3 as a property."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.index.radii.ba_tree_ends import Change, Ends, Factor, Percent
from prosem.index.radii.bw_tree import BWTree, Classes
from prosem.index.radii.bw_tree_scattered import ScatteredClasses
from prosem.index.radii.labels import LAST, STEP
from tests.support.effort import examples

TENTHS = [number / 10 for number in range(-20, 21)]
CASES: dict[str, tuple[type[Classes], Ends, Any, list[Any]]] = {
    "change": (BWTree, Change(), 7, list(range(25))),
    "change of nothing": (BWTree, Change(), 0, list(range(5))),
    "change of doubles": (BWTree, Change(exact=False), 0.7, TENTHS),
    "change of doubles, lost": (
        BWTree,
        Change(exact=False),
        0.3,
        [1e15 + number / 8 for number in range(12)],
    ),
    "factor": (BWTree, Factor(scale=2), 3, list(range(-1, 40))),
    "factor of doubles": (BWTree, Factor(exact=False), 1.3, [number / 10 for number in range(-1, 40)]),
    "percent": (ScatteredClasses, Percent(), 40, list(range(-5, 40))),
    "percent, far": (ScatteredClasses, Percent(), 130, list(range(-20, 20))),
    "percent of doubles": (ScatteredClasses, Percent(exact=False), 33.3, TENTHS),
}


def fires(ends: Ends, c: Any, d: Any, r: Any) -> bool:
    return bool(d <= ends.left(c, r) or d >= ends.right(c, r))


def play(case: str, steps: list[tuple[str, int]]) -> None:
    kind, ends, radius, values = CASES[case]
    tree = kind(ends, radius)
    held: dict[int, list[Any]] = {}  # label and centre of each subscription
    value, number = values[0], 0
    order: list[int] = []
    for step, choice in steps:
        if step == "add":
            label, moved = tree.add(value)
            after = dict(moved)
            for subscription in held.values():
                subscription[0] = after.get(subscription[0], subscription[0])
            held[number] = [label, value]
            number += 1
        elif step == "remove" and held:
            gone = list(held)[choice % len(held)]
            tree.remove(held.pop(gone)[0])
        elif step == "event":
            value = values[choice % len(values)]
            if held:
                fired = [name for name, (_, c) in held.items() if fires(ends, c, value, radius)]
                arcs = tree.event(value)
                assert (arcs is None) == (len(fired) == len(held))
                if arcs is not None:
                    assert fired == [
                        n for n, (at, _) in held.items() if any(low <= at <= high for low, high in arcs)
                    ]
                    assert all(low <= high for low, high in arcs)
                    assert kind is ScatteredClasses or len(arcs) <= 2
                for name in fired:
                    held[name][1] = value
        elif step == "reload":
            tree = kind(
                ends,
                radius,
                [(c, [tuple(pair) for pair in labels]) for c, labels in json.loads(json.dumps(tree.dump()))],
            )
        tree.check()
        assert len(tree.labels) == len(held)
        assert len(tree) == len({c for _, c in held.values()})
        for at, c in held.values():
            assert tree.centre(at) == c
        if held:
            assert tree.near()[0] == min(ends.right(c, radius) for _, c in held.values())
            assert tree.near()[1] == max(ends.left(c, radius) for _, c in held.values())
        if kind is BWTree:
            order = circular_order(order, held)


def circular_order(before: list[int], held: dict[int, list[Any]]) -> list[int]:
    """Theorem 3: those who were there before still follow one another on the circle; equal labels are one place."""
    order = sorted(held, key=lambda name: (held[name][0], name))
    if order:
        stayed = [name for name in before if name in held]
        now = [name for name in order if name in set(before)]
        place = {name: held[name][0] for name in held}
        labels, expected = [place[name] for name in now], [place[name] for name in stayed]
        turns = [expected[at:] + expected[:at] for at in range(max(1, len(expected)))]
        assert labels in turns, "the circular order of labels is static"
        lowest = min(c for _, c in held.values())
        centres = [held[name][1] for name in order]
        cuts = sum(a > b for a, b in zip(centres, [*centres[1:], centres[0]], strict=True))
        assert cuts <= 1, "once around, the centres ascend"
        assert lowest in centres
    return order


KINDS = ["add", "add", "add", "remove", "event", "event", "event", "reload"]
histories = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 100)), max_size=60)


@pytest.mark.parametrize("case", CASES)
@given(steps=histories)
@settings(max_examples=examples(40), deadline=None)
def test_a_history(case: str, steps: list[tuple[str, int]]) -> None:
    play(case, steps)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES)
def test_a_walk(case: str, seed: int) -> None:
    """Values that wander: many classes at a time, runs across the seam of the labels."""
    rng, at, steps = random.Random(seed), 0, []
    for _ in range(250):
        kind = rng.choices(["add", "remove", "event", "reload"], [40, 15, 44, 1])[0]
        at += rng.randint(-2, 2)
        steps.append((kind, at % 41 if kind == "event" else rng.randrange(1000)))
    play(case, steps)


def test_the_thesis_figure_of_six() -> None:
    """Figure 4.4: six centres, radius 11; from 19 to 24 the two lowest fire and come to stand after all the others."""
    tree = BWTree(Change(), 11)
    labels = [tree.add(centre)[0] for centre in (12, 13, 14, 16, 18, 19)]
    assert tree.event(24) == ((labels[0], labels[1]),)
    assert [tree.centre(label) for label in labels] == [24, 24, 14, 16, 18, 19]
    assert tree.centres[tree.boundary] == 14
    assert tree.add(24)[0] == labels[0]


def test_an_arc_across_the_seam_is_two() -> None:
    tree = BWTree(Change(), 10, [(0, [(LAST - 5, 1), (LAST, 1), (3, 1)]), (4, [(20, 1)])])
    assert tree.event(10) == ((3, 3), (LAST - 5, LAST))
    assert (tree.centre(3), tree.centre(LAST), tree.centre(20)) == (10, 10, 4)
    tree.check()


def test_rounding_may_bring_a_class_to_another_ones_value() -> None:
    """In doubles two centres can be a whole radius apart; firing then joins them, and the order still holds."""
    tree = BWTree(Change(exact=False), 0.7)
    high, _ = tree.add(0.8)
    low, _ = tree.add(0.1 + 2**-54)  # 0.8 - 0.7 is a little less than 0.1, and 0.1 + 0.7 is 0.8 sharp
    assert tree.event(0.8) == ((low, low),)
    assert len(tree) == 1
    assert tree.centre(low) == tree.centre(high) == 0.8
    tree.check()


def test_a_label_space_used_up_at_both_ends() -> None:
    held = ScatteredClasses(Percent(), 50, [(10, [(STEP - 1, 1)]), (11, [(LAST, 2)])])
    label, moved = held.add(12)
    assert moved
    held.check()
    assert sorted(held.centre(at) for at, _ in held.labels) == [10, 11, 12]
    assert held.centre(label) == 12


def test_what_is_not_there() -> None:
    for kind, ends in ((BWTree, Change()), (ScatteredClasses, Percent())):
        tree: Classes = kind(ends, 5)
        label, _ = tree.add(1)
        for question in (tree.centre, tree.remove):
            with pytest.raises(KeyError):
                question(label + 1)
        tree.remove(label)
        assert len(tree) == len(tree.labels) == 0
        tree.check()
