"""The curves of a report as a picture (the extra `plots`)."""

from __future__ import annotations

from pathlib import Path

from bench.common import Report
from prosem.errors import SetupError


def draw(report: Report, path: Path) -> None:
    """One diagram a curve, in one file; its ending says the format (png, svg, pdf)."""
    if not report.curves:
        raise SetupError(f"the bench {report.bench} has nothing to plot; leave --plot out")
    try:
        import matplotlib
    except ImportError:
        raise SetupError("plots need matplotlib: pip install prosem[plots]") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    count = len(report.curves)
    figure, axes = pyplot.subplots(1, count, figsize=(6 * count, 4), squeeze=False, layout="constrained")
    for axis, curve in zip(axes[0], report.curves, strict=True):
        for name, points in curve.lines.items():
            axis.plot([x for x, _ in points], [y for _, y in points], marker="o", label=name)
        axis.set(title=curve.title, xlabel=curve.x, ylabel=curve.y)
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend()
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise SetupError(f"the plot cannot be written to {path}: {error}") from error
    finally:
        pyplot.close(figure)
