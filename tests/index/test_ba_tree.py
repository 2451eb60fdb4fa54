"""The BA-tree against a plain list; the forms of ends; no drift."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.match import kernels
from prosem.index.radii import ba_tree, ba_tree_nodes, radius_block
from prosem.index.radii.ba_tree_ends import Change, Ends, Factor, Percent
from prosem.index.radii.ba_tree_runs import RadiusRuns
from prosem.index.radii.ba_tree_scan import RadiusArrays
from prosem.index.radii.packed_radii import PackedRadii
from prosem.index.radii.radius_block import RadiusBlocks
from tests.support.ba_tree import BATree
from tests.support.effort import examples
from tests.support.makers import COMPILED, is_built

FORMS: dict[str, tuple[Ends, list[Any], list[Any]]] = {
    "change": (Change(), list(range(15)), list(range(-15, 16))),
    "change of doubles": (Change(exact=False), [n / 10 for n in range(15)], [n / 10 for n in range(-30, 31)]),
    "percent": (Percent(scale=2), [1, 20, 50, 90, 199, 201, 300], list(range(-15, 30))),
    "percent of doubles": (
        Percent(exact=False),
        [0.5, 10.0, 33.3, 99.9, 120.0],
        [n / 10 for n in range(-30, 31)],
    ),
    "factor": (Factor(scale=10), [11, 12, 15, 20, 21, 40], list(range(-2, 50))),
    "factor of doubles": (Factor(exact=False), [1.01, 1.1, 1.21, 2.0, 3.0], [n / 10 for n in range(-2, 60)]),
}


STRUCTURES = ["runs", "arrays", pytest.param("compiled", marks=is_built)]


@contextmanager
def narrow_nodes(structure: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compiled", lambda: COMPILED if structure == "compiled" else None)
        patch.setattr(ba_tree, "BLOCK", 4)
        patch.setattr(ba_tree_nodes, "FAN_OUT", 4)
        patch.setattr(ba_tree_nodes, "LEAST", 2)
        patch.setattr(radius_block, "BLOCK", 4)
        patch.setattr(ba_tree, "MANY", 4 if structure == "arrays" else 10**9)
        patch.setattr(ba_tree, "SWITCH", -1)  # to the other form after every event
        yield


def expected(held: dict[Any, list[Any]], ends: Ends, d: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    begun = False
    for radius in sorted(held):
        centre = held[radius][0]
        if centre is None or d is None:
            hit = centre != d
        else:
            hit = d <= ends.left(centre, radius) or d >= ends.right(centre, radius)
        if hit:
            found[-1:] = [(found[-1][0], radius)] if begun else [*found[-1:], (radius, radius)]
            held[radius][0] = d
        begun = hit
    return found


def play(name: str, steps: list[tuple[str, int]]) -> None:
    ends, radii, values = FORMS[name]
    tree, held, value = BATree(ends, values[0]), dict[Any, list[Any]](), values[0]
    for step, choice in steps:
        radius = radii[choice % len(radii)]
        if step == "add":
            tree.add(radius)
            held.setdefault(radius, [value, 0])[1] += 1
        elif step == "remove" and radius in held:
            tree.remove(radius)
            held[radius][1] -= 1
            if not held[radius][1]:
                del held[radius]
        elif step in ("event", "vanish"):
            value = values[choice % len(values)] if step == "event" else None
            assert tree.event(value) == expected(held, ends, value)
        tree.check()
        assert len(tree) == sum(times for _, times in held.values())
        assert [(radius, tree.last_notified(radius)) for radius in held] == [
            (r, centre) for r, (centre, _) in held.items()
        ]


KINDS = ["add", "add", "remove", "event", "event", "event", "vanish"]
histories = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 100)), max_size=60)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", FORMS)
@given(steps=histories)
@settings(max_examples=examples(30), deadline=None)
def test_a_history(name: str, structure: str, steps: list[tuple[str, int]]) -> None:
    with narrow_nodes(structure):
        play(name, steps)


def test_what_is_not_there() -> None:
    tree = BATree(Change(), 0)
    tree.add(3)
    for question in (tree.remove, tree.last_notified):
        with pytest.raises(KeyError):
            question(4)
    assert (len(tree), tree.radii) == (1, 1)


# -- many radii, many events ---------------------------------------------------------------------------------
def drift(radii: Any, events: int, seed: int) -> None:
    """After all of them, every last notified value is the expected one, to the last bit."""
    rng = random.Random(seed)
    tree = BATree(Change(exact=False), 0.1).build((radius, 0.1) for radius in radii.tolist())
    centres, value = np.full(len(radii), 0.1), 0.1
    for number in range(events):
        value += rng.gauss(0.3, 1.0) if rng.random() < 0.99 else rng.gauss(0, 200)
        hit = (value >= centres + radii) | (value <= centres - radii)
        centres[hit] = value
        fired = tree.event(value)
        if number % 50 == 0 or number > events - 50:
            inside = np.zeros(len(radii), bool)
            for low, high in fired:
                inside[radii.searchsorted(low) : radii.searchsorted(high, "right")] = True
            assert (inside == hit).all(), number
    assert [tree.last_notified(radius) for radius in radii.tolist()] == centres.tolist()
    tree.check()


def some_radii(count: int) -> Any:
    return np.unique(np.abs(np.random.default_rng(11).normal(20, 40, count)) + 0.01)


@pytest.mark.parametrize("module", [None, pytest.param(COMPILED, marks=is_built)], ids=["python", "compiled"])
def test_no_drift(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "compiled", lambda: module)
    drift(some_radii(1_500), 20_000, 1)


@pytest.mark.slow
def test_no_drift_after_a_million_events() -> None:
    drift(some_radii(1_500), 1_000_000, 2)


def form(tree: BATree) -> Any:
    return type(tree._centres)


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "compiled", lambda: None)


@pytest.mark.usefixtures("in_python")
def test_the_quicker_form_is_used() -> None:
    """Arrays when no two neighbours have the same centre and hundreds fire; the tree again when few ranges do."""
    rng = random.Random(2)
    radii = range(10, 4_010)
    tree = BATree(Change(), 0).build((radius, 0) for radius in radii)
    assert form(tree) is RadiusRuns
    tree.build((radius, rng.randint(1 - radius, radius - 1)) for radius in radii)
    assert form(tree) is RadiusArrays
    for step in range(400):
        tree.event(step * 5_000 % 20_001)  # everybody, together
    assert form(tree) is RadiusRuns
    tree.check()


@is_built
def test_wide_integers_leave_the_compiled_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "compiled", lambda: COMPILED)
    tree = BATree(Change(), 0).build((radius, radius // 2) for radius in range(10, 3_010))
    assert form(tree) is COMPILED.IntegerRadii
    copied = deepcopy(tree)
    assert tree.event(2**80) == [(10, 3_009)]
    assert form(tree) is RadiusRuns
    assert (copied.last_notified(10), copied.event(7), copied.last_notified(10)) == (5, [], 5)
    assert form(copied) is COMPILED.IntegerRadii
    for one in (tree, copied):
        one.check()
    copied.add(2**70)
    assert form(copied) is RadiusRuns


@pytest.mark.usefixtures("in_python")
def test_wide_integers_leave_the_arrays() -> None:
    rng = random.Random(3)
    tree = BATree(Change(), 0).build(
        (radius, rng.randint(1 - radius, radius - 1)) for radius in range(10, 3_010)
    )
    assert form(tree) is RadiusArrays
    assert tree.event(2**80) == [(10, 3_009)]
    assert form(tree) is RadiusRuns
    tree.add(2**70)
    assert tree.event(2**80 + 10) == [(10, 10)]
    tree.check()


# -- ends ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", FORMS)
def test_arrays_of_ends_are_the_ends(name: str) -> None:
    ends, radii, values = FORMS[name]
    array = np.array(radii, np.int64 if ends.exact else np.float64)
    for c in values:
        rights, minus_lefts = ends.arrays(c, array)
        assert rights.tolist() == [ends.right(c, radius) for radius in radii]
        assert minus_lefts.tolist() == [-ends.left(c, radius) for radius in radii]
        assert all(ends.left(c, radius) < c < ends.right(c, radius) for radius in radii)
    column = np.array(values[:: max(1, len(values) // 5)][:5], array.dtype)
    both = ends.arrays(column, array[: len(column)])
    assert both[0].tolist() == [ends.right(c, r) for c, r in zip(column.tolist(), radii, strict=False)]
    assert both[1].tolist() == [-ends.left(c, r) for c, r in zip(column.tolist(), radii, strict=False)]


# -- radii in blocks -----------------------------------------------------------------------------------------
@given(st.booleans(), st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=80))
@settings(max_examples=examples(80), deadline=None)
def test_radii_in_blocks(is_packed: bool, steps: list[tuple[bool, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radius_block, "BLOCK", 4)
        held = set(range(0, 61, 7))
        blocks = PackedRadii("q", held) if is_packed else RadiusBlocks(held)
        for put, radius in steps:
            if put and radius not in held:
                blocks.add(radius)
                held.add(radius)
            elif not put and radius in held:
                blocks.remove(radius)
                held.remove(radius)
            blocks.check()
            assert list(blocks) == sorted(held)
            below, above = [n for n in held if n <= radius], [n for n in held if n > radius]
            around = max(below, default=None), min(above, default=None)
            assert blocks.around(radius) == around
            assert blocks.cut(lambda n, radius=radius: n > radius) == around  # type: ignore[misc]
            assert blocks.previous(radius) == max((n for n in held if n < radius), default=None)
            assert (blocks.next(radius), radius in blocks) == (around[1], radius in held)
