"""Call log port: one line for every call, but not when a person only looks."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class LoggedCall(Struct, frozen=True, kw_only=True):
    """One call, as it is noted when it has ended; never its arguments or its answer."""

    at: str
    """When it ended, in UTC."""
    actor: str
    role: str
    tool: str
    feature_id: str | None
    operation_id: str
    milliseconds: float
    outcome: str
    """`ok`, or the code of the refusal."""


class CallLog(Protocol):
    """The log of calls: reads by agents and refused calls are in it, reads by a person are not."""

    def note(self, call: LoggedCall) -> None:
        """Add a call to the end. It is cheap and outlives this process, but a crash of the machine may lose it."""
