"""Every network as one `Network` in this process: the local one, and each network of brokers in a simulator."""

from __future__ import annotations

from typing import Any

from cn.model.network import Deliver, Factory, Network, Release
from cn.networks.local import LocalNetwork
from cn.networks.node import Scheme
from cn.networks.registry import SCHEMES, scheme_of
from cn.simulation.network import Simulated


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
    """The network of this name with its two callbacks; ValueError lists the known names."""
    if name not in NETWORKS:
        raise ValueError(f"unknown network {name!r}; the networks are {', '.join(NETWORKS)}")
    return NETWORKS[name](deliver, release)


def make_simulated(name: str, deliver: Deliver, release: Release, **settings: Any) -> Simulated:
    """A network of brokers in a simulator, with settings of its own."""
    return Simulated(scheme_of(name), deliver, release, **settings)
