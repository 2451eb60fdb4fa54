"""Which implementation of the structures is used, and how that is reported."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cn.match import kernels
from cn.match.kernels import Found
from cn.match.point_index import PointIndex
from tests.support.makers import COMPILED, is_built


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = "off" if kernels.found() is Found.OFF else "auto"
    yield
    kernels.select(before)


@is_built
def test_compiled_structures_hold_64_bit_codes_alone() -> None:
    kernels.select("auto")
    assert (kernels.found(), kernels.compiled()) == (Found.USED, COMPILED)
    assert kernels.describe() == f"compiled (prosem-kernels {COMPILED.__version__})"
    assert type(kernels.point_index(2, True)) is COMPILED.PointIndex
    assert type(kernels.point_index(2, False)) is PointIndex


def test_off_is_python() -> None:
    kernels.select("off")
    assert (kernels.found(), kernels.compiled()) == (Found.OFF, None)
    assert type(kernels.point_index(2, True)) is PointIndex
    with pytest.raises(ValueError, match="auto or off"):
        kernels.select("on")


def test_without_the_distribution_it_is_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prosem_kernels", None)
    kernels.select("auto")
    assert kernels.describe() == "Python (prosem-kernels is not installed)"
    assert type(kernels.point_index(2, True)) is PointIndex


def test_another_interface_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SimpleNamespace(INTERFACE=kernels.INTERFACE + 1, __version__="9.9")
    monkeypatch.setitem(sys.modules, "prosem_kernels", other)
    kernels.select("auto")
    assert (kernels.found(), kernels.compiled()) == (Found.UNUSABLE, None)
    assert "9.9" in kernels.describe()


def test_a_build_without_a_structure_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was built before the structure was added."""
    names = dict.fromkeys(kernels.STRUCTURES[1:], object)
    older = SimpleNamespace(INTERFACE=kernels.INTERFACE, __version__="0.1", **names)
    monkeypatch.setitem(sys.modules, "prosem_kernels", older)
    kernels.select("auto")
    assert (kernels.found(), kernels.compiled()) == (Found.UNUSABLE, None)
    assert f"lacks {kernels.STRUCTURES[0]}; run make kernels" in kernels.describe()


def test_every_structure_of_the_distribution_is_named() -> None:
    """So that an older build is noticed."""
    text = (Path(__file__).parents[2] / "kernels" / "prosem_kernels" / "__init__.py").read_text()
    (exported,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "__all__"
    )
    assert {*kernels.STRUCTURES, "INTERFACE", "__version__"} == {*exported}


@pytest.mark.parametrize("setting", ["off", "auto"])
def test_the_variable_decides_at_the_start(setting: str) -> None:
    command = "from cn.match import kernels; print(kernels.found().name)"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), "PROSEM_KERNELS": setting},
        capture_output=True,
        text=True,
        timeout=60,
    )
    kernels.select(setting)
    assert done.stdout.strip() == kernels.found().name, done.stderr
    assert (kernels.found() is Found.USED) == (setting == "auto" and COMPILED is not None)
