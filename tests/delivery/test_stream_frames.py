"""Frames of many items, against one at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.http.websocket_frames import text_frame
from prosem.delivery.stream_frames import frame, frames
from prosem.delivery.subscriber import Item
from prosem.values.wire import encode

ids = st.sampled_from(["sub-1", "sub-2", 'a "quoted" name', "über"])
bodies = st.sampled_from([b"{}", b'{"value":1}', b'{"value":null}', b'{"add":[]}' + b" " * 200])


@st.composite
def items(draw: st.DrawFn) -> Item:
    kind = draw(st.sampled_from(["change", "change", "change", "snapshot", "raw", "error", "progress"]))
    if kind == "progress":
        return Item(kind, None, draw(st.integers(1, 3)), b"", "t1")
    id = draw(ids)
    return Item(kind, id, draw(st.integers(1, 3)), draw(bodies), "t1", b'{"id":%b' % encode(id))


@given(st.lists(items(), max_size=12))
def test_many_are_as_one_at_a_time(given: list[Item]) -> None:
    assert [*frames(given)] == [frame(item) for item in given]


@given(st.integers(0, 70_000))
def test_a_text_frame_says_its_size(size: int) -> None:
    made = text_frame(b"x" * size)
    short = made[1]
    head, said = (
        (2, short)
        if short < 126
        else (4, int.from_bytes(made[2:4]))
        if short == 126
        else (10, int.from_bytes(made[2:10]))
    )
    assert (made[0], said, len(made)) == (0x81, size, head + size)
