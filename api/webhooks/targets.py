"""Which addresses webhooks may reach.

A key that may create webhooks makes the server send requests. So by default it sends them to public addresses alone: not to
this machine, not into private networks, not to what is near (where clouds keep credentials). A name is resolved for each
attempt, all its addresses are checked, and the one that was checked is the one connected to: a name that is resolved
another way a moment later reaches nothing else.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from prosem.values.errors import SetupError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
PUBLIC = "public"
_NETWORK = ipaddress.ip_network
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# `ipaddress.is_global` changes with the patch release of Python and knows no embedded addresses; these are IANA's registries
# of special-purpose addresses. What is global within an assignment to the IETF (192.0.0.9, 2001:1::1) receives no webhooks.
_SPECIAL_IPV4 = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
    *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
]
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # all else in IPv6 is special, reserved or embeds IPv4
_SPECIAL_IPV6 = [
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
]  # 2001::/32 is Teredo, 2002::/16 6to4
_SPECIAL: list[Network] = [_NETWORK(text) for text in (*_SPECIAL_IPV4, *_SPECIAL_IPV6)]
_NEAR: list[Network] = [
    _NETWORK(text)
    for text in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
]
_RESOLVERS = 32  # a name that is slow to resolve holds one, and its webhook alone waits


class UnreachableError(Exception):
    """The host has no address, or none that webhooks may reach."""


def embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 address leads to (IPv4-mapped, or translated by NAT64), else the address itself.

    >>> [str(embedded(ipaddress.ip_address(text))) for text in ("::ffff:10.0.0.1", "64:ff9b::7f00:1", "::1")]
    ['10.0.0.1', '127.0.0.1', '::1']
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_public(address: Address) -> bool:
    """Whether the address, or the IPv4 address that it leads to, is a global unicast address of no special purpose.

    >>> [is_public(ipaddress.ip_address(text)) for text in ("93.184.215.14", "10.0.0.1", "169.254.169.254", "::127.0.0.1")]
    [True, False, False, False]
    """
    target = embedded(address)
    if isinstance(target, ipaddress.IPv6Address) and target not in _GLOBAL_UNICAST:
        return False
    return not any(target in network for network in _SPECIAL)


def is_near(address: Address) -> bool:
    """Whether it is an address of this machine or of a private network; link-local addresses are neither.

    >>> [is_near(ipaddress.ip_address(text)) for text in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "8.8.8.8")]
    [True, True, False, False, False]
    """
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return any((mapped or address) in network for network in _NEAR)


class Targets:
    """`allowed`: hosts, *.suffixes, networks and `public`, with commas; empty: public addresses.

    `is_local` is whether only this machine uses the server: then also its own and private addresses, unless the
    setting says otherwise.
    """

    def __init__(self, allowed: str, is_local: Callable[[], bool]) -> None:
        self._is_local = is_local
        self._names: list[str] = []
        self._networks: list[Network] = []
        items = [item.strip().lower() for item in allowed.split(",") if item.strip()]
        self._is_default, self._public = not items, not items or PUBLIC in items
        for item in items:
            self._add(item)
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, "webhook-resolver")

    def _add(self, item: str) -> None:
        if item == PUBLIC:
            return
        try:
            self._networks.append(ipaddress.ip_network(item.strip("[]")))
        except ValueError:
            if "/" in item or ":" in item or "*" in item.removeprefix("*."):
                raise SetupError(
                    f"--webhook-hosts has {item!r}, which is no host, *.suffix, network or {PUBLIC}"
                ) from None
            self._names.append(item)

    def close(self) -> None:
        self._resolvers.shutdown(wait=False, cancel_futures=True)

    def trusts(self, host: str) -> bool:
        """Whether the setting names the host: then wherever it leads."""
        name = host.lower().rstrip(".")
        return any(
            name.endswith(known[1:]) and name != known[2:] if known.startswith("*.") else name == known
            for known in self._names
        )

    def allows(self, address: Address) -> bool:
        if any(each in network for network in self._networks for each in (address, embedded(address))):
            return True
        return (self._public and is_public(address)) or (
            self._is_default and is_near(address) and self._is_local()
        )

    async def resolve(self, host: str, port: int) -> str:
        """An address of the host that may be reached. UnreachableError says why there is none."""
        try:
            found: list[Address] = [ipaddress.ip_address(host)]
            if "%" in host:
                raise UnreachableError(
                    f"{host} names a network interface of the server; leave the part from % out"
                )
        except ValueError:
            found = await self._look_up(host, port)
        if not self.trusts(host):
            for address in found:
                if not self.allows(address):
                    raise UnreachableError(
                        f"{host} leads to {address}, which webhooks may not reach; the operator allows hosts and"
                        " networks with --webhook-hosts"
                    )
        return str(found[0])

    async def _look_up(self, host: str, port: int) -> list[Address]:
        look = lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._resolvers, look)
        except (OSError, UnicodeError) as error:
            raise UnreachableError(f"the host {host} cannot be found: {error}") from None
        addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        if not addresses:
            raise UnreachableError(f"the host {host} has no address")
        return addresses
