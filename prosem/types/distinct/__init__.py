"""SELECT DISTINCT over a range."""

from prosem.types.base import SubscriptionType
from prosem.types.distinct.form import DistinctType

TYPES: tuple[SubscriptionType, ...] = (DistinctType(),)
