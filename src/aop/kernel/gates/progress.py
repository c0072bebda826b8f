"""Progress of a gate run: lines kept in its ledger entry while it runs."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.kernel.config.gates import Mode
from aop.kernel.gateway.calls import Call

GATES_RUN = "gates.run"
MOST_LINES = 100


class Progress(Struct, frozen=True, kw_only=True):
    """The state of a gate run in its ledger entry."""

    feature_id: str
    mode: Mode
    lines: tuple[str, ...] = ()
    since: str = ""
    """When it began, in UTC; empty in an entry of an older AOP."""


def with_progress(call: Call, feature_id: str, mode: Mode) -> Call:
    """Return the call with a `report` that also stores each line in the ledger, for other processes."""
    progress = Progress(feature_id=feature_id, mode=mode, since=call.kernel.now())
    # A power cut ends the run: nobody asks for its progress then.
    call.intend(msgspec.to_builtins(progress), durable=False)
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        told = msgspec.structs.replace(progress, lines=tuple(lines[-MOST_LINES:]))
        call.intend(msgspec.to_builtins(told), durable=False)
        call.report(line)

    return msgspec.structs.replace(call, report=report)
