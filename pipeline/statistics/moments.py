"""`--since`: a moment, or a span back from now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pipeline.statistics import StatisticsError

_SPAN = re.compile(r"(\d+)\s*([dhm])")


def moment(text: str, now: datetime | None = None) -> datetime | None:
    """A moment in ISO 8601, or a span back from now; an empty text is none.

    >>> moment("2026-01-31T12:00:00Z").isoformat()
    '2026-01-31T12:00:00+00:00'
    >>> moment("7d", datetime(2026, 1, 31, tzinfo=UTC)).isoformat()
    '2026-01-24T00:00:00+00:00'
    """
    if not text:
        return None
    span = _SPAN.fullmatch(text.strip())
    if span is not None:
        unit = {"d": "days", "h": "hours", "m": "minutes"}[span[2]]
        try:
            return (now or datetime.now(UTC)) - timedelta(**{unit: int(span[1])})
        except (OverflowError, ValueError):  # Python limits the digits of a number
            raise StatisticsError(f"--since takes a span within the calendar, got {text[:40]!r}") from None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise StatisticsError(
            f"--since takes a moment like 2026-01-31T12:00:00Z or a span like 7d, 12h or 30m, got {text!r}"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
