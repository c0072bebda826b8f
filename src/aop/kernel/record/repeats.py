"""Repeats of calls that lost the record on their way.

Nothing of such a call has happened, or its operation id tells that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from aop.core.errors import RecordLost

P = ParamSpec("P")
T = TypeVar("T")
MOST = 10
"""A database that is lost so often in a row is a fault; how long one that is away is waited for is its adapter's."""


def repeated(do: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function, and again each time that it lost the record. Raises: RecordLost in the end."""
    for _ in range(MOST - 1):
        try:
            return do(*arguments, **named)
        except RecordLost:
            continue
    return do(*arguments, **named)


async def in_thread(do: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function in a thread of its own, and again each time that it lost the record."""
    # Most commands have no loop, and pay nothing for one.
    import asyncio

    return await asyncio.to_thread(repeated, partial(do, *arguments, **named))
