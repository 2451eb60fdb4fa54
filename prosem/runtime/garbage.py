"""When Python looks for garbage in a process with a large state.

Python's own count is of allocations less deallocations, whatever their age: where many short-lived objects go, as many
that stay come unnoticed. Half a million objects of an attach of 100,000 streams were still *young* while changes were
delivered, and whatever burst takes the count over its threshold has all of them looked at in one go, which takes 0.1 to
0.2 s of CPU time. So the server looks at the young ones itself, ten times a second, when they are few.
"""

from __future__ import annotations

import gc

# A full collection walks every row and stream, which takes a tenth of a second and more, and finds next to nothing: the
# garbage of sockets that were closed. At least an hour is between two of them.
COLLECT = (50_000, 20, 10_000)
SECOND_LOOK = 5  # ticks
MANY = 10_000


def look_at_young(tick: int) -> None:
    """Collect what was made since the last tick, and every few ticks what survived those.

    While much is made, nothing is left for a second look: it would be long.
    """
    if gc.isenabled():  # a recovery turns it off: nothing becomes garbage meanwhile
        gc.collect(0 if tick % SECOND_LOOK and gc.get_count()[0] < MANY else 1)
