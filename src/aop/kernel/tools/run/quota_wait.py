"""Tools `run.wait` and `run.waited`: a feature that waits for its model's quota."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.kernel.features.work_requests import end_quota_wait
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, committed, the_feature
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.runs import QuotaWait
from aop.kernel.record.port import Transaction


class WaitArguments(ChangeArguments, frozen=True, kw_only=True):
    until: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
    """When the feature continues, in UTC."""
    reason: Annotated[str, Meta(min_length=1, max_length=2000)]
    """The reason, for a person to read."""


class WaitResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    until: str
    """When the feature continues, in UTC."""
    reason: str
    """The reason, for a person to read."""


@committed
def wait(call: Call, arguments: WaitArguments, tx: Transaction) -> Outcome:
    """Record until when a feature waits."""
    name = the_feature(tx, arguments).feature_id
    version = next_version(tx.get(QuotaWait, name))
    tx.put(QuotaWait(version=version, feature_id=name, until=arguments.until, reason=arguments.reason), name)
    tx.append(call.event("quota_wait_began", name, until=arguments.until, reason=arguments.reason))
    return WaitResult(feature_id=name, until=arguments.until, reason=arguments.reason)


class WaitedResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    ended: bool
    """False when the feature did not wait."""


@committed
def waited(call: Call, arguments: ChangeArguments, tx: Transaction) -> Outcome:
    """Record that the wait of a feature is over."""
    name = the_feature(tx, arguments).feature_id
    return WaitedResult(feature_id=name, ended=end_quota_wait(tx, call, name))


TOOLS = (
    Tool(
        name="run.wait",
        summary="Record until when a feature waits for its model's quota.",
        arguments=WaitArguments,
        output=WaitResult,
        roles=SYSTEM,
        run=wait,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="run.waited",
        summary="Record that a feature no longer waits for its model's quota.",
        arguments=ChangeArguments,
        output=WaitedResult,
        roles=SYSTEM,
        run=waited,
        mutates=True,
        person_only=True,
    ),
)
