"""Both implementations of a structure, for the tests that judge them: in Python and compiled."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from cn.match import kernels
from cn.match.kernels import INTERFACE, STRUCTURES

# Tests of compiled structures run wherever they are built, also where the tests of the server turn them off.
try:
    COMPILED: Any = importlib.import_module("prosem_kernels")
except ModuleNotFoundError:
    COMPILED = None
if COMPILED is not None and not (
    COMPILED.INTERFACE == INTERFACE and all(hasattr(COMPILED, name) for name in STRUCTURES)
):
    COMPILED = None

is_built = pytest.mark.skipif(
    COMPILED is None, reason="prosem-kernels of this version is not built: make kernels"
)


def both(python: Any, name: str, argument: str = "make") -> pytest.MarkDecorator:
    """Run a test with the structure in Python, and with the compiled one of that name."""
    compiled = python if COMPILED is None else getattr(COMPILED, name)
    return pytest.mark.parametrize(
        argument, [pytest.param(python, id="python"), pytest.param(compiled, id="compiled", marks=is_built)]
    )


@pytest.fixture(scope="module", params=["python", pytest.param("compiled", marks=is_built)])
def kernels_used(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the tests of a module that use it with all structures in Python, and with the compiled ones."""
    with pytest.MonkeyPatch.context() as patch:
        choice = kernels._Choice(COMPILED, kernels.Found.USED)
        off = kernels._Choice(None, kernels.Found.OFF)
        patch.setattr(kernels, "_choice", choice if request.param == "compiled" else off)
        yield
