"""The curves of a report as a picture (the extra `plots`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.common import Curve, Report
from prosem.values.errors import SetupError

MARKED_POINTS = 50  # a line of more is drawn without markers


def draw(report: Report, path: Path) -> None:
    """One diagram a curve: in one file, whose ending says the format (png, svg, pdf), or in a folder, a png each."""
    if not report.curves:
        raise SetupError(f"the bench {report.bench} has nothing to plot; leave --plot out")
    if path.suffix:
        draw_curves(report.curves, path)
        return
    for curve in report.curves:
        name = re.sub(r"[^a-z0-9.]+", "-", f"{report.bench} {curve.title}".lower()).strip("-.")
        draw_curves([curve], path / f"{name}.png")


def draw_curves(curves: Sequence[Curve], path: Path) -> None:
    """One diagram per curve, side by side in one file."""

    def put(axes: Any) -> None:
        for axis, curve in zip(axes, curves, strict=True):
            draw_axis(axis, curve)

    _saved(path, put, len(curves), 4)


def saved(path: Path, put: Callable[[Any], None], height: float = 4) -> None:
    """One diagram in a file, as `put` draws it; the same data make the same bytes of an SVG."""
    _saved(path, lambda axes: put(axes[0]), 1, height)


def _saved(path: Path, put: Callable[[Any], None], count: int, height: float) -> None:
    try:
        import matplotlib
    except ImportError:
        raise SetupError("plots need matplotlib: pip install prosem[plots]") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams |= {"svg.hashsalt": "prosem", "svg.fonttype": "none"}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure, axes = pyplot.subplots(
            1, count, figsize=(6 * count, height), squeeze=False, layout="constrained"
        )
        try:
            put(axes[0])
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=150, metadata=metadata)
        finally:
            pyplot.close(figure)
    except (OSError, ValueError) as error:
        raise SetupError(f"the plot cannot be written to {path}: {error}") from error


def draw_axis(axis: Any, curve: Curve) -> None:
    """The lines of one diagram."""
    for name, points in curve.lines.items():
        marker = "o" if len(points) <= MARKED_POINTS else None
        axis.plot([x for x, _ in points], [y for _, y in points], marker=marker, label=name)
    for at in curve.marks:
        axis.axvline(at, color="gray", linestyle=":", linewidth=0.8)
    axis.set(title=curve.title, xlabel=curve.x, ylabel=curve.y)
    if "x" in curve.logarithmic:
        axis.set_xscale("log", nonpositive="mask")
    else:
        axis.set_xlim(left=0)
    if "y" in curve.logarithmic:
        axis.set_yscale("log", nonpositive="mask")
    else:
        axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
