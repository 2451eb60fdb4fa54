"""SELECT with a filter."""

from prosem.types.base import SubscriptionType
from prosem.types.filter.form import FilterType

TYPES: tuple[SubscriptionType, ...] = (FilterType(),)
