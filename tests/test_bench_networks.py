"""The bench of networks in miniature, and the filters of approximate enumeration."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.networks import NETWORKS, Setting, _range_min
from cn.networks.bloom import Filter, LinkFilter

some_ids = st.sets(st.integers(0, 10**6), max_size=60)


def test_every_network_is_measured_on_the_same_events() -> None:
    rows = {row["network"]: row for row in _range_min(Setting(300, 8), 300, 60)}
    assert rows.keys() == {"one by one", *NETWORKS, "can, relaxed"}
    assert rows["unicast"]["overlay_hops"] <= rows["one by one"]["overlay_hops"]
    assert rows["cbn"]["overlay_hops"] == rows["multicast"]["overlay_hops"] > 0
    assert all(row["ip_hops"] >= row["overlay_hops"] for row in rows.values())


@given(some_ids, some_ids, some_ids)
def test_filters_that_share_an_id_meet(affected: set[int], beyond: set[int], gone: set[int]) -> None:
    link = LinkFilter()
    for id in [*beyond, *(gone - beyond)]:
        link.add(id)
    for id in gone - beyond:
        link.remove(id)
    link.check([*beyond])
    made = Filter.of(affected)
    read = Filter.read(made.write())
    assert (read.width, read.parts) == (made.width, made.parts)
    assert link.meets(read) or not affected & beyond
    assert not LinkFilter().meets(read)
