"""Tool `run.began`: the order with which a run of the supervisor begins."""

from __future__ import annotations

import msgspec

from aop.core.version import VERSION
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.locks.lost_leases import block_features_that_lost_locks, pending_work
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.runs import NewestRun, RunMetadata, RunOrder
from aop.kernel.record.port import Transaction


class BeganArguments(Arguments, frozen=True, kw_only=True):
    order: RunOrder
    """The order of the run."""


@committed
def began(call: Call, arguments: BeganArguments, tx: Transaction) -> Outcome:
    """Record the order of a run, its configuration and the pending work."""
    kernel = call.kernel
    lost = block_features_that_lost_locks(tx, call)
    known = {
        **msgspec.to_builtins(arguments.order),
        "started_at": kernel.now(),
        "aop_version": VERSION,
        "config_hash": kernel.config().hash,
        "pending": pending_work(tx, arguments.order.unfinished_gates, lost),
    }
    facts = msgspec.convert(msgspec.to_builtins(known), RunMetadata)
    version = next_version(tx.get(NewestRun, NewestRun.key))
    tx.put(NewestRun(version=version, facts=facts), NewestRun.key)
    tx.append(call.event("run_began", None, **msgspec.to_builtins(facts)))
    return facts


TOOLS = (
    Tool(
        name="run.began",
        summary="Record the order with which a run of the supervisor begins.",
        arguments=BeganArguments,
        output=RunMetadata,
        roles=SYSTEM,
        run=began,
        mutates=True,
        person_only=True,
    ),
)
