"""Top-k: the first rows of a range by an order."""

from prosem.types.base import SubscriptionType
from prosem.types.top_k.form import TopKType

TYPES: tuple[SubscriptionType, ...] = (TopKType(),)
