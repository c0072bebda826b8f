"""A socket that listens on this machine only."""

from __future__ import annotations

import socket

from aop.core.errors import InvalidCliArgs

LOOPBACK = "127.0.0.1"

Listening = socket.socket


def loopback_socket(port: int) -> Listening:
    """Return a bound socket; port 0 takes a free one.

    Raises: InvalidCliArgs if the port cannot be had.
    """
    # Named as TCP: of any other socket asyncio lets small packets wait for each other, 40 ms a call.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidCliArgs(f"The port {port} cannot be used.", hint="Take another one, or `--port 0`.") from error
    return listening
