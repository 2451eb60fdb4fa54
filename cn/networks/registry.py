"""The networks of brokers by name. A new one is its file and one line here."""

from __future__ import annotations

from cn.networks.bloom import BLOOM
from cn.networks.can import CAN
from cn.networks.cbn import CBN
from cn.networks.contents import remembering
from cn.networks.multicast import MULTICAST
from cn.networks.node import Scheme
from cn.networks.range_tree import RANGE_TREE
from cn.networks.relaxed import CUT_OFF, RELAXED
from cn.networks.stages import STAGES
from cn.networks.unicast import UNICAST

SCHEMES: dict[str, Scheme] = {
    scheme.name: remembering(scheme)
    for scheme in (UNICAST, MULTICAST, CBN, STAGES, CAN, RANGE_TREE, BLOOM, RELAXED, CUT_OFF)
}
"""Each makes the nodes of a network, for a simulator or for processes of their own."""


def scheme_of(name: str) -> Scheme:
    """The network of brokers of this name; ValueError says which there are."""
    if name not in SCHEMES:
        raise ValueError(f"{name!r} has no brokers; those that have are {', '.join(SCHEMES)}")
    return SCHEMES[name]
