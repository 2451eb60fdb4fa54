"""The events of a benchmark in C++ alone, on the headers of the compiled kernels: a limit beside what the engine takes."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

HEADERS = Path(__file__).parents[1] / "kernels" / "src"
SOURCES = (Path(__file__).with_name("range_min.cpp"), HEADERS / "point_tree.cpp")
RUNS = 5


@cache
def _program() -> Path | None:
    """The compiled program; None without a compiler or the sources of the kernels."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None or not all(source.exists() for source in SOURCES):
        return None
    folder = Path(tempfile.mkdtemp(prefix="prosem-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = folder / "range_min"
    subprocess.run([compiler, "-O3", "-std=c++17", "-I", HEADERS, *SOURCES, "-o", made], check=True)
    return made


class Native(NamedTuple):
    """µs of CPU time per event and pieces of all events: tree and rule alone, and with the search for subscriptions."""

    us: float
    pieces: int
    us_searched: float
    pieces_held: int


def range_min(xs: Ints, ys: Ints, moves: list[tuple[int, int]], low: Ints, high: Ints) -> Native | None:
    """The least times of some runs; None where nothing compiles it."""
    program = _program()
    if program is None:
        return None
    ranges = np.column_stack([low, high, np.arange(1, len(low) + 1)])
    sizes = [len(xs), len(moves), len(low)]
    given = np.concatenate([sizes, np.column_stack([xs, ys]).ravel(), np.ravel(moves), ranges.ravel()])
    data = given.astype(np.int64).tobytes()
    said = [
        subprocess.run([program], input=data, capture_output=True, check=True).stdout.split()
        for _ in range(RUNS)
    ]
    plain, searched = (min(float(one[at]) for one in said) / 1e3 for at in (0, 2))
    return Native(plain, int(said[0][1]), searched, int(said[0][3]))
