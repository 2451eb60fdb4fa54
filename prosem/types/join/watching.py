"""The subscriptions that see a row of a select-join, found one by one: what enumeration by semijoins starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cn.match.block import Ids
from cn.model.geometry import Point
from prosem.types.join.model import JoinModel
from prosem.types.join.table import Classes, JoinTable, Placed


def watching(
    model: JoinModel,
    table: JoinTable,
    rows: Sequence[Placed],
    partner: JoinTable,
    classes: Classes,
    place_of: Callable[[int], Point],
) -> Iterator[Ids]:
    """For each row the subscriptions that select it and whose range on the partner holds the code of a joining row.

    `place_of` gives the point of a subscription. Rows with one key (before and after an event) take one search. O(n log s)
    for n that select it and s rows that join with it: quick while few select it, however long its skyline is.
    """
    keys = [table.key(classes, placed.row) for placed in rows]
    candidates = None
    for at, (placed, key) in enumerate(zip(rows, keys, strict=True)):
        joining = partner.by(classes).at(key)
        reach = partner.reach(joining[0], joining[-1])
        if not model.shape.int64:
            found = model.points.find(b"", (model.box(table.around(placed.codes), reach),))
            ranges = [partner.range_of(place_of(sid)) for sid in found.tolist()]
            yield found[[partner.by(classes).any_within(key, *ends) for ends in ranges]]
            continue
        if candidates is None or key != keys[at - 1]:
            together = [one.codes for one, its in zip(rows, keys, strict=True) if its == key]
            candidates = model.points.entries(b"", (model.box(table.around_all(together), reach),))
        if not candidates.size:
            yield candidates[0]
            continue
        seen = np.ones(candidates.shape[1], np.bool_)
        for (low, high), code in table.conditions(placed.codes):
            seen &= (candidates[1 + low] <= code) & (candidates[1 + high] >= code)
        if partner.routing is not None:
            low, high = partner.routing
            codes = np.array([entry[0] for entry in joining], np.int64)
            first = codes.searchsorted(candidates[1 + low])
            seen &= codes[np.minimum(first, len(codes) - 1)] <= candidates[1 + high]
            seen &= first < len(codes)
        yield candidates[0][seen]
