"""The benchmarks by name."""

from __future__ import annotations

from bench import end_to_end, range_min
from bench.common import Bench

BENCHES: dict[str, tuple[Bench, str]] = {
    "range-min": (range_min.run, "messages and µs per event: reformulation, enumeration, scan (thesis 3.5)"),
    "end-to-end": (
        end_to_end.run,
        "events/s accepted, changes/s delivered, latency, beside raw COPY and WebSocket",
    ),
}
