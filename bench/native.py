"""The events of a benchmark in C++ alone, on the headers of the compiled kernels: a limit beside what the engine takes."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HEADERS = Path(__file__).parents[1] / "kernels" / "src"
SOURCE = Path(__file__).with_name("range_min.cpp")
RUNS = 5


@cache
def _program() -> Path | None:
    """The compiled program; None without a compiler or the sources of the kernels."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None or not HEADERS.exists() or not SOURCE.exists():
        return None
    folder = Path(tempfile.mkdtemp(prefix="prosem-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = folder / "range_min"
    subprocess.run([compiler, "-O3", "-std=c++17", "-I", HEADERS, SOURCE, "-o", made], check=True)
    return made


def range_min_us(
    xs: NDArray[np.int64], ys: NDArray[np.int64], moves: list[tuple[int, int]]
) -> tuple[float, int] | None:
    """µs of CPU time per event, the least of some runs, and the regions of all events; None where nothing compiles it."""
    program = _program()
    if program is None:
        return None
    given = np.concatenate([[len(xs), len(moves)], np.column_stack([xs, ys]).ravel(), np.ravel(moves)])
    data = given.astype(np.int64).tobytes()
    said = [
        subprocess.run([program], input=data, capture_output=True, check=True).stdout.split()
        for _ in range(RUNS)
    ]
    return min(float(ns) for ns, _ in said) / 1e3, int(said[0][1])
