"""Which implementation of the structures is used, and how that is reported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
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
    wanted = Found.OFF if setting == "off" else Found.ABSENT if COMPILED is None else Found.USED
    assert done.stdout.strip() == wanted.name, done.stderr
