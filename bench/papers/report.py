"""The report: a section per figure with the paper's numbers, ours, a plot, and where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import Any

from bench.papers.model import Comparison, Figure, Line
from bench.papers.results import Result, elapsed

HEAD = """# The papers' figures

The figures and tables of the works that ProSem builds on, measured again: made by `prosem bench papers` from the results of
its parts, which are kept in `docs/papers/` with date, command, seeds and sizes. With `--only` it measures the part of one
figure anew, with `--kept` it makes this page from what is kept.

- **paper**: a number of the source, or what its text says where the number is only in a diagram.
- **ratio**: ours over the paper's. A difference of more than 2× either way, or a statement that does not hold, is marked
  **≠** and explained below the table, each by what was measured. **-**: what was measured has no such ratio.
- **quick**: measured at small sizes (`--quick`). Its ratios compare different workloads, and say nothing about the source.
- Times are those of the machine named with each part, at the load average it had when the part began and ended.
"""
NOT_MEASURED = "**Not measured yet.** Measured by:"


def page(figures: Sequence[Figure], results: Mapping[str, Result], keys: Sequence[str]) -> str:
    """The whole page; `keys` are those of the bibliography."""
    parts = [HEAD, "## Summary\n", *_summary(figures, results), "", *together(figures, results)]
    for figure in figures:
        parts += section(figure, results.get(figure.part))
    text = "\n".join(parts)
    cited = [key for key in keys if f"[{key}]" in text]
    links = "".join(f"[{key}]: bibliography.md#{key.lower().replace(' ', '-')}\n" for key in sorted(cited))
    return f"{text.rstrip()}\n\n{links}"


def _summary(figures: Sequence[Figure], results: Mapping[str, Result]) -> Iterator[str]:
    yield "| figure | measured | size | compared | of these differ |"
    yield "| --- | --- | --- | ---: | ---: |"
    for figure in figures:
        link = f"[{figure.called}](#{anchor(title(figure))})"
        result = results.get(figure.part)
        if not figure.part:
            yield f"| {link} | a drawing | | | |"
        elif result is None:
            yield f"| {link} | not yet | | | |"
        else:
            compared = figure.compare(result.figures)
            differ = sum(one.differs for one in compared)
            yield f"| {link} | {result.date[:10]} | {result.size} | {len(compared)} | {differ} |"


def together(figures: Sequence[Figure], results: Mapping[str, Result]) -> Iterator[str]:
    """How long the parts over networks take, all together."""
    parts = {figure.part for figure in figures if figure.part.startswith("networks-")}
    full = [results[part] for part in parts if part in results and results[part].is_full]
    if full:
        cpu = fsum(one.cpu_seconds for one in full)
        yield (
            f"Of the {len(parts)} parts over networks {len(full)} were measured at full size (1000 brokers in 20,000 nodes),"
            f" in {elapsed(full):,.0f} s (side by side counts once), {cpu:,.0f} s of CPU time.\n"
        )


def title(figure: Figure) -> str:
    called = figure.called[0].upper() + figure.called[1:]
    return f"{called}: {figure.title}"


def anchor(text: str) -> str:
    """As MkDocs and GitHub make it of a heading.

    >>> anchor("Figure 3.6: bytes per event, by tuples")
    'figure-36-bytes-per-event-by-tuples'
    """
    kept = "".join(char for char in text.lower() if char.isalnum() or char in " -_")
    return kept.replace(" ", "-")


def section(figure: Figure, result: Result | None) -> Iterator[str]:
    yield f"## {title(figure)}\n"
    yield f"*The source* ([{figure.source}]): {figure.said}\n"
    if figure.workload:
        yield f"*Workload:* {figure.workload}.\n"
    if not figure.part:
        return
    if result is None:
        yield f"{NOT_MEASURED}\n\n```console\n$ {figure.command}\n```\n"
        return
    yield _measured(result)
    yield f"```console\n$ {result.command}\n```\n"
    yield from table(figure.lines(result.figures))
    yield f"\n![{figure.title}](images/papers/{figure.slug}.svg)\n"
    compared = figure.compare(result.figures)
    if compared:
        yield from comparisons(compared)
        yield ""
    differing = [one for one in compared if one.differs] if result.is_full else []
    if differing:
        yield "*Where it differs:*\n"
        for one in differing:
            yield f"- **{one.what}**: {figure.reason(result.figures, one) or 'no measured reason yet.'}"
        yield ""


def _measured(result: Result) -> str:
    seeds = ", ".join(f"{name} {seed}" for name, seed in result.seeds.items())
    sizes = ", ".join(f"{name} {_cell(value)}" for name, value in result.params.items() if name != "quick")
    cpu = f"{result.machine['cpu']}, {result.machine['cores']} cores"
    load = " to ".join(f"{one:g}" for one in result.load)
    size = "At full size" if result.is_full else "**quick**"
    took = f"{result.seconds:,.0f} s, {result.cpu_seconds:,.0f} s of CPU time"
    return (
        f"*Measured:* {result.date[:16]} UTC. {size}: {sizes}. Seeds: {seeds}. {cpu}, load {load}; {took}.\n"
    )


def table(lines: Sequence[Line]) -> Iterator[str]:
    names = list(dict.fromkeys(name for line in lines for name in line))
    yield f"| {' | '.join(name.replace('_', ' ') for name in names)} |"
    yield "|" + " ---: |" * len(names)
    for line in lines:
        yield f"| {' | '.join(_cell(line.get(name, '-')) for name in names)} |"


def comparisons(compared: Sequence[Comparison]) -> Iterator[str]:
    yield "| compared | paper | ours | ratio | |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for one in compared:
        ratio = "" if one.ratio is None else _cell(one.ratio)
        mark = "≠" if one.differs else "holds" if one.holds and one.ratio is None else ""
        yield f"| {one.what} | {_cell(one.paper)} | {_cell(one.ours)} | {ratio} | {mark} |"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "-" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value and abs(value) < 0.01:
            return f"{value:.1e}"
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, list | tuple):
        return " / ".join(_cell(one) for one in value)
    return str(value).replace("|", "\\|")
