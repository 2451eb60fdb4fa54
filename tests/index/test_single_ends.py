"""Single subscriptions by their ends against a plain list of them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.index.radii.single_ends import SingleEnds
from tests.index.test_b2_tree import FORMS
from tests.support.effort import examples
from tests.types.test_may_must import FORMS as FREE


@pytest.mark.parametrize("name", [*FORMS, *(f"may and must, {name}" for name in FREE)])
@settings(max_examples=examples(15), deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_those_are_told_that_the_condition_says(name: str, chance: random.Random) -> None:
    form = FORMS.get(name) or FREE[name.removeprefix("may and must, ")]
    single, held = SingleEnds(form.ends), dict[int, tuple[Any, Any]]()
    values = [*form.values, None]
    for number in range(60):
        dice = chance.random()
        if dice < 0.4:
            radius, told = chance.choice(form.radii), chance.choice(values)
            single.add(number, radius, told)
            held[number] = radius, told
        elif dice < 0.5 and held:
            id = chance.choice(list(held))
            single.remove(id)
            del held[id]
        else:
            value = chance.choice(values)
            fired = dict(single.event(value))
            for id, (radius, told) in held.items():
                must = radius[1] if form.ends.loose else radius
                is_null = told is None or value is None
                is_far = is_null or form.condition(told, value, must)
                assert (id in fired) == (told != value and is_far)
                if id in fired:
                    assert fired[id] == told
                    held[id] = radius, value
        single.check()
        assert {id: (radius, told) for id, radius, told in single} == held
        assert all(single.told(id) == told for id, (_, told) in held.items())
