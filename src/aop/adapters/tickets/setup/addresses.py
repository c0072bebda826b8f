"""Addresses of ticket systems, checked because the token is sent there."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from aop.core.errors import TicketSettingMissing

# Networks of carriers, protocols and cloud metadata, which `ipaddress` does not always report as special.
_NEVER = tuple(map(ipaddress.ip_network, ("100.64.0.0/10", "192.0.0.0/24", "fd00:ec2::/32")))
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_NAMES_OF_CLOUDS = ("metadata.google.internal", "metadata.azure.internal", "instance-data.ec2.internal")

_CLOUD = (".atlassian.net", ".jira.com", ".jira-dev.com", ".atlassian-us-gov-mod.net", ".atlassian-us-gov.net")


def checked_address(environ: Mapping[str, str], variable: str) -> str:
    """Return the address in a variable, without a trailing slash. Raises: TicketSettingMissing."""
    text = environ[variable].strip().rstrip("/")
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise _invalid(variable, "is malformed") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _invalid(variable, "does not begin with `https://` and a host")
    if parts.username or parts.password or parts.query or parts.fragment or not text.isascii():
        raise _invalid(variable, "has more than scheme, host, port and path")
    if _is_reserved(host.rstrip(".")):
        raise _invalid(variable, "names a reserved host")
    return text


def is_atlassian_cloud(address: str) -> bool:
    """Tell whether an address belongs to Atlassian Cloud, by its host, as `mcp-atlassian` does."""
    host = urlsplit(address.strip()).hostname or ""
    return host.endswith(_CLOUD)


def _is_reserved(host: str) -> bool:
    """Tell whether a host is a link-local, metadata or otherwise reserved address."""
    if host in _NAMES_OF_CLOUDS:
        return True
    try:
        # `inet_aton` also reads `0x7f000001`, `2130706433` and `127.1`, as other programs do.
        found: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(socket.inet_aton(host))
    except OSError:
        try:
            found = ipaddress.ip_address(host)
        except ValueError:
            return False
    if isinstance(found, ipaddress.IPv6Address):
        found = _embedded_ipv4(found) or found
    return (
        found.is_link_local or found.is_unspecified or found.is_multicast or any(found in network for network in _NEVER)
    )


def _embedded_ipv4(found: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside an IPv6 address."""
    if found in _TRANSLATED:
        return ipaddress.IPv4Address(found.packed[-4:])
    return found.ipv4_mapped or found.sixtofour


def _invalid(variable: str, why: str) -> TicketSettingMissing:
    return TicketSettingMissing(
        f"The address in `{variable}` {why}.",
        missing=[variable],
        hint="Set it to the address of the system, such as `https://git.example.com`.",
    )
