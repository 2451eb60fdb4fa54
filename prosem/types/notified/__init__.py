"""Notify on an aggregate: MIN, MAX, COUNT, SUM and AVG that are notified when they have moved far enough."""

from __future__ import annotations

from prosem.types.notified.recognition import NotifiedType

TYPES = (NotifiedType(),)
