"""Tools `run.add` and `run.took`: a request for work on a feature, and its end."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.ids import FEATURE_ID_PATTERN, FeatureId, feature_id
from aop.kernel.features.specs import share_spec
from aop.kernel.features.work_requests import request_work
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, committed, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.runs import WorkRequest
from aop.kernel.record.port import Transaction


class AddArguments(ChangeArguments, frozen=True, kw_only=True):
    depends_on: tuple[Annotated[str, Meta(pattern=FEATURE_ID_PATTERN)], ...] = ()
    """The features that must be merged before this one begins."""


class AddResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    depends_on: tuple[str, ...]
    """The features that must be merged before this one begins."""


@committed
def add(call: Call, arguments: AddArguments, tx: Transaction) -> Outcome:
    """Store a person's request for work on a feature, for the supervisor."""
    name = FeatureId(arguments.feature_id)
    if arguments.expected_version is not None:
        the_feature(tx, arguments)
    depends_on = tuple(feature_id(other) for other in arguments.depends_on)
    share_spec(tx, call.kernel, name)
    request_work(tx, call, name, depends_on=depends_on)
    tx.append(call.event("feature_wanted", name, depends_on=list(depends_on)))
    return AddResult(feature_id=name, depends_on=depends_on)


class TookResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    taken: bool
    """False when there was no request."""


@committed
def took(call: Call, arguments: ChangeArguments, tx: Transaction) -> Outcome:
    """Remove a request that the supervisor has taken."""
    if arguments.expected_version is not None:
        the_feature(tx, arguments)
    name = FeatureId(arguments.feature_id)
    known = tx.get(WorkRequest, name)
    tx.remove(WorkRequest, name)
    return TookResult(feature_id=name, taken=known is not None)


TOOLS = (
    Tool(
        name="run.add",
        summary="Request work on a feature from the running supervisor, or from the next one.",
        arguments=AddArguments,
        output=AddResult,
        roles=COORDINATORS,
        run=add,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="run.took",
        summary="Mark a request for work as taken by the supervisor.",
        arguments=ChangeArguments,
        output=TookResult,
        roles=frozenset(),
        run=took,
        mutates=True,
        person_only=True,
    ),
)
