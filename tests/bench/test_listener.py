"""The listeners of the benchmarks count what a real server sends."""

from __future__ import annotations

from bench.listener import Listener
from tests.support.live import Api, lowest, upsert


def test_a_listener_counts_changes_and_follows_progress(server: str) -> None:
    with Api(server) as api:
        table = api.table({"k": "integer", "x": "integer", "y": "integer"}, ["k"])
        ids = [lowest(api, table, lo, lo + 5) for lo in range(8)]
        with Listener(server, ids, sockets=2) as listener:
            listener.wait_attached()
            for y in (9, 7, 5):
                seq = api.publish(table, [upsert(k=1, x=5, y=y)])["last_seq"]
            listener.wait_progress(seq)
            assert listener.count() == 3 * 6, "six ranges hold 5"
            assert listener.arrival(seq, 1.0) is not None
