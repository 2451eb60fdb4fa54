"""How often Python looks for garbage in a process with a large state."""

from __future__ import annotations

# A full collection walks every row and stream, which takes a tenth of a second and more, and finds next to nothing.
COLLECT = (50_000, 20, 1_000)
