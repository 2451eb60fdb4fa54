"""Compiled structures over 64-bit codes, each with the protocol of the one in Python that it stands for."""

from prosem_kernels._native import (
    A2BTree,
    DoubleEpochs,
    DoubleJournal,
    DoubleRadii,
    ExtremeDrafts,
    FilterPartition,
    IntegerEpochs,
    IntegerJournal,
    IntegerRadii,
    IntervalBlocks,
    JoinKeys,
    JoinRegions,
    JoinStep,
    MinKdTree,
    PackedRows,
    PointIndex,
    RangeMinima,
    RangeSums,
    SumTree,
    match_filters,
)

__version__ = "0.1.0"
INTERFACE = 11  # raised when a call changes; ProSem uses the structures in Python if it expects another one

__all__ = [
    "INTERFACE",
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
    "__version__",
    "match_filters",
]
