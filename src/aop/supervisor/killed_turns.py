"""Counts turns that a process began and did not live to count: they cost what the meter saw, or nobody knows what."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from aop.core.errors import Fault
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import SUPERVISOR
from aop.kernel.record.documents.usage import OpenTurn, Usage


def count_killed_turns(gateway: Gateway, metered: Callable[[OpenTurn], Usage | None]) -> tuple[OpenTurn, ...]:
    """Count every turn that is open although nobody takes one; to be called before anybody does. Return them."""
    with gateway.kernel.record.read() as view:
        killed = tuple(view.all(OpenTurn))
    for turn in killed:
        facts = {name: getattr(turn, name) for name in ("feature_id", "worker", "run", "provider", "model", "turn")}
        usage = msgspec.to_builtins(metered(turn))
        given = {**facts, "usage": usage, "answered": False}
        answer = gateway.call(SUPERVISOR, "usage.record", given, operation_id=f"{turn.turn}.usage")
        if answer.error is not None:
            raise Fault(f"A turn of `{turn.feature_id}` cannot be counted: {answer.error['message']}")
    return killed
