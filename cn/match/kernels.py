"""Which implementation of the hot structures is in use: the compiled one of `prosem-kernels`, or the one in Python.

The compiled structures hold 64-bit codes and have the protocols of those in Python; wider codes always use Python.
`PROSEM_KERNELS=off` (or the server's option `--kernels off`) turns them off. Without the distribution everything works,
slower: docs/benchmarks.md has the ratios.
"""

from __future__ import annotations

import importlib
import os
from enum import Enum
from types import ModuleType
from typing import Any, NamedTuple, cast

from cn.match.box_index import BoxIndex
from cn.match.point_index import PointIndex

INTERFACE = 11  # of the compiled structures that this version calls
STRUCTURES = (
    "A2BTree",
    "DoubleEpochs",
    "DoubleJournal",
    "DoubleRadii",
    "ExtremeDrafts",
    "FilterPartition",
    "IntegerEpochs",
    "IntegerJournal",
    "IntegerRadii",
    "IntervalBlocks",
    "JoinKeys",
    "JoinRegions",
    "JoinStep",
    "MinKdTree",
    "PackedRows",
    "PointIndex",
    "RangeMinima",
    "RangeSums",
    "SumTree",
    "match_filters",
)


class Found(Enum):
    """What came of the search for the compiled structures."""

    USED = "compiled"
    OFF = "turned off"
    ABSENT = "prosem-kernels is not installed"
    UNUSABLE = "prosem-kernels cannot be used"


class _Choice(NamedTuple):
    module: ModuleType | None
    found: Found
    detail: str = ""


def _load(setting: str) -> _Choice:
    if setting == "off":
        return _Choice(None, Found.OFF)
    if setting != "auto":
        raise ValueError(f"kernels may be auto or off, not {setting!r}")
    try:
        module = importlib.import_module("prosem_kernels")
    except ImportError as error:
        is_absent = isinstance(error, ModuleNotFoundError) and error.name == "prosem_kernels"
        return _Choice(None, Found.ABSENT if is_absent else Found.UNUSABLE, "" if is_absent else str(error))
    if module.INTERFACE != INTERFACE:
        detail = (
            f"{module.__version__} has interface {module.INTERFACE}, {INTERFACE} is needed; run make kernels"
        )
        return _Choice(None, Found.UNUSABLE, detail)
    missing = [name for name in STRUCTURES if not hasattr(module, name)]
    if missing:  # built before they were added
        return _Choice(
            None, Found.UNUSABLE, f"the installed build lacks {', '.join(missing)}; run make kernels"
        )
    return _Choice(module, Found.USED, f"prosem-kernels {module.__version__}")


_choice = _load(os.environ.get("PROSEM_KERNELS", "auto"))


def select(setting: str) -> None:
    """Use compiled structures where they can be (`auto`) or nowhere (`off`), in all structures made from here on."""
    global _choice
    _choice = _load(setting)


def compiled() -> Any | None:
    """The compiled module in use; None if all structures are those in Python."""
    return _choice.module


def compiled_over(points: PointIndex, int64: bool) -> Any | None:
    """The module for structures that ask this index, with codes that fit 64 bits or not; None: those in Python."""
    module = _choice.module
    return module if module is not None and int64 and type(points) is module.PointIndex else None


def found() -> Found:
    """What came of the search for the compiled structures."""
    return _choice.found


def describe() -> str:
    """The implementation in use, in words.

    >>> before = "off" if found() is Found.OFF else "auto"
    >>> select("off"); describe()
    'Python (turned off)'
    >>> select(before)
    """
    _, found, detail = _choice
    if found is Found.USED:
        return f"compiled ({detail})"
    return f"Python ({found.value}{': ' if detail else ''}{detail})"


def point_index(dimensions: int, int64: bool) -> PointIndex:
    """An empty index of points; both implementations pass the tests of `PointIndex`."""
    module = _choice.module
    if module is None or not int64:
        return PointIndex(dimensions, int64)
    return cast(PointIndex, module.PointIndex(dimensions, int64))


def box_index() -> BoxIndex:
    """An empty index of filters, whose partitions are compiled if they can be."""
    return BoxIndex(_choice.module)
