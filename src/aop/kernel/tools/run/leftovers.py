"""Tool `leftovers.note`: what `aop gc` removed, and where it saved the work."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.structs import copy_fields
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.record.port import Transaction


class LeftoverArguments(Arguments, frozen=True, kw_only=True):
    kind: Literal["worktree", "branch", "logs", "process", "ticket_run", "history"]
    """The kind of leftover."""
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    """The deleted or merged feature, the id of the process, the run of a ticket, or the folder of the history."""
    did: Literal["rescued", "removed"]
    """`rescued` when its work is saved before the removal, `removed` when it is gone."""
    ref: Annotated[str, Meta(pattern="^refs/aop/rescue/")] | None = None
    """The ref that keeps its work; null without any."""


class LeftoverResult(Struct, frozen=True, kw_only=True):
    kind: str
    """The kind of leftover."""
    name: str
    """The deleted or merged feature, the id of the process, the run of a ticket, or the folder of the history."""
    did: str
    """The outcome."""
    ref: str | None
    """The ref that keeps its work."""


@committed
def note(call: Call, arguments: LeftoverArguments, tx: Transaction) -> Outcome:
    """Record in the journal what became of a leftover."""
    facts = copy_fields(LeftoverResult, arguments)
    tx.append(call.event(f"leftover_{facts.did}", None, what=facts.kind, name=facts.name, ref=facts.ref))
    return facts


TOOLS = (
    Tool(
        name="leftovers.note",
        summary="Record a leftover that `aop gc` removed, and the ref that keeps its work.",
        arguments=LeftoverArguments,
        output=LeftoverResult,
        roles=SYSTEM,
        run=note,
        mutates=True,
        brief=True,
        person_only=True,
    ),
)
