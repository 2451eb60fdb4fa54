"""Which addresses webhooks may reach.

Whoever may make a webhook makes the server send requests. So by default it sends them to public addresses alone: not to
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

from prosem.errors import SetupError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
PUBLIC = "public"
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_RESOLVERS = 32  # a name that is slow to resolve holds one, and its webhook alone waits


class UnreachableError(Exception):
    """The host has no address, or none that webhooks may reach."""


def embedded(address: Address) -> list[Address]:
    """The address, and those that it stands for.

    >>> [str(each) for each in embedded(ipaddress.ip_address("::ffff:10.0.0.1"))]
    ['::ffff:a00:1', '10.0.0.1']
    >>> [str(each) for each in embedded(ipaddress.ip_address("64:ff9b::7f00:1"))]
    ['64:ff9b::7f00:1', '127.0.0.1']
    """
    found: list[Address] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        found += [each for each in (address.ipv4_mapped, address.sixtofour) if each is not None]
        if address in _NAT64:
            found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def is_public(address: Address) -> bool:
    """Whether the address, and all it stands for, is one of the Internet.

    >>> [is_public(ipaddress.ip_address(text)) for text in ("93.184.215.14", "10.0.0.1", "169.254.169.254", "2002:7f00:1::")]
    [True, False, False, False]
    """
    within = embedded(address)[1:] or [address]
    return all(each.is_global and not each.is_multicast for each in within)


def is_near(address: Address) -> bool:
    """Whether it is this machine's or of a private network, but none that every machine has for itself.

    >>> [is_near(ipaddress.ip_address(text)) for text in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "8.8.8.8")]
    [True, True, False, False, False]
    """
    within = embedded(address)[1:] or [address]
    return all(
        each.is_loopback
        or (each.is_private and not (each.is_link_local or each.is_unspecified or each.is_reserved))
        for each in within
    )


class Targets:
    """`allowed`: hosts, *.suffixes, networks and `public`, with commas; empty: public addresses.

    `is_local` is whether nobody but this machine uses the server: then also its own and private addresses, unless the
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
        if any(each in network for network in self._networks for each in embedded(address)):
            return True
        return (self._public and is_public(address)) or (
            self._is_default and is_near(address) and self._is_local()
        )

    async def resolve(self, host: str, port: int) -> str:
        """An address of the host that may be reached. UnreachableError says why there is none."""
        try:
            found: list[Address] = [ipaddress.ip_address(host)]
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
