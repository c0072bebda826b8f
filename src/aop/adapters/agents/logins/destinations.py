"""Destinations: the public addresses behind the name of a host."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

from msgspec import Struct

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HTTPS = 443
_NAT64 = IPv6Network("64:ff9b::/96")


class Network(Struct, frozen=True, kw_only=True):
    """The way from this machine to others."""

    resolve: Callable[[str], Awaitable[Sequence[str]]]
    """Returns the addresses of a name. Raises: OSError."""
    connect: Callable[[str, int], Awaitable[Streams]]
    """Connects to an address and a port. Raises: OSError."""


async def _addresses(host: str) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, HTTPS, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def _connect(address: str, port: int) -> Streams:
    return await asyncio.open_connection(address, port)


MACHINE_NETWORK = Network(resolve=_addresses, connect=_connect)


def is_address(host: str) -> bool:
    """Tell whether a host is given as an address instead of a name."""
    try:
        ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        # `127.1` and `2130706433` are addresses too, to a resolver.
        return host.replace(".", "").isdigit() or host.lower().startswith("0x")
    return True


def is_public(text: str) -> bool:
    """Tell whether an address belongs to the public internet: not to this machine or its networks."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    inner = _inner(address) if isinstance(address, IPv6Address) else None
    return address.is_global and not address.is_multicast and (inner is None or inner.is_global)


def _inner(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to, if there is one."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
