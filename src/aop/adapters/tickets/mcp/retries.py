"""Asking a system around a ticket again when it was not there: every operation of a port looks before it writes."""

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


class Patient(Protocol):
    """What has operations that can be repeated."""

    @property
    def waits(self) -> Sequence[float]:
        """Return the seconds before each further attempt."""


S = TypeVar("S", bound=Patient)


def patiently(
    operation: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Repeat an operation while its system is not there, as often as its port waits.

    The whole operation is repeated, with its look for what was written already: an answer that was lost is found. An
    answer that is no such answer, such as the page of a proxy, is a refusal like others.
    """

    async def attempted(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await operation(self, *args, **kwargs)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise RemoteRejected(
                f"The answer to `{operation.__name__}` is none that AOP understands.",
                hint="Look whether the address leads to the system itself, and start the ticket again.",
            ) from error

    @wraps(operation)
    async def repeated(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        for wait in self.waits:
            try:
                return await attempted(self, *args, **kwargs)
            except RemoteUnavailable as absent:
                await asyncio.sleep(_asked_for(absent.message, wait))
        return await attempted(self, *args, **kwargs)

    return repeated


def _asked_for(message: str, wait: float) -> float:
    """Return how long to wait: what the system asked for, within limits, or what its port waits."""
    found = _RETRY_AFTER.search(message)
    return min(float(found[1]), LONGEST_WAIT) if found else wait
