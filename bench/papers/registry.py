"""Every figure and table of the papers that is measured, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from bench.papers import chapter3, chapter4, chapter5, chapter6, updates
from bench.papers.model import Figure
from prosem.values.errors import SetupError

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for some in (chapter3.FIGURES, chapter4.FIGURES, chapter5.FIGURES, chapter6.FIGURES, updates.FIGURES)
    for figure in some
}


def chosen(names: Sequence[str]) -> list[Figure]:
    """The figures of these names, all without any; names may be joined by commas.

    >>> [figure.name for figure in chosen(["3.6,table 3.2"])]
    ['3.6', 'table 3.2']
    """
    wanted = [name.strip() for one in names for name in one.split(",")]
    if unknown := [name for name in wanted if name not in FIGURES]:
        raise SetupError(f"there is no figure {unknown[0]!r}; there are {', '.join(FIGURES)}")
    return [FIGURES[name] for name in wanted] or [*FIGURES.values()]


def parts_of(figures: Sequence[Figure]) -> dict[str, list[Figure]]:
    """The parts that figures are measured by, with the figures of each."""
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        if figure.part:
            found.setdefault(figure.part, []).append(figure)
    return found
