"""The progress of a follower: for the terminal and for the metrics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass
class Progress:
    state: str = "starting"
    rows: int = 0
    """copied from the snapshot"""
    transactions: int = 0
    events: int = 0
    position: int = 0
    lag_bytes: int = 0
    """log of the source that is not applied"""
    lag_s: float = 0.0
    """time since the source committed the oldest transaction that has arrived and is not applied"""
    kept_bytes: int = 0
    safe_bytes: int | None = None
    """log that the source may still write before it gives the slot up; None: no limit"""
    committed: datetime | None = None
    """when the source committed the last transaction"""
    losses: int = 0
    """times that the source was lost"""
