"""The tool that keeps what a worker's turn cost; only AOP itself calls it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from aop.core.ids import FeatureId
from aop.kernel.calls import Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.permissions import SYSTEM
from aop.kernel.record import Transaction
from aop.kernel.usage import FeatureUsage, Spending, Usage, spent_in, spent_on, with_turn


class RecordTurn(ChangeArguments, frozen=True, kw_only=True):
    worker: Literal["planner", "builder", "qa", "swe"]
    """Whose turn it was."""
    run: Annotated[str, Meta(max_length=200)]
    """The run that the turn belongs to."""
    provider: Annotated[str, Meta(max_length=200)]
    """The coding agent that took it."""
    model: Annotated[str, Meta(max_length=200)] | None = None
    """The model that it used; null when nobody said."""
    usage: Usage | None = None
    """What it cost, as the agent reports it; null when it reports nothing."""
    answered: bool = True
    """Whether it brought an answer that could be used."""


class TurnRecorded(Struct, frozen=True, kw_only=True):
    feature_id: str
    feature: Spending
    """What the feature cost so far."""
    run: Spending
    """What the run cost so far, all its features together."""


def record_turn(call: Call, arguments: RecordTurn) -> Outcome:
    """Keep what a turn cost, in the journal and in the sums."""

    def decide(tx: Transaction) -> Outcome:
        # What `swe` works on is a workflow, which is a feature only from its first branch on.
        name = FeatureId(arguments.feature_id) if arguments.worker == "swe" else the_feature(tx, arguments).feature_id
        known = tx.get(FeatureUsage, name) or FeatureUsage(version=0, feature_id=name)
        usage = with_turn(known, arguments.worker, arguments.run, arguments.usage)
        tx.put(usage, name)
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
            )
        )
        return TurnRecorded(
            feature_id=name,
            feature=spent_on(usage),
            run=spent_in(arguments.run, tx.all(FeatureUsage)),
        )

    return call.commit(decide)


TOOLS = (
    Tool(
        name="usage.record",
        summary="Keep what a turn of a worker cost.",
        arguments=RecordTurn,
        output=TurnRecorded,
        roles=SYSTEM,
        run=record_turn,
        mutates=True,
        person_only=True,
    ),
)
