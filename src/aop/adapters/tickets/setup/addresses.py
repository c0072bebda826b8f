"""The addresses of the systems around tickets: what a variable may name, since the token is sent there."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from aop.core.errors import TicketSettingMissing

# Nobody keeps a tracker there, but clouds keep what machines may know of themselves: carriers' and protocols' own
# networks, which `ipaddress` counts neither as private nor always as not global, and the IPv6 address of one of them.
_NEVER = tuple(map(ipaddress.ip_network, ("100.64.0.0/10", "192.0.0.0/24", "fd00:ec2::/32")))
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_NAMES_OF_CLOUDS = ("metadata.google.internal", "metadata.azure.internal", "instance-data.ec2.internal")

_CLOUD = (".atlassian.net", ".jira.com", ".jira-dev.com", ".atlassian-us-gov-mod.net", ".atlassian-us-gov.net")


def checked_address(environ: Mapping[str, str], variable: str) -> str:
    """Return the address that a variable holds, without a slash at its end.

    Raises: TicketSettingMissing.
    """
    text = environ[variable].strip().rstrip("/")
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise _wrong(variable, "cannot be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong(variable, "does not begin with `https://` and a host")
    if parts.username or parts.password or parts.query or parts.fragment or not text.isascii():
        raise _wrong(variable, "has more than scheme, host, port and path")
    if _leads_nowhere_good(host.rstrip(".")):
        raise _wrong(variable, "names a host that no such system is at")
    return text


def is_atlassian_cloud(address: str) -> bool:
    """Tell whether an address is one of Atlassian's own, by its host: their MCP server tells by that, too."""
    host = urlsplit(address.strip()).hostname or ""
    return host.endswith(_CLOUD)


def _leads_nowhere_good(host: str) -> bool:
    """Tell whether a host is an address of the link, such as that of a cloud's metadata, or of no machine at all."""
    if host in _NAMES_OF_CLOUDS:
        return True
    try:
        # Also `0x7f000001`, `2130706433` and `127.1`, which others resolve though `ipaddress` does not read them.
        found: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(socket.inet_aton(host))
    except OSError:
        try:
            found = ipaddress.ip_address(host)
        except ValueError:
            return False
    if isinstance(found, ipaddress.IPv6Address):
        found = _within(found) or found
    return (
        found.is_link_local or found.is_unspecified or found.is_multicast or any(found in network for network in _NEVER)
    )


def _within(found: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 one stands for."""
    if found in _TRANSLATED:
        return ipaddress.IPv4Address(found.packed[-4:])
    return found.ipv4_mapped or found.sixtofour


def _wrong(variable: str, why: str) -> TicketSettingMissing:
    return TicketSettingMissing(
        f"The address in `{variable}` {why}.",
        missing=[variable],
        hint="Set it to the address of the system, such as `https://git.example.com`.",
    )
