"""The papers' figures: all are registered, and a report is made of parts that ran one after another."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from api.commands.cli import app
from bench import random_walk
from bench.kept import keep, kept
from bench.papers import results, updates
from bench.papers.model import Comparison, Figure, below, falls, flat, grows
from bench.papers.parts import PARTS, Measured
from bench.papers.registry import FIGURES, chosen, parts_of
from bench.papers.report import NOT_MEASURED, anchor, comparisons, page, table, title, together
from bench.papers.run import KEYS, run
from bench.rete import Rete, ReteWithPoset
from bench.selectors import Selectors
from cn.model.geometry import Extent, Interval
from prosem.values.errors import SetupError

ROOT = Path(__file__).parents[2]
ISSUED = [
    *(f"3.{number}" for number in range(6, 13)),
    *(f"4.{number}" for number in range(7, 13)),
    *(f"5.{number}" for number in range(6, 21)),
    *(f"6.{number}" for number in range(4, 8)),
    *(f"table {name}" for name in ("3.2", "3.3", "3.4", "4.2", "4.3", "5.3", "5.4")),
    *(f"parametric table {number} {name}" for number in ("I", "II") for name in ("highway", "trading")),
    "parametric figure 30",
    *(f"beretta table {number}" for number in (1, 2)),
]


def test_every_figure_has_an_entry_and_a_part_that_measures_it() -> None:
    assert set(ISSUED) <= FIGURES.keys()
    assert parts_of([*FIGURES.values()]).keys() == PARTS.keys(), "each part is for some figure"
    drawings = [name for name, figure in FIGURES.items() if not figure.part]
    assert drawings == ["5.18"]
    for figure in FIGURES.values():
        assert figure.said
        assert figure.title
    assert len({figure.slug for figure in FIGURES.values()}) == len(FIGURES), "a plot each"


def test_figures_are_chosen_by_name() -> None:
    assert [figure.name for figure in chosen(["4.7, 3.6", "table 3.4"])] == ["4.7", "3.6", "table 3.4"]
    with pytest.raises(SetupError, match="no figure"):
        chosen(["9.9"])
    result = CliRunner().invoke(app, ["bench", "stages", "--only", "3.6"])
    assert result.exit_code == 2


def test_numbers_beyond_twice_and_statements_that_do_not_hold_differ() -> None:
    assert [Comparison("", 2.0, ours).differs for ours in (0.9, 1.0, 4.0, 4.1)] == [True, False, False, True]
    lines = [{"a": 10, "b": 100}, {"a": 12, "b": 300}, {"a": "-", "b": 1}]
    assert [one.holds for one in flat(lines, "a") + flat(lines, "b")] == [True, False]
    assert [one.holds for one in grows(lines, "a", "b")] == [True, False]
    assert [one.holds for one in falls(lines, "a", "b")] == [False, True]
    same = [{"a": 99.9}, {"a": 99.9}]
    assert [one.holds for one in falls(same, "a") + grows(same, "a")] == [False, False], (
        "a line that stays does neither"
    )
    assert [one.ours for one in below(lines, "a", ["b"], 0.05)] == [0.1]
    assert below(lines, "a", ["b"], 0.05)[0].holds is False
    assert below(lines, "a", ["b"], 0.05)[0].line is lines[0], "the line that makes the difference"


def cells(text: str) -> list[list[str]]:
    """The cells of all tables; a bar that is escaped is part of a cell."""
    return [re.split(r"(?<!\\)\|", line[1:-1]) for line in text.splitlines() if line.startswith("|")]


@pytest.mark.slow
def test_a_report_is_made_of_parts_that_ran_one_after_another(tmp_path: Path) -> None:
    out = tmp_path / "papers.md"
    run(True, ["multi-stage 5.3"], out)
    first = kept(tmp_path / "papers", results.Result)
    assert first.keys() == {"stages"}
    run(True, ["3.12"], out)
    found = kept(tmp_path / "papers", results.Result)
    assert found.keys() == {"stages", "networks-3.12"}
    assert found["stages"] == first["stages"]
    assert found["networks-3.12"].seeds == {"topology": 3, "subscriptions": 5, "events": 7}
    assert found["networks-3.12"].command == "prosem bench papers --only 3.12 --quick"
    text = out.read_text()
    for figure in FIGURES.values():
        (section,) = re.findall(
            rf"^## {re.escape(title(figure))}\n(.*?)(?=^## |^\[|\Z)", text, re.MULTILINE | re.DOTALL
        )
        assert f"](#{anchor(title(figure))})" in text
        if figure.part in found:
            tables = cells(section)
            assert len(tables) > 4
            assert f"images/papers/{figure.slug}.svg" in section
            assert (tmp_path / "images" / "papers" / f"{figure.slug}.svg").read_text().startswith("<?xml")
        elif figure.part:
            assert NOT_MEASURED in section
            assert f"$ {figure.command}" in section
    before = out.read_bytes(), (tmp_path / "images" / "papers" / "figure-3.12.svg").read_bytes()
    run(True, (), out, measure=False)
    assert (out.read_bytes(), (tmp_path / "images" / "papers" / "figure-3.12.svg").read_bytes()) == before


def test_tables_have_as_many_cells_in_each_line() -> None:
    rows = cells("\n".join(table([{"a": 1_000, "b": 0.5}, {"a": 2, "c": "x|y"}])))
    assert {len(row) for row in rows} == {3}
    assert rows[2] == [" 1,000 ", " 0.5 ", " - "]
    compared = [Comparison("m", 2.0, 9.0), Comparison("n", "flat", 1.1, True)]
    marks = [row[-1].strip() for row in cells("\n".join(comparisons(compared)))]
    assert marks[-2:] == ["≠", "holds"]
    missing = Comparison("spurious, up to", 2.0, "-")
    assert (missing.ratio, missing.differs) == (None, False)
    assert [cell.strip() for cell in cells("\n".join(comparisons([missing])))[-1]] == [
        "spurious, up to",
        "2",
        "-",
        "",
        "",
    ]


def test_a_ratio_that_was_not_seen_is_shown_as_none() -> None:
    """A strategy without any spurious event has no ratio at that step; another step's counts."""

    def row(mode: str, rate: int, spurious: float) -> dict[str, Any]:
        return {"mode": mode, "updates/s": rate, "delivered_per_s": 10.0, "delay_ms": 1.0, "latency_ms": 1.0,
                "spurious_percent": spurious}  # fmt: skip

    known = {("trading", "poset upd", "poset sub"): {"spurious": 2.0}}
    rows = [
        row("poset upd", 50, 0.5),
        row("poset sub", 50, 0.0),
        row("poset upd", 100, 0.4),
        row("poset sub", 100, 0.2),
    ]
    (seen,) = updates._best(known, "updates/s", ("trading",), {"trading": rows})
    (none,) = updates._best(known, "updates/s", ("trading",), {"trading": rows[:2]})
    assert (seen.ours, seen.line["step"], none.ours) == (0.5, 100, "-")


def test_small_sizes_do_not_replace_full_ones(tmp_path: Path) -> None:
    def made(quick: bool, value: int) -> results.Result:
        measured = Measured({"events": 1}, {"rows": [value]})
        return results.result_of(
            "stages", PARTS["stages"], measured, quick, "x", [0.0, 0.0], results.Took(1.0, 0.5)
        )

    assert keep(tmp_path, made(True, 1))
    assert keep(tmp_path, made(False, 2))
    assert not keep(tmp_path, made(True, 3))
    assert kept(tmp_path, results.Result)["stages"].figures == {"rows": [2]}


def test_the_page_is_the_one_of_the_kept_results() -> None:
    """The page of the documentation is generated: nothing in it is written by hand."""
    docs = ROOT / "docs"
    found = kept(docs / "papers", results.Result)
    assert page([*FIGURES.values()], found, KEYS) == (docs / "papers.md").read_text(), (
        "stale: prosem bench papers --kept"
    )
    drawn = {f"{figure.slug}.svg" for figure in FIGURES.values() if figure.part in found}
    assert {path.name for path in (docs / "images" / "papers").iterdir()} == drawn


def numbers(found: Any) -> Iterator[float]:
    """All numbers of a measurement."""
    if isinstance(found, dict | list | tuple):
        for one in found.values() if isinstance(found, dict) else found:
            yield from numbers(one)
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield float(found)
    elif isinstance(found, str) and found.endswith("%"):
        yield float(found[:-1])


def is_measured(text: str, known: Collection[float]) -> bool:
    """Whether a text has one of these numbers, as it is, in percent or in thousandths."""
    said = {
        (number.replace(",", ""), len(number.partition(".")[2]))
        for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)
    }
    return any(
        round(scale * one, digits) == float(number)
        for number, digits in said
        for one in known
        for scale in (1, 100, 1_000)
    )


@pytest.mark.parametrize(
    "figure", [figure for figure in FIGURES.values() if figure.part], ids=lambda one: one.name
)
def test_each_difference_has_a_reason_of_its_own_with_a_number_of_the_measurement(figure: Figure) -> None:
    found = kept(ROOT / "docs" / "papers", results.Result)[figure.part]
    assert found.is_full
    given = found.figures
    said = set(map(float, re.findall(r"\d+(?:\.\d+)?", (figure.said + figure.workload).replace(",", ""))))
    own = {one for one in numbers(given) if one not in said | {0.0, 1.0, 10.0, 100.0, 1_000.0}}
    reasons = {one.what: figure.reason(given, one) for one in figure.compare(given) if one.differs}
    for what, reason in reasons.items():
        assert is_measured(reason, own), f"{figure.name}, {what}: {reason or 'no reason'}"
    assert len({*reasons.values()}) == len(reasons), f"{figure.name}: one reason for two differences"


def test_times_add_up_the_same_in_any_order() -> None:
    """A set of strings has another order in every process: a sum of floats that depends on it made the page stale."""
    parts = [part for part in PARTS if part.startswith("networks-")]
    took = {part: results.Took(0.0, 1.0 if at else 2.0**53) for at, part in enumerate(parts)}
    found = {
        part: results.result_of(part, PARTS[part], Measured({}, {}), False, "x", [0.0, 0.0], took[part])
        for part in parts
    }
    (line,) = together([*FIGURES.values()], found)
    assert f" {float(2**53 + len(parts) - 1):,.0f} s of CPU time" in line


def test_what_was_measured_side_by_side_takes_its_time_once() -> None:
    def made(ended: str, seconds: float) -> results.Result:
        took = results.Took(seconds, seconds)
        one = results.result_of("x", PARTS["stages"], Measured({}, {}), False, "x", [0.0, 0.0], took)
        return one._replace(date=ended)

    alone = made("2026-11-18 10:00:00", 30)
    beside = [
        made("2026-11-18 11:00:10", 60),
        made("2026-11-18 11:00:00", 20),
        made("2026-11-18 11:00:20", 15),
    ]
    assert results.elapsed([*beside, alone]) == 30 + 70


# -- what the workloads are made of ----------------------------------------------------------------------------
@given(st.integers(0, 1000), st.booleans())
def test_updates_are_ignorable_only_if_asked_for(seed: int, ignorable: bool) -> None:
    dice = np.random.default_rng(seed)
    xs, ys = dice.integers(0, 5, 30), dice.integers(0, 40, 30)
    values, seen = ys.tolist(), 0
    for (key, new), _ in zip(
        random_walk.updates(xs, ys, dice, spikes=0.1, ignorable=ignorable), range(60), strict=False
    ):
        others = [values[at] for at in np.flatnonzero(xs == xs[key]) if at != key]
        hidden = bool(others) and min(others) <= min(values[key], new)
        seen += hidden
        assert ignorable or not hidden
        assert random_walk.BELOW <= new <= random_walk.DOMAIN
        assert new != values[key]
        values[key] = new
    assert seen or not ignorable


@pytest.mark.parametrize("kind", [Rete, ReteWithPoset, Selectors])
def test_matchers_of_other_systems_are_right(kind: type[Rete] | type[Selectors]) -> None:
    dice = random.Random(3)
    matcher, model = kind(), dict[int, dict[int, Extent]]()

    def filter() -> dict[int, Extent]:
        ends = {at: sorted(dice.randrange(6) for _ in "lh") for at in (0, 1) if dice.random() < 0.8}
        return {at: Extent((Interval(*pair),)) for at, pair in ends.items()}

    for step in range(400):
        if model and dice.random() < 0.3:
            matcher.remove(gone := dice.choice([*model]))
            del model[gone]
        elif model and dice.random() < 0.4:
            changed = dice.choice([*model])
            model[changed] = filter()
            matcher.update(changed, (model[changed],))
        else:
            model[step] = filter()
            matcher.insert(step, (model[step],))
        row = dice.randrange(6), dice.randrange(6)
        expected = [id for id, one in model.items() if all(row[at] in extent for at, extent in one.items())]
        assert sorted(matcher.match(row)) == sorted(expected)
