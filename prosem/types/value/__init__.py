"""Value notification."""

from prosem.types.base import SubscriptionType
from prosem.types.value.form import ValueType

TYPES: tuple[SubscriptionType, ...] = (ValueType(),)
