"""The protocol between a server and its brokers has a number of its own: products of different versions may work together.

It covers the frames of networks, `control`, the packets and what is exchanged at joining. It rises with every change that
the other side must know of; a change that the other side may ignore (a further field with a default) leaves it as it is.

1: up to release 0.1, which did not say it. 2: numbers are exchanged, and the server says how many requests it has taken.
3: messages may come straight from the server, past the tree; to a broker that speaks 2 none does.
4: places and messages of `stages` may have an order of attributes; a server that gives one takes no older brokers.
5: a subscription may have its places in the parts of its space (joins of several tables); older brokers are refused these.
6: with the network `can` a zone gets a message once for all boxes of its region; a server with it takes no older brokers.
"""

from __future__ import annotations

from prosem.values.errors import ConflictError

PROTOCOL, OLDEST = 6, 2  # spoken here, and the oldest one that is still understood
WITH_STRAIGHT = 3  # the first that has messages straight from the server
WITH_ORDERS = 4  # the first that has orders of attributes
WITH_PARTS = 5  # the first that has spaces with parts
NETWORKS = {"can": 6}  # the first that has this network as it is now
TOO_OLD = "this broker is too old to host a join of several tables: update it, or attach at the server"


def agree(oldest: int | None, newest: int | None, version: str | None, own_version: str) -> int:
    """The protocol to speak with a broker that understands those from `oldest` to `newest`; ConflictError if there is none.

    >>> agree(2, 7, "3.0", "1.0")
    6
    """
    newest = 1 if newest is None else newest
    oldest = newest if oldest is None else oldest
    chosen = min(newest, PROTOCOL)
    if chosen >= max(oldest, OLDEST):
        return chosen
    which = f"version {version[:50]}" if version else "an older version"
    elder = "server" if oldest > PROTOCOL else "broker"
    raise ConflictError(
        f"this broker ({which}) speaks the brokers' protocol {oldest} to {newest}, the server (version {own_version})"
        f" speaks {OLDEST} to {PROTOCOL}: update the {elder} so that both have the same version"
    )
