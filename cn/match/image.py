"""The 64-bit image of codes and extents: what vectors and rows of numbers can compare.

The image keeps the order: `a < b` implies `image(a) <= image(b)`. An integer is its own image. A text's image
is its first seven bytes and its length up to eight, so texts of at most seven bytes differ in their images
and longer ones may share one; an end between such texts is not *exact*, and what an inexact extent lets
through must still be asked of the extent itself.
"""

from __future__ import annotations

from cn.model.geometry import INT64_MAX, INT64_MIN, Code, Extent, Interval

LENGTH = 7  # bytes of a text that its image holds
STRIDE = 3  # levels of canonical nodes are this many bits apart
Node = tuple[int, Code | None]  # (level, cell); a single code, or NULL, is its own cell at the level POINT
Bounds = tuple[int, int, bool]  # low, ~high, exact; `~` reverses the order, so that both ends ask for `<=`
POINT = -1
NOWHERE: Bounds = (INT64_MAX, INT64_MAX, True)  # holds no image


def image(code: Code) -> int:
    """The 64-bit integer of a code.

    >>> image(5), image("a") < image("a\\0") < image("b") < image("beginner") == image("beginners")
    (5, True)
    """
    if isinstance(code, str):
        start = code[: LENGTH + 1].encode("utf-8", "surrogatepass")
        length = min(len(start), LENGTH + 1)
        return (int.from_bytes(start[:LENGTH].ljust(LENGTH, b"\0"), "big") << 8 | length) + INT64_MIN
    return max(INT64_MIN, min(INT64_MAX, int(code)))


def _is_exact(code: Code) -> bool:
    """Whether no other code has this code's image."""
    if isinstance(code, str):
        return len(code) <= LENGTH and len(code.encode("utf-8", "surrogatepass")) <= LENGTH
    return isinstance(code, int) and INT64_MIN < code < INT64_MAX


def interval_bounds(interval: Interval) -> Bounds:
    """The images of an interval.

    >>> low, above, exact = interval_bounds(Interval(3, 7, low_open=True))
    >>> low, ~above, exact
    (4, 7, True)
    """
    low, high, low_open, high_open = interval
    if type(low) is int and type(high) is int and not (low_open or high_open):
        if low > INT64_MIN and high < INT64_MAX:
            return (low, ~high, True) if low <= high else NOWHERE
    elif not all(end is None or isinstance(end, int | str) for end in (low, high)):
        return INT64_MIN, INT64_MIN, False
    if interval.is_empty():
        return NOWHERE
    start, stop, exact = INT64_MIN, INT64_MAX, True
    if low is not None:
        exact = _is_exact(low)
        start = image(low) + (low_open and exact)
    if high is not None:
        exact_end = _is_exact(high)
        stop = image(high) - (high_open and exact_end)
        exact = exact and exact_end
    return (start, ~stop, exact) if stop >= INT64_MIN and start <= stop else NOWHERE


def extent_bounds(extent: Extent) -> Bounds:
    """The images of the hull of an extent (NULL aside); exact if it is one exact interval, or none."""
    intervals = extent.intervals
    if len(intervals) == 1:
        return interval_bounds(intervals[0])
    parts = [part for part in map(interval_bounds, intervals) if part != NOWHERE]
    if not parts:
        return NOWHERE
    return (
        min(part[0] for part in parts),
        min(part[1] for part in parts),
        len(parts) == 1 and parts[0][2],
    )


def point(interval: Interval) -> Node | None:
    """The cell of an interval that is one code; None if it is more."""
    low, high, low_open, high_open = interval
    if low is None or high is None:
        return None
    if low_open or high_open:
        if not (isinstance(low, int) and isinstance(high, int)):
            return None
        low, high = low + low_open, high - high_open
    return (POINT, low) if low == high else None


def canonical_nodes(interval: Interval) -> list[Node] | None:
    """The nodes of a segment tree over all codes that cover an interval; None if only the root does.

    Integers: one or two neighbouring nodes of the least level whose nodes are not narrower than the interval.
    A node is at most 2 ** STRIDE times as wide. Texts: the longest prefix that all of its texts share.

    >>> canonical_nodes(Interval(62, 66)), canonical_nodes(Interval("ab", "ac", high_open=True))
    ([(3, 7), (3, 8)], [(2, 'ab')])
    """
    low, high, low_open, high_open = interval
    if isinstance(low, str) and isinstance(high, str):
        shared = 0
        while shared < min(len(low), len(high)) and low[shared] == high[shared]:
            shared += 1
        if high_open and shared < len(low) and high[shared:] == chr(min(0x10FFFF, ord(low[shared]) + 1)):
            shared += 1  # everything before "ac" that is not before "ab" begins with "ab"
        return [(shared, low[:shared])] if shared else None
    if not (isinstance(low, int) and isinstance(high, int)):
        return None
    low, high = low + low_open, high - high_open
    level = -(-(high - low).bit_length() // STRIDE) * STRIDE
    return [(level, cell) for cell in dict.fromkeys((low >> level, high >> level))]


def cell_at(code: Code, level: int) -> Code:
    """The cell of a level in which a code lies."""
    return code[:level] if isinstance(code, str) else code >> level
