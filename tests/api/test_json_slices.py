"""Large JSON documents are decoded in slices: the values and the refusals are those of the decoder."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.http import json_slices
from api.http.json_slices import decode, decode_large
from prosem.values.errors import MalformedError
from tests.support.effort import examples

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["", ",", "],[", "},{", '"', "[{", "a\\"])
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.sampled_from("ab,"), inner, max_size=3),
    max_leaves=40,
)
SPACING = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")])


@settings(max_examples=examples(300))
@given(DOCUMENTS, SPACING, st.integers(1, 20), st.data())
async def test_values_and_refusals_are_those_of_the_decoder(
    document: object, spacing: tuple[str, str], small_bytes: int, data: st.DataObject
) -> None:
    text = json.dumps(document, separators=spacing)
    assert await decode_large(text, small_bytes) == document
    at = data.draw(st.integers(0, len(text)))
    changed = text[:at] + data.draw(st.sampled_from(["", ",", "]", "[", "}", '"', "1", " "])) + text[at + 1 :]
    try:
        expected = decode(changed)
    except MalformedError:
        with pytest.raises(MalformedError):
            await decode_large(changed, small_bytes)
    else:
        assert await decode_large(changed, small_bytes) == expected


async def test_many_small_members_take_no_more_memory_than_their_values() -> None:
    """`1,1,1,…`: members that are split one by one would take many times as much."""
    text = b'{"events": [' + b"1," * 2_000_000 + b"1]}"
    tracemalloc.start()
    try:
        found = await decode_large(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found["events"]) == 2_000_001
    assert peak < 100 << 20


@pytest.mark.parametrize("end", [b"]", b" ]", b",]", b", 1", b"] 1"])
async def test_the_end_of_a_large_array_is_checked(end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_slices, "NEAR_BYTES", 64)
    text = b"[" + b",".join([b'{"a": [1, {"b": "},{"}]}'] * 200) + end
    if end.strip() == b"]":
        assert await decode_large(text, 100) == [{"a": [1, {"b": "},{"}]}] * 200
    else:
        with pytest.raises(MalformedError, match="not valid JSON"):
            await decode_large(text, 100)
