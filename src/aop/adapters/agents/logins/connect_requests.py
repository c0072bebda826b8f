"""CONNECT requests: strictly parsed, and judged by a list of hosts."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import StrEnum
from http import HTTPStatus

from msgspec import Struct

from aop.adapters.agents.logins.destinations import HTTPS, is_address
from aop.core.text.visible import visible

LARGEST_HEAD = 16 * 1024
_LONGEST_HOST = 253


class Refused(StrEnum):
    """The reason for which a connection was refused, as the log of the turn has it."""

    TOO_MANY = "too many connections at once"
    MALFORMED = "not a request that a proxy understands"
    NOT_CONNECT = "another method than CONNECT"
    NO_TOKEN = "without the token of this turn"
    ADDRESS = "an address instead of a name"
    OTHER_PORT = "another port than 443"
    OTHER_HOST = "not a host of this vendor"
    NOT_PUBLIC = "its name leads to an address of this machine or its network"
    UNREACHABLE = "the host cannot be reached"
    TIMED_OUT = "nothing was sent in time"
    NOT_TLS = "the connection is not TLS"
    OTHER_NAME = "TLS names another server"
    HIDDEN_NAME = "TLS hides the name of the server"


_STATUS = {
    Refused.TOO_MANY: HTTPStatus.SERVICE_UNAVAILABLE,
    Refused.MALFORMED: HTTPStatus.BAD_REQUEST,
    Refused.NOT_CONNECT: HTTPStatus.METHOD_NOT_ALLOWED,
    Refused.NO_TOKEN: HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
    Refused.UNREACHABLE: HTTPStatus.BAD_GATEWAY,
    Refused.TIMED_OUT: HTTPStatus.REQUEST_TIMEOUT,
}


class ProxyRefusal(Exception):
    """A connection that is refused."""

    def __init__(self, reason: Refused, host: str = "", *, is_open: bool = False) -> None:
        """Take the reason and the host; an open connection is closed without an answer."""
        super().__init__(reason)
        self.reason = reason
        self.host = visible(host)[:_LONGEST_HOST]
        self._is_open = is_open

    @property
    def response(self) -> bytes:
        """Return the HTTP response."""
        if self._is_open:
            return b""
        status = _STATUS.get(self.reason, HTTPStatus.FORBIDDEN)
        asks = 'Proxy-Authenticate: Basic realm="aop"\r\n' if self.reason is Refused.NO_TOKEN else ""
        body = f"AOP refuses this connection: {self.reason}.\n"
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\n{asks}Content-Type: text/plain\r\n"
        return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


class ConnectRequest(Struct, frozen=True, kw_only=True):
    """One request for a connection."""

    host: str
    """In lower case."""
    port: str
    credentials: str

    def demand(self, hosts: AbstractSet[str]) -> None:
        """Refuse all but port 443 of a listed host. Raises: ProxyRefusal."""
        if is_address(self.host):
            raise ProxyRefusal(Refused.ADDRESS, self.host)
        if self.port != str(HTTPS):
            raise ProxyRefusal(Refused.OTHER_PORT, f"{self.host}:{self.port}")
        if self.host not in hosts:
            raise ProxyRefusal(Refused.OTHER_HOST, self.host)


def connect_request(head: bytes) -> ConnectRequest:
    """Parse the head of a request. Raises: ProxyRefusal."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise ProxyRefusal(Refused.MALFORMED)
    if method != "CONNECT":
        raise ProxyRefusal(Refused.NOT_CONNECT, target)
    host, colon, port = target.rpartition(":")
    if not colon or not host:
        raise ProxyRefusal(Refused.MALFORMED, target)
    named = [line.partition(":") for line in lines]
    credentials = [value.strip() for name, _, value in named if name.lower() == "proxy-authorization"]
    if len(credentials) > 1:
        raise ProxyRefusal(Refused.MALFORMED, target)
    return ConnectRequest(host=host.lower(), port=port, credentials="".join(credentials))
