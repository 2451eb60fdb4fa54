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
def test_those_are_notified_that_the_condition_says(name: str, chance: random.Random) -> None:
    form = FORMS.get(name) or FREE[name.removeprefix("may and must, ")]
    single, held = SingleEnds(form.ends), dict[int, tuple[Any, Any]]()
    values = [*form.values, None]
    for number in range(60):
        dice = chance.random()
        if dice < 0.4:
            radius, last_notified = chance.choice(form.radii), chance.choice(values)
            single.add(number, radius, last_notified)
            held[number] = radius, last_notified
        elif dice < 0.5 and held:
            id = chance.choice(list(held))
            single.remove(id)
            del held[id]
        else:
            value = chance.choice(values)
            fired = dict(single.event(value))
            for id, (radius, last_notified) in held.items():
                must = radius[1] if form.ends.loose else radius
                is_null = last_notified is None or value is None
                is_far = is_null or form.condition(last_notified, value, must)
                assert (id in fired) == (last_notified != value and is_far)
                if id in fired:
                    assert fired[id] == last_notified
                    held[id] = radius, value
        single.check()
        assert {id: (radius, last_notified) for id, radius, last_notified in single} == held
        assert all(single.last_notified(id) == last_notified for id, (_, last_notified) in held.items())
