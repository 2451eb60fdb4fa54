"""`prosem bench papers`: measures parts, keeps what they found, and makes a page of all that is kept.

Parts that count run side by side, one per core; parts that measure times run one after another, with nothing beside them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from bench.common import Report, load_average, on_all_cores, progress
from bench.kept import keep, kept
from bench.papers import pictures
from bench.papers.model import Figure
from bench.papers.parts import PARTS, setting
from bench.papers.registry import FIGURES, chosen, parts_of
from bench.papers.report import page
from bench.papers.results import Result, Took, result_of

OUT = Path("docs/papers.md")
KEYS = ("ProSem thesis", "Beretta", "Parametric", "Multi-stage", "Siena")


def run(quick: bool, only: Sequence[str] = (), out: Path = OUT, measure: bool = True) -> Report:
    """Measure the parts of these figures, unless only the page is to be made of what is kept."""
    figures = chosen(only)
    report = Report("papers", {"quick": quick, "only": list(only), "out": str(out)})
    folder = out.parent / out.stem
    if measure:
        parts = parts_of(figures)
        counting = [name for name in parts if PARTS[name].counts]
        count(folder, {name: parts[name] for name in counting}, quick)
        write(out, counting)
        for name, some in parts.items():
            if name not in counting:
                keep(folder, measured(name, some, quick))
                write(out, [name])  # after each part: what comes later may fail
    else:
        write(out, PARTS)
    results = kept(folder, Result)
    rows = [
        {
            "figure": figure.name,
            "measured": results[figure.part].date if figure.part in results else "-",
            "size": results[figure.part].size if figure.part in results else "-",
            "compared": len(compared),
            "differ": sum(one.differs for one in compared),
        }
        for figure in figures
        for compared in [figure.compare(results[figure.part].figures) if figure.part in results else []]
    ]
    report.figures = {"figures": rows}
    report.tables = [(f"the papers' figures, in {out}", rows)]
    return report


def count(folder: Path, parts: Mapping[str, Sequence[Figure]], quick: bool) -> None:
    """Measure these parts side by side, those that took most when they were measured last first; each is kept at once."""
    if any(name.startswith("networks-") for name in parts):
        setting(quick)
    before = kept(folder, Result)
    dearest = sorted(
        parts, key=lambda name: before[name].cpu_seconds if name in before else 0.0, reverse=True
    )
    on_all_cores(lambda name: keep(folder, measured(name, parts[name], quick)), dearest)


def measured(name: str, figures: Sequence[Figure], quick: bool) -> Result:
    part, command = PARTS[name], figures[0].command + (" --quick" if quick else "")
    progress(f"papers: {name}, for {', '.join(figure.called for figure in figures)}")
    load, begun, busy = load_average(), time.perf_counter(), _cpu_s()
    found = part.measure(quick)
    took = Took(time.perf_counter() - begun, _cpu_s() - busy)
    return result_of(name, part, found, quick, command, [load, load_average()], took)


def _cpu_s() -> float:
    """CPU time so far, with that of processes that were started and have ended."""
    return sum(os.times()[:4])


def write(out: Path, drawn: Container[str]) -> None:
    """The page from what is kept, and the plots of these parts."""
    results = kept(out.parent / out.stem, Result)
    images = out.parent / "images" / "papers"
    figures = [*FIGURES.values()]
    for figure in figures:
        if figure.part in results and figure.part in drawn:
            pictures.draw(figure, results[figure.part].figures, images / f"{figure.slug}.svg")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(figures, results, KEYS), encoding="utf-8")
