"""MCP server: AOP's own one, for agents that a command starts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.tokens import Tokens


def serve_mcp(gateway: Gateway, tokens: Tokens, log: Callable[[str], None]) -> AbstractContextManager[str]:
    """Serve MCP in a thread, and give the address; imported late, because few agents need it."""
    from aop.mcpserver.in_background import served_in_background

    return served_in_background(gateway, tokens, log)
