"""Tools `run.wait` and `run.waited`: features that wait for a provider of models."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.kernel.features.work_requests import begin_wait, end_wait
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, committed, the_feature
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.record.documents.base import Moment
from aop.kernel.record.documents.runs import ProviderWait
from aop.kernel.record.port import Transaction


class WaitArguments(ChangeArguments, frozen=True, kw_only=True):
    provider: Annotated[str, Meta(min_length=1, max_length=200)]
    """The provider of models; all its features share one wait."""
    until: Moment
    """When the feature continues, in UTC."""
    trouble: Annotated[str, Meta(min_length=1, max_length=2000)]
    """The provider's trouble, for a person to read."""
    since: Moment
    """When the turn that met the trouble began, in UTC: one from before the end of a wait takes part in it."""


class WaitResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    provider: str
    """The provider of models."""
    until: str
    """When the features continue, in UTC."""
    reason: str
    """The reason, for a person to read."""
    features: tuple[str, ...]
    """The features that wait for this provider."""


@committed
def wait(call: Call, arguments: WaitArguments, tx: Transaction) -> Outcome:
    """Record until when a feature waits for a provider; all its features share one wait."""
    name = the_feature(tx, arguments).feature_id
    trouble = call.kernel.redact(arguments.trouble)
    wanted = ProviderWait(version=1, provider=arguments.provider, until=arguments.until, trouble=trouble)
    made = begin_wait(tx, call, name, wanted, since=arguments.since)
    return WaitResult(
        feature_id=name,
        provider=made.provider,
        until=made.until,
        reason=made.reason(call.kernel.clock.now()),
        features=made.features,
    )


class WaitedResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    ended: tuple[str, ...]
    """The features that no longer wait; empty when the feature did not wait."""


@committed
def waited(call: Call, arguments: ChangeArguments, tx: Transaction) -> Outcome:
    """Record that the wait of a feature is over, for all features that share it."""
    name = the_feature(tx, arguments).feature_id
    return WaitedResult(feature_id=name, ended=end_wait(tx, call, name))


TOOLS = (
    Tool(
        name="run.wait",
        summary="Record until when a feature waits for a provider of models; its features share one wait.",
        arguments=WaitArguments,
        output=WaitResult,
        roles=SYSTEM,
        run=wait,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="run.waited",
        summary="Record that the wait for a provider of models is over, for all features that share it.",
        arguments=ChangeArguments,
        output=WaitedResult,
        roles=SYSTEM,
        run=waited,
        mutates=True,
        person_only=True,
    ),
)
