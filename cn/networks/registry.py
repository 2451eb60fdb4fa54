"""All networks by name. A new one is its file and one line here."""

from __future__ import annotations

from typing import Any

from cn.networks.base import Deliver, Factory, Network, Release
from cn.networks.bloom import BLOOM
from cn.networks.can import CAN
from cn.networks.cbn import CBN
from cn.networks.local import LocalNetwork
from cn.networks.multicast import MULTICAST
from cn.networks.node import Scheme
from cn.networks.range_tree import RANGE_TREE
from cn.networks.relaxed import CUT_OFF, RELAXED
from cn.networks.simulated import Simulated
from cn.networks.stages import STAGES
from cn.networks.unicast import UNICAST
from cn.payload import remembering

SCHEMES: dict[str, Scheme] = {
    scheme.name: remembering(scheme)
    for scheme in (UNICAST, MULTICAST, CBN, STAGES, CAN, RANGE_TREE, BLOOM, RELAXED, CUT_OFF)
}
"""Those of brokers: nodes for a simulator, or for processes of their own."""


def _simulated(scheme: Scheme) -> Factory:
    def make(deliver: Deliver, release: Release) -> Network:
        return Simulated(scheme, deliver, release)

    make.__doc__ = scheme.root.__doc__
    return make


NETWORKS: dict[str, Factory] = {
    LocalNetwork.name: LocalNetwork,
    **{name: _simulated(scheme) for name, scheme in SCHEMES.items()},
}


def make_network(name: str, deliver: Deliver, release: Release) -> Network:
    """The network of this name with its two callbacks, in this process; ValueError says which there are."""
    if name not in NETWORKS:
        raise ValueError(f"unknown network {name!r}; the networks are {', '.join(NETWORKS)}")
    return NETWORKS[name](deliver, release)


def make_simulated(name: str, deliver: Deliver, release: Release, **settings: Any) -> Simulated:
    """A network of brokers in a simulator, with settings of its own."""
    return Simulated(scheme_of(name), deliver, release, **settings)


def scheme_of(name: str) -> Scheme:
    """The network of brokers of this name; ValueError says which there are."""
    if name not in SCHEMES:
        raise ValueError(f"{name!r} has no brokers; those that have are {', '.join(SCHEMES)}")
    return SCHEMES[name]
