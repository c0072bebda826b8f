"""Retries of operations on an unavailable system."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from aop.core.errors import RemoteRejected, RemoteUnavailable

LONGEST_WAIT = 60.0

_RETRY_AFTER = re.compile(r"retry.?after\D{0,20}([0-9]{1,6})", re.IGNORECASE)

P = ParamSpec("P")
R = TypeVar("R")


class RetryingPort(Protocol):
    """A port whose operations can be repeated."""

    @property
    def waits(self) -> Sequence[float]:
        """Return the seconds before each retry."""


S = TypeVar("S", bound=RetryingPort)


def with_retries(
    operation: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Repeat an operation while its system is unavailable, once for each wait of its port.

    Its check for what is written already is repeated too, so a lost answer does no harm.
    """

    async def attempt(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await operation(self, *args, **kwargs)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # An answer of an unknown form, such as the page of a proxy.
            raise RemoteRejected(
                f"AOP does not understand the answer to `{operation.__name__}`.",
                hint="Check that the address leads to the system itself, and start the ticket again.",
            ) from error

    @wraps(operation)
    async def repeat(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        for wait in self.waits:
            try:
                return await attempt(self, *args, **kwargs)
            except RemoteUnavailable as refusal:
                await asyncio.sleep(_seconds_to_wait(refusal.message, wait))
        return await attempt(self, *args, **kwargs)

    return repeat


def _seconds_to_wait(message: str, wait: float) -> float:
    """Return the wait that the system requested, within limits, or else the port's."""
    found = _RETRY_AFTER.search(message)
    return min(float(found[1]), LONGEST_WAIT) if found else wait
