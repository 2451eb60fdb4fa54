"""How many examples Hypothesis tries where a test says so itself."""

from __future__ import annotations

from hypothesis import settings

SHORT, STRESS = 15, 200  # where a test does not say


def examples(number: int) -> int:
    """So many in `make stress`; a third of them in `make test`, but no less than other tests try."""
    return number if settings.default.max_examples >= STRESS else min(number, max(SHORT, number // 3))
