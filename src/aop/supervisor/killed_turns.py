"""Killed turns: turns of a killed process, with their metered or unknown cost."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from aop.core.errors import Fault
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import SUPERVISOR
from aop.kernel.record.documents.usage import OpenTurn, Usage


def count_killed_turns(gateway: Gateway, metered: Callable[[OpenTurn], Usage | None]) -> tuple[OpenTurn, ...]:
    """Count and return the open turns of a killed process; call this before any new turn."""
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
