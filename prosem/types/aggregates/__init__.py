"""Several aggregates in one SELECT, and GROUP BY with HAVING."""

from prosem.types.aggregates.recognition import GroupByType, SeveralType
from prosem.types.base import SubscriptionType

TYPES: tuple[SubscriptionType, ...] = (SeveralType(), GroupByType())
