"""Answers that are made when they are asked for are those of a fold from scratch, whenever that is."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prosem_client.folding import Rows, fold
from prosem_client.query import Shape
from prosem_client.values import Change
from prosem_client.versions import LEAST, Version, Versions, resolved

from tests.support.effort import rounds

KEY = Shape(("k",), None, ())


def changes(chance: random.Random, rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Changes of an answer, each valid after the ones before."""
    there, made = {row["k"] for row in rows}, []
    for number in range(count):
        change: dict[str, Any] = {}
        for key in chance.sample(range(30), chance.randint(1, 3)):
            verb = chance.choice(("remove", "update")) if key in there else "add"
            change.setdefault(verb, []).append({"k": key} if verb == "remove" else {"k": key, "v": number})
            (there.discard if verb == "remove" else there.add)(key)
        made.append(change)
    return made


@given(st.integers(0, 10**6))
def test_versions_are_read_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    result: dict[str, Any] = {"rows": [{"k": k, "v": -1} for k in chance.sample(range(30), 8)]}
    made = changes(chance, result["rows"], chance.choice((3, 40, 2 * LEAST + 10)))
    versions, expected, given = Versions(result, KEY), [], []
    for change in made:
        result = fold(result, change, ("k",))
        expected.append(result)
        given.append(versions.fold(change))
        if chance.random() < 0.1:
            assert resolved(given[-1]) == result, "the newest one"
    order = chance.sample(range(len(made)), len(made))
    assert [resolved(given[at]) for at in order] == [expected[at] for at in order]
    assert [resolved(one) for one in given] == expected, "the same again"


def test_what_is_not_asked_for_is_not_made(monkeypatch: Any) -> None:
    copies, result = list[int](), Rows.result

    def counted(self: Rows) -> Any:
        copies.append(1)
        return result(self)

    monkeypatch.setattr(Rows, "result", counted)
    versions = Versions({"rows": [{"k": k} for k in range(1_000)]}, KEY)
    items = [Change("s", k, None, versions.fold({"add": [{"k": k}]})) for k in range(1_000, 3_000)]
    assert len(copies) == 1, "one for as many changes as there were rows"
    assert len(items[-1].result["rows"]) == 3_000  # type: ignore[index]
    assert items[-1].result is items[-1].result


def test_a_version_that_is_kept_holds_no_more_than_twice_its_answer() -> None:
    versions = Versions({"rows": []}, KEY)
    kept = versions.fold({"add": [{"k": 0}]})
    for k in range(1, 10 * LEAST):
        last = versions.fold({"add": [{"k": k}]})
    assert isinstance(last, Version)
    length, version = 0, last
    while version._previous is not None:
        length, version = length + 1, version._previous
    assert length <= 10 * LEAST
    assert resolved(kept) == {"rows": [{"k": 0}]}


def test_answers_are_read_while_others_are_folded() -> None:
    versions, faults = Versions({"rows": [{"k": k} for k in range(500)]}, KEY), list[Any]()
    folded: list[tuple[int, Any]] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            for k, version in folded[-3:]:
                if len((resolved(version) or {})["rows"]) != k + 1:
                    faults.append(k)

    thread = threading.Thread(target=read)
    thread.start()
    for k in range(500, 500 + rounds(2_000)):
        folded.append((k, versions.fold({"add": [{"k": k}]})))
    is_over.set()
    thread.join()
    assert not faults


def test_an_item_is_copied_pickled_and_compared_with_its_answer() -> None:
    """As before answers were made when they are asked for."""
    versions = Versions({"rows": [{"k": 1}]}, KEY)
    item = Change("s", 1, {"add": [{"k": 2}]}, versions.fold({"add": [{"k": 2}]}))
    versions.fold({"remove": [{"k": 1}]})
    same = Change("s", 1, {"add": [{"k": 2}]}, {"rows": [{"k": 1}, {"k": 2}]})
    assert item == same
    for other in (pickle.loads(pickle.dumps(item)), copy.deepcopy(item)):
        assert other == item
        assert other.result == {"rows": [{"k": 1}, {"k": 2}]}
    assert item != Change("s", 1, {"add": [{"k": 2}]}, {"rows": []})
