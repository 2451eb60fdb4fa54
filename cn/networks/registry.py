"""All networks by name. A new one is its file and one line here."""

from __future__ import annotations

from cn.networks.base import Deliver, Factory, Network, Release
from cn.networks.local import LocalNetwork

NETWORKS: dict[str, Factory] = {
    LocalNetwork.name: LocalNetwork,
}


def make_network(name: str, deliver: Deliver, release: Release) -> Network:
    """The network of this name with its two callbacks; ValueError says which there are."""
    if name not in NETWORKS:
        raise ValueError(f"unknown network {name!r}; the networks are {', '.join(NETWORKS)}")
    return NETWORKS[name](deliver, release)
