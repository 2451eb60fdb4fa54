"""Types of events as paths: a subscription to a type gets its subtypes ([Multi-stage] 2.2)."""

from __future__ import annotations

from cn.model.geometry import Extent, Interval

SEPARATOR, AFTER = "/", "0"  # the character after the separator


def subtypes(path: str) -> Extent:
    """The codes of a type and of all its subtypes, those to come too: an event's code is the path of its own type.

    >>> stocks = subtypes("Stock")
    >>> "Stock" in stocks, "Stock/Tech" in stocks, "Stocking" in stocks, "Auction" in stocks
    (True, True, False, False)
    """
    below = Interval(path + SEPARATOR, path + AFTER, high_open=True)
    return Extent((Interval(path, path), below))
