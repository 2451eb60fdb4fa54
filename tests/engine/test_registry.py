"""The registry of subscriptions against a dictionary, and the ids it gives."""

from __future__ import annotations

import tracemalloc
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from prosem.engine import subscriptions as module
from prosem.engine.subscriptions import SubscriptionRegistry
from tests.support.effort import examples

NAMES = st.sampled_from(["a", "b", "sub-0", "sub-x", "sub-01", "SUB-1", "é", "sub-1 "])


class Entry(NamedTuple):
    id: str
    group: int
    statement: int
    params: bytes
    created: int
    durable: bool
    frozen: bytes | None


class Registered(RuleBasedStateMachine):
    """Put, remove, move and suspend in any order; the model is a dictionary by sid."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = SubscriptionRegistry()
        self.model: dict[int, Entry] = {}
        self.used: set[int] = set()

    @rule(
        name=st.none() | NAMES,
        numbers=st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**62)),
        params=st.binary(max_size=3),
        durable=st.booleans(),
        frozen=st.none() | st.binary(min_size=1, max_size=2),
    )
    def put(
        self, name: str | None, numbers: tuple[int, int, int], params: bytes, durable: bool, frozen: Any
    ) -> None:
        sid = self.registry.next_sid
        assert sid not in self.used, "a sid is never used again"
        id = name if name is not None and self.registry.sid(name) is None else f"sub-{sid}"
        group, statement, created = numbers
        self.registry.put(sid, id, group, statement, params, created, durable, frozen)
        self.model[sid] = Entry(id, group, statement, params, created, durable, frozen)
        self.used.add(sid)

    @rule(ahead=st.integers(0, 5))
    def reserve(self, ahead: int) -> None:
        wanted = self.registry.next_sid + ahead
        self.registry.reserve(wanted)
        self.registry.reserve(1)  # less than there is changes nothing
        assert self.registry.next_sid == wanted

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        sid = data.draw(st.sampled_from(sorted(self.model)))
        self.registry.remove(sid)
        entry = self.model.pop(sid)
        assert self.registry.sid(entry.id) is None

    @precondition(lambda self: self.model)
    @rule(data=st.data(), params=st.binary(max_size=3), frozen=st.none() | st.binary(min_size=1, max_size=2))
    def change(self, data: st.DataObject, params: bytes, frozen: bytes | None) -> None:
        sid = data.draw(st.sampled_from(sorted(self.model)))
        self.registry.set_params(sid, params)
        self.registry.freeze(sid, frozen)
        self.model[sid] = self.model[sid]._replace(params=params, frozen=frozen)

    @invariant()
    def equal(self) -> None:
        registry = self.registry
        assert len(registry) == len(self.model)
        assert list(registry.sids()) == sorted(self.model)
        for sid, entry in self.model.items():
            assert registry.sid(entry.id) == sid
            assert entry == Entry(
                registry.id(sid),
                registry.group(sid),
                registry.statement(sid),
                registry.params(sid),
                registry.created(sid),
                registry.is_durable(sid),
                registry.frozen(sid),
            )


class TestRegistered(Registered.TestCase):  # type: ignore[misc, name-defined]  # made by hypothesis
    settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Slots that were given up are taken out soon."""
        monkeypatch.setattr(module, "_FEW", 2)


@pytest.mark.slow
def test_deleted_subscriptions_cost_nothing() -> None:
    """As after a restart (`reserve`), and while others stay."""
    tracemalloc.start()
    try:
        registry = SubscriptionRegistry()
        registry.reserve(1_000_001)
        for round in range(20):
            sids = range(registry.next_sid, registry.next_sid + 5_000)
            for sid in sids:
                registry.put(sid, f"sub-{sid}", 1, 1, b"{}", 0, True, None)
            for sid in sids[round:]:
                registry.remove(sid)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(registry) == sum(range(20))
    assert registry.next_sid == 1_100_001
    assert used < 500_000


def test_ids_of_the_server_are_distinguished_from_chosen_ones() -> None:
    reserved = [
        id
        for id in ("sub-1", "sub-10", "sub-0", "sub-01", "sub-", "sub-1x", "xsub-1")
        if SubscriptionRegistry.is_reserved(id)
    ]
    assert reserved == ["sub-1", "sub-10"]


def test_a_given_id_does_not_lead_to_a_subscription_with_a_chosen_one() -> None:
    registry = SubscriptionRegistry()
    registry.put(1, "mine", 1, 1, b"{}", 0, True, None)
    assert registry.sid("sub-1") is None
    assert registry.sid("mine") == 1
    assert registry.sid("sub-999999999999999") is None
    assert registry.sid("sub-" + "9" * 400) is None
    assert registry.sid("sub-2") is None
