"""Range COUNT, SUM and AVG."""

from prosem.types.base import SubscriptionType
from prosem.types.sums.form import SumType

TYPES: tuple[SubscriptionType, ...] = (SumType("COUNT"), SumType("SUM"), SumType("AVG"))
