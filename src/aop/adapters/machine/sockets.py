"""Sockets that listen on this machine only."""

from __future__ import annotations

import socket

from aop.core.errors import InvalidCliArgs

LOOPBACK = "127.0.0.1"

ListeningSocket = socket.socket


def loopback_socket(port: int) -> ListeningSocket:
    """Return a bound socket; port 0 takes a free one. Raises: InvalidCliArgs if the port is taken."""
    # Named as TCP: asyncio delays small packets on any other socket, by 40 ms a call.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidCliArgs(
            f"Port {port} cannot be used.", hint="Choose another, or `--port 0` for a free one."
        ) from error
    return listening
