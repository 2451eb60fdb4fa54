"""The box index against a scan over all filters."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.match import fastint, partition
from cn.match.box_index import BoxIndex
from cn.match.fastint import ALTERNATIVES
from cn.model.geometry import INT64_MAX, INT64_MIN, Extent, Filters, Interval
from tests.support.effort import examples
from tests.support.makers import COMPILED, is_built

judged = pytest.mark.parametrize(
    "module", [pytest.param(None, id="python"), pytest.param(COMPILED, id="compiled", marks=is_built)]
)

INTEGERS, TEXTS = (0, 1, 2), (3, 4)  # attributes
integers = st.integers(0, 4) | st.sampled_from([-9, 40, INT64_MIN, INT64_MAX, 2**70, -(2**70)])
texts = st.text("ab", max_size=3) | st.sampled_from(
    ["", "abcdefg", "abcdefgh", "abcdefgi", "é", "\U0010ffff", "a\0"]
)


@st.composite
def extents(draw: st.DrawFn, codes: st.SearchStrategy[Any]) -> Extent:
    null = draw(st.booleans())
    shape = draw(st.sampled_from(["points", "interval", "without", "prefix"]))
    if shape == "points":
        members = sorted(draw(st.sets(codes, max_size=4)))
        return Extent(tuple(Interval(code, code) for code in members), null)
    if shape == "without":
        code = draw(codes)
        return Extent((Interval(None, code, False, True), Interval(code, None, True, False)), null)
    low, high = draw(st.none() | codes), draw(st.none() | codes)
    if shape == "prefix" and isinstance(low, str) and low and low[-1] < "\U0010ffff":
        return Extent((Interval(low, low[:-1] + chr(ord(low[-1]) + 1), False, True),), null)
    return Extent((Interval(low, high, draw(st.booleans()), draw(st.booleans())),), null)


conjunctions = st.fixed_dictionaries(
    {}, optional={at: extents(integers) for at in INTEGERS} | {at: extents(texts) for at in TEXTS}
)
filters = st.lists(conjunctions, max_size=3).map(tuple)
vectors = st.tuples(*[st.none() | integers for _ in INTEGERS], *[st.none() | texts for _ in TEXTS])


def scan(known: dict[int, Filters], vector: tuple[Any, ...]) -> list[int]:
    holds = lambda one: all(vector[attribute] in extent for attribute, extent in one.items())
    return sorted(id for id, several in known.items() if any(map(holds, several)))


@pytest.fixture(params=["usual", "small"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `small`, a few members already have trees, narrow intervals nodes, and cuts are renewed."""
    if request.param == "small":
        for module in (partition, fastint):
            monkeypatch.setattr(module, "MANY", 2)
        monkeypatch.setattr(fastint, "GAIN", 1)
        monkeypatch.setattr(partition, "ENOUGH", 0)
        monkeypatch.setattr(partition, "RENEW", 3)


@judged
@pytest.mark.usefixtures("sizes")
@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_any_history_agrees_with_a_scan(module: Any, data: st.DataObject) -> None:
    index, known = BoxIndex(module), dict[int, Filters]()
    fresh = data.draw(
        st.sampled_from([0, 505, -3, 10**12])
    )  # ids in the table, across its end, and beyond it
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["insert", "insert", "many", "update", "patch", "remove"]))
        if action == "insert":
            known[fresh] = data.draw(filters)
            index.insert(fresh, known[fresh])
            fresh += 1
        elif action == "many":
            several = data.draw(st.lists(filters, max_size=4))
            ids = range(fresh, fresh + len(several))
            index.insert_many(ids, several)
            known |= zip(ids, several, strict=True)
            fresh += len(several)
        elif known:
            other = data.draw(st.sampled_from(sorted(known)))
            if action == "remove":
                del known[other]
                index.remove(other)
            elif action == "patch" and known[other]:
                attribute = data.draw(st.sampled_from(INTEGERS))
                first = {**known[other][0], attribute: data.draw(extents(integers))}
                known[other] = (first, *known[other][1:])
                index.update(other, known[other])
            else:
                known[other] = data.draw(filters)
                index.update(other, known[other])
        index.check()
        assert len(index) == len(known)
        vector = data.draw(vectors)
        found = index.match(vector)
        assert sorted(found) == scan(known, vector)
        groups = [[vector, *some] for some in data.draw(st.lists(st.lists(vectors, max_size=2), max_size=3))]
        held = [sorted({id for one in some for id in scan(known, one)}) for some in groups]
        assert [sorted(ids) for ids in index.match_each(groups)] == held
    for id in known:
        index.remove(id)
    index.check()
    assert index.match((None,) * 5) == []
    assert index.match_each([]) == []


@judged
def test_no_filter_holds_nothing_and_an_empty_one_everything(module: Any) -> None:
    index = BoxIndex(module)
    index.insert(1, ())
    index.insert(2, ({},))
    index.insert(3, ({0: Extent(())},))
    index.check()
    assert index.match((None,)) == [2]
    assert len(index) == 3
    assert 3 in index


@judged
def test_ids_are_known_once(module: Any) -> None:
    index = BoxIndex(module)
    index.insert(1, ({},))
    with pytest.raises(KeyError):
        index.insert(1, ())
    with pytest.raises(KeyError):
        index.update(2, ())
    with pytest.raises(KeyError):
        index.remove(2)
    for ids in ([2, 1], [2, 2]):
        with pytest.raises(KeyError):
            index.insert_many(ids, [({},), ({},)])
    index.check()
    assert index.match(()) == [1]


@judged
@pytest.mark.parametrize("number", [int, lambda at: 10**12 + at, lambda at: at - 250, lambda at: 1000 * at])
def test_many_ids_are_found_once_by_several_vectors(module: Any, number: Any) -> None:
    """One is found at several places: by each of its filters, by each vector, in each part of its interval."""
    chance, index, known = random.Random(5), BoxIndex(module), dict[int, Filters]()
    for at in range(500):
        low = chance.randrange(100)
        wide: Filters = (
            {0: Extent((Interval(low, low + chance.randrange(60)),))},
            {1: Extent((Interval(at % 3, 9),))},
        )
        known[number(at)] = wide[: 1 + at % 2]
    index.insert_many(list(known), list(known.values()))
    groups = [[(chance.randrange(150), chance.randrange(5)) for _ in range(1 + at % 3)] for at in range(30)]
    held = [sorted({id for one in some for id in scan(known, one)}) for some in groups]
    assert [sorted(ids) for ids in index.match_each(groups)] == held
    assert max(map(len, held)) > 100


@judged
def test_an_equality_spares_the_scan(module: Any) -> None:
    chance = random.Random(3)
    index = BoxIndex(module)
    for id in range(5000):
        index.insert(id, ({0: Extent((Interval(id % 2, id % 2),)), 1: Extent((Interval(id, id),))},))
    for id in chance.sample(range(5000), 20):
        assert index.match((id % 2, id)) == [id]
    assert index.visits < 20 * 20  # the attribute with many codes was taken, not the one with two
    index.check()


KINDS = ["interval", "prefix", "shared prefix", "without", "set", "null"]


@judged
@pytest.mark.parametrize(
    "kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])]
)
def test_any_indexable_attribute_spares_the_scan(module: Any, kind: str) -> None:
    """Whatever the shape of a constraint, a match looks at a small part of the filters."""
    count, index = 6000, BoxIndex(module)

    def constraint(id: int) -> dict[int, Extent]:
        if kind == "interval":
            return {0: Extent((Interval(10 * id, 10 * id + 15),))}
        if kind in ("prefix", "shared prefix"):
            start = ("a long beginning that all share " if kind == "shared prefix" else "") + f"{id:05d}"
            return {1: Extent((Interval(start, start[:-1] + chr(ord(start[-1]) + 1), False, True),))}
        if kind == "without":
            excluded = Extent((Interval(None, 5, False, True), Interval(5, None, True, False)))
            return {0: excluded, 2: Extent((Interval(id, id + 3),))}
        if kind == "set":
            return {0: Extent(tuple(Interval(10 * code, 10 * code) for code in (id, id + 7, id + 9)))}
        return {0: Extent((Interval(10 * id, 10 * id),), null=id == 7)}

    known: dict[int, Filters] = {id: (constraint(id),) for id in range(count)}
    index.insert_many(range(count), list(known.values()))
    index.check()
    before = index.visits
    for id in range(3, count, count // 20):
        texts = {"shared prefix": f"a long beginning that all share {id:05d}!"}
        vector = (10 * id, texts.get(kind, f"{id:05d}!"), id)
        assert sorted(index.match(vector)) == scan(known, vector)
    assert (index.visits - before) / 20 < 900  # 768 of them came before it was known what is narrow
    if kind == "null":
        assert index.match((None, "", 0)) == [7]


@judged
def test_long_lists_of_codes_stand_at_the_root(module: Any) -> None:
    index = BoxIndex(module)
    long = Extent(tuple(Interval(code, code) for code in range(0, 2 * ALTERNATIVES + 2, 2)))
    index.insert(1, ({0: long},))
    index.check()
    assert index.match((2 * ALTERNATIVES,)) == [1]
    assert index.match((2 * ALTERNATIVES - 1,)) == []
    assert index.match((2 * ALTERNATIVES + 1,)) == []


@judged
def test_many_attributes_keep_their_nulls(module: Any) -> None:
    """Beyond 64 columns a refusal of NULL has no bit and is asked of the extent."""
    index, known = BoxIndex(module), dict[int, Filters]()
    for attribute in range(90):
        known[attribute] = ({attribute: Extent((Interval(None, 5),), null=attribute % 3 == 0)},)
        index.insert(attribute, known[attribute])
    index.check()
    for vector in ((None,) * 90, (5,) * 90, (6,) * 90, (None, 5, 6) * 30):
        assert sorted(index.match(vector)) == scan(known, vector)
