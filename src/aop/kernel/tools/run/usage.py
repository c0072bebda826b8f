"""Tools `usage.begin`, `usage.assign` and `usage.record`: turns and their cost."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct

from aop.core.errors import Json
from aop.core.ids import FeatureId
from aop.core.redaction.redactor import mask_json
from aop.core.structs import copy_fields
from aop.kernel.config.policy import Sessions
from aop.kernel.features.work_requests import forget_wait
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, committed, feature_named, the_feature
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.runs import NewestRun
from aop.kernel.record.documents.usage import FeatureUsage, OpenTurn, Spending, Trouble, Usage, Worker
from aop.kernel.record.port import Snapshot, Transaction
from aop.kernel.record.requests import own_wait_name
from aop.kernel.record.role_sessions import ROLES, SessionId, program_session, renew_roles
from aop.kernel.record.spending import spent_in, spent_on, with_turn


class BeginTurnArguments(ChangeArguments, frozen=True, kw_only=True):
    worker: Worker
    """The role that took the turn; `orchestrator` is a model that is asked about a collision."""
    run: Annotated[str, Meta(max_length=200)]
    """The run that the turn belongs to."""
    provider: Annotated[str, Meta(max_length=200)]
    """The coding agent that took it."""
    model: Annotated[str, Meta(max_length=200)] | None = None
    """The model that it used; null if unknown."""


class BeginTurnResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    turn: str
    """The name of the turn, which `usage.record` takes."""


@committed
def begin_turn(call: Call, arguments: BeginTurnArguments, tx: Transaction) -> Outcome:
    """Record that a turn begins, so that it counts even if the process dies."""
    name = _feature_worked_on(tx, arguments)
    turn, now = call.kernel.new_id("turn"), call.kernel.now()
    begun = copy_fields(OpenTurn, arguments, version=1, turn=turn, feature_id=name, began_at=now)
    tx.put(begun, begun.turn)
    if arguments.worker in ROLES:
        newest = tx.get(NewestRun, NewestRun.key)
        run = arguments.run if newest is None else newest.facts.run
        goes_on = call.kernel.config().policy.supervisor.sessions is Sessions.RESUME
        session = program_session(feature_named(tx, name), arguments.worker) if goes_on else ""
        renew_roles(tx, name, now=now, sessions={arguments.worker: session or turn, "orchestrator": run})
    return BeginTurnResult(feature_id=name, turn=begun.turn)


def _feature_worked_on(view: Snapshot, arguments: BeginTurnArguments) -> FeatureId:
    # `swe` works on a workflow, which becomes a feature with its first branch.
    return FeatureId(arguments.feature_id) if arguments.worker == "swe" else the_feature(view, arguments).feature_id


WorkerName = Annotated[str, Meta(max_length=300)]


class AssignTurnArguments(ChangeArguments, frozen=True, kw_only=True):
    turn: Annotated[str, Meta(max_length=200)]
    """The turn that `usage.begin` returned."""
    on_worker: WorkerName = ""
    """The worker of another machine that takes it; empty: this machine."""


class AssignTurnResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    turn: str
    """The name of the turn."""
    on_worker: str
    """The worker that takes it; empty for this machine, and for a turn that has ended."""


@committed
def assign_turn(call: Call, arguments: AssignTurnArguments, tx: Transaction) -> Outcome:
    """Record which machine takes a turn that has begun."""
    name, begun = the_feature(tx, arguments).feature_id, tx.get(OpenTurn, arguments.turn)
    is_open = begun is not None and begun.feature_id == name
    if begun is not None and is_open:
        tx.put(revise(begun, on_worker=arguments.on_worker or UNSET), begun.turn)
    return AssignTurnResult(feature_id=name, turn=arguments.turn, on_worker=arguments.on_worker if is_open else "")


class RecordTurnArguments(BeginTurnArguments, frozen=True, kw_only=True):
    turn: Annotated[str, Meta(max_length=200)] = ""
    """The turn that `usage.begin` returned; empty without one."""
    usage: Usage | None = None
    """The cost as the agent reports it; null without a report."""
    answered: bool = True
    """Whether it gave a usable answer."""
    model_provider: Annotated[str, Meta(max_length=200)] = ""
    """The provider of its model; a turn that it answered ends the row of waits for it."""
    trouble: Trouble | None = None
    """The trouble of that provider that ended the turn; null without any."""
    session: SessionId | None = None
    """The id of the agent's session, if it can go on in the next turn."""
    on_worker: WorkerName = ""
    """The worker of another machine that took it; empty: the one that `usage.assign` named, or none."""


class RecordTurnResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    feature: Spending
    """The cost of the feature so far."""
    run: Spending
    """The cost of the run so far, all its features together."""


@committed
def record_turn(call: Call, arguments: RecordTurnArguments, tx: Transaction) -> Outcome:
    """Record the cost of a turn, in the journal and in the sums."""
    name = _feature_worked_on(tx, arguments)
    known = tx.get(FeatureUsage, name) or FeatureUsage(version=0, feature_id=name)
    usage = with_turn(known, arguments.worker, arguments.run, arguments.usage)
    tx.put(usage, name)
    begun = tx.get(OpenTurn, arguments.turn)
    on_worker = arguments.on_worker or (begun.on_worker if begun is not None else UNSET)
    if begun is not None and arguments.answered:
        for provider in (arguments.model_provider, own_wait_name(arguments.model_provider, name)):
            forget_wait(tx, provider, began_at=begun.began_at)
    tx.remove(OpenTurn, arguments.turn)
    if arguments.worker in ROLES:
        renew_roles(tx, name, now=call.kernel.now(), sessions={arguments.worker: arguments.session or ""})
    tx.append(
        call.event(
            "turn_taken",
            name,
            worker=arguments.worker,
            run=arguments.run,
            provider=arguments.provider,
            model=arguments.model,
            answered=arguments.answered,
            usage=msgspec.to_builtins(arguments.usage),
            **({"trouble": _masked(call, arguments.trouble)} if arguments.trouble else {}),
            **({"on_worker": on_worker} if on_worker else {}),
        )
    )
    return RecordTurnResult(feature_id=name, feature=spent_on(usage), run=spent_in(arguments.run, tx.all(FeatureUsage)))


def _masked(call: Call, trouble: Trouble) -> Json:
    masked: Json = mask_json(msgspec.to_builtins(trouble), call.kernel.redact)
    return masked


TOOLS = (
    Tool(
        name="usage.begin",
        summary="Record that a worker's turn begins, so that it counts even if the process dies.",
        arguments=BeginTurnArguments,
        output=BeginTurnResult,
        roles=SYSTEM,
        run=begin_turn,
        mutates=True,
        brief=True,
        person_only=True,
    ),
    Tool(
        name="usage.assign",
        summary="Record which worker of another machine takes a turn that has begun.",
        arguments=AssignTurnArguments,
        output=AssignTurnResult,
        roles=SYSTEM,
        run=assign_turn,
        mutates=True,
        brief=True,
        person_only=True,
    ),
    Tool(
        name="usage.record",
        summary="Record the cost of a worker's turn.",
        arguments=RecordTurnArguments,
        output=RecordTurnResult,
        roles=SYSTEM,
        run=record_turn,
        mutates=True,
        brief=True,
        person_only=True,
    ),
)
