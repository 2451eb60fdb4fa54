"""What the costs of a semijoin's plans depend on, as a point for the optimizer."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

from optimizer.plan import Descriptor
from optimizer.sketch import Sketch
from prosem.types.join.table import Classes, JoinTable

if TYPE_CHECKING:
    from prosem.types.join.semijoin import Described


def semijoin_descriptor(
    description: Described, partner: JoinTable, classes: Classes, sketch: Sketch, population: int
) -> Descriptor:
    """Messages; half the logarithm of the rows that join; the event's table; how many may see the row, in half steps of a
    logarithm; rows lost; rows gained.

    Those that may see the row select it, and reach between the rows that join with it: ranks of the picture count them
    without a search. Enumeration wins where it is a few, reformulation where it is many. Events of different tables,
    and those with and without rows lost, are far apart.
    """
    table, old, new, shifts = description
    rows, seeing = 0, 0.0
    one = old if new is None else new
    if one is not None:
        joining = partner.by(classes).at(table.key(classes, one.row))
        rows = len(joining)
        ranges = [(*sides, code, code) for sides, code in table.conditions(one.codes)]
        if partner.routing is not None:
            ranges.append((*partner.routing, joining[0][0], joining[-1][0]))
        seeing = population * sketch.reaching(ranges)
    gained = lost = 0
    for shift in shifts:
        lost += not shift.gained
        key = table.key(shift.classes, shift.row)
        gained += len(shift.table.by(shift.classes).at(key)) if shift.gained else 0
    return (
        (old is not None) + (new is not None) + len(shifts),
        rows.bit_length() // 2,  # a skyline has fewer points
        4 * table.number,
        round(2 * log2(1 + seeing)),
        3 * lost,
        2 * gained.bit_length(),
    )
