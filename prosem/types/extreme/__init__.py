"""Range MIN and MAX."""

from prosem.types.base import SubscriptionType
from prosem.types.extreme.recognition import ExtremeType

TYPES: tuple[SubscriptionType, ...] = (ExtremeType("MIN"), ExtremeType("MAX"))
