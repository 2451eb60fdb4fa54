"""The networks of brokers by name. A new one is its file and one line here."""

from __future__ import annotations

from importlib import import_module

from cn.networks.contents import remembering
from cn.networks.node import Scheme

REGISTERED = (
    "cn.networks.unicast:UNICAST",
    "cn.networks.multicast:MULTICAST",
    "cn.networks.cbn:CBN",
    "cn.networks.stages:STAGES",
    "cn.networks.can:CAN",
    "cn.networks.range_tree:RANGE_TREE",
    "cn.networks.bloom:BLOOM",
    "cn.networks.relaxed:RELAXED",
    "cn.networks.relaxed:CUT_OFF",
)
"""Where each network's scheme is defined: module and name."""


def load(entry: str) -> Scheme:
    """The scheme at `module:NAME`, with brokers that remember contents on request.

    >>> load("cn.networks.unicast:UNICAST").name
    'unicast'
    """
    module, _, name = entry.partition(":")
    scheme = getattr(import_module(module), name)
    if not isinstance(scheme, Scheme):
        raise TypeError(f"{entry} is a {type(scheme).__name__}, not a Scheme")
    return remembering(scheme)


SCHEMES: dict[str, Scheme] = {scheme.name: scheme for scheme in map(load, REGISTERED)}
"""Each makes the nodes of a network, for a simulator or for separate processes."""


def scheme_of(name: str) -> Scheme:
    """The network of brokers of this name; ValueError lists the known names."""
    if name not in SCHEMES:
        raise ValueError(f"{name!r} has no brokers; those that have are {', '.join(SCHEMES)}")
    return SCHEMES[name]
