"""What a measurement says of time: also that which an event's earlier spaces took, and that on the way."""

from __future__ import annotations

from typing import Any

from cn.model.message import Message
from optimizer.choose import Chooser
from optimizer.cost import STRAIGHT, TREE, Carriage
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.engine.traffic import Traffic
from prosem.language.parse import parse
from prosem.runtime.clock import ManualClock
from prosem.runtime.metrics import Metrics

WAYS = {TREE: Carriage(1, 3, 700.0), STRAIGHT: Carriage(3, 3, 200.0)}


class TickingClock(ManualClock):
    """A microsecond passes whenever it is read."""

    def elapsed_ns(self) -> int:
        self.advance(1e-6)
        return super().wall_ns()

    cpu_ns = elapsed_ns


def test_response_time_includes_the_spaces_before_and_the_way() -> None:
    traffic = Traffic()
    # So busy with events that every one of them is measured.
    state = EngineState(Chooser(share=1e9), Metrics(), clock=TickingClock(), traffic=traffic)
    columns = [{"name": name, "type": "integer"} for name in ("k", "x", "y")]
    state.execute(c.CreateTable({"name": "t", "columns": columns, "primary_key": ["k"]}))
    for what in ("COUNT(*)", "AVG(y)", "SUM(y)"):
        rows: Any = [(f"{what} {at}", {"a": at, "b": 9}) for at in range(5)]
        query = parse(f"SELECT {what} FROM t WHERE x BETWEEN :a AND :b")
        state.execute(c.Subscribe(query, None, rows, batch=True))
    for number in range(4):
        if number == 2:
            traffic.sent(Message(1, 0, 99, "row"), TREE, WAYS, 10.0)
        state.begin()
        order = [space.network.id for space in state.chooser.order([*state.spaces.values()])]
        state.execute(c.Publish("t", [{"op": "insert", "row": {"k": number, "x": 5, "y": number}}]))
        waited: dict[int, set[float]] = {}
        for entry in state.batch.writes.measurements:
            _, _, _, space, plan, _, server_time_us, send_us, _, network_bytes, latency_us, _ = entry
            way = STRAIGHT if plan.endswith(STRAIGHT) else TREE
            way_us = WAYS[way].way_us if number >= 2 else 0.0
            assert (network_bytes > 0) == (number >= 2)
            waited.setdefault(space, set()).add(round(latency_us - server_time_us - send_us / 2 - way_us))
        assert waited.keys() == set(order)
        times = [max(waited[space]) for space in order]
        assert all(len(some) == 1 for some in waited.values()), "the same under all plans and ways"
        assert 0 <= times[0] < times[1] < times[2], (order, waited)
