"""Select-joins of two to six tables."""

from prosem.types.base import SubscriptionType
from prosem.types.join.form import JoinType

TYPES: tuple[SubscriptionType, ...] = (JoinType(),)
