"""A plot per figure, as SVG: lines over an axis, or bars of the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.common import Curve
from bench.papers.model import Axes, Comparison, Figure, Lines, values
from bench.plots import draw_axis, saved

ASIDE = (
    "affected",
    "not affecting",
    "not ignorable",
    "affecting none, %",
    "most affected",
)  # columns that are no line


def draw(figure: Figure, data: dict[str, Any], path: Path) -> None:
    """The plot of a figure's lines, or where they have no axis, of what is compared."""
    axes = figure.axes
    if axes is None:
        _bars(figure.compare(data), path)
        return
    curve = curve_of(figure.title, figure.lines(data), axes)
    saved(path, lambda axis: draw_axis(axis, curve))


def curve_of(title: str, lines: Lines, axes: Axes) -> Curve:
    """A line per column that has numbers.

    >>> curve_of("", [{"x": 1, "a": 2, "b": "-"}], Axes("x", "y")).lines
    {'a': [(1.0, 2.0)]}
    """
    names = axes.columns or [name for name in lines[0] if name != axes.by and name not in ASIDE]
    placed = [line for line in lines if values([line], axes.by)]
    drawn = {
        name: [(float(line[axes.by]), float(line[name])) for line in placed if values([line], name)]
        for name in names
    }
    named = {name: points for name, points in drawn.items() if points}
    return Curve(title, axes.by.replace("_", " "), axes.y, named, axes.logarithmic)


def _bars(compared: Sequence[Comparison], path: Path) -> None:
    def put(axis: Any) -> None:
        places = range(len(compared))
        paper = [one.paper if isinstance(one.paper, float | int) else 0 for one in compared]
        axis.barh([place + 0.2 for place in places], paper, 0.4, label="paper", color="0.7")
        ours = [one.ours if isinstance(one.ours, float | int) else 0 for one in compared]
        axis.barh([place - 0.2 for place in places], ours, 0.4, label="ours")
        axis.set_yticks([*places], [one.what for one in compared], fontsize="x-small")
        axis.invert_yaxis()
        positive = [value for value in (*paper, *ours) if value > 0]
        axis.set_xscale("log")
        axis.set_xlim(left=min(positive, default=1) / 2)
        axis.grid(alpha=0.3, axis="x")
        axis.legend(fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

    saved(path, put, height=1.5 + 0.28 * max(4, len(compared)))
