"""Tools `run.pause` and `run.resume`: for one feature or for all."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.ids import FEATURE_ID_PATTERN, FeatureId
from aop.core.structs import copy_fields
from aop.kernel.features.work_requests import end_wait, store_pause
from aop.kernel.gateway.calls import Arguments, Call, ChangeArguments, Outcome, Tool, committed, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.runs import Pause
from aop.kernel.record.port import Transaction


class PauseArguments(Arguments, frozen=True, kw_only=True):
    feature_id: Annotated[str, Meta(pattern=FEATURE_ID_PATTERN)] | None = None
    """The feature; null for all of them, and those to come."""
    expected_version: Annotated[int, Meta(ge=1)] | None = None


class PauseResult(Struct, frozen=True, kw_only=True):
    feature_id: str | None
    paused_by: str
    """The person who paused it."""
    paused_at: str
    """Since when it is paused, in UTC."""
    changed: bool
    """False when it was already paused."""


@committed
def pause(call: Call, arguments: PauseArguments, tx: Transaction) -> Outcome:
    """Start no new turn and no new gate; running ones are finished."""
    _check_feature(tx, arguments)
    name = None if arguments.feature_id is None else FeatureId(arguments.feature_id)
    is_new = store_pause(tx, call, name)
    return copy_fields(PauseResult, tx.get(Pause, name or Pause.all), changed=is_new)


class ResumeResult(Struct, frozen=True, kw_only=True):
    resumed: tuple[str, ...]
    """The pauses that ended, and the features whose wait for a provider did; `*` stands for all; empty if none."""
    still_paused: tuple[str, ...]
    """The pauses that remain: features, or `*` for all."""


@committed
def resume(call: Call, arguments: PauseArguments, tx: Transaction) -> Outcome:
    """End the pause of one feature and its wait for a provider, or every pause."""
    _check_feature(tx, arguments)
    keys = [rest.feature_id or Pause.all for rest in tx.all(Pause)]
    ended = [key for key in keys if arguments.feature_id in (None, key)]
    for key in ended:
        tx.remove(Pause, key)
        tx.append(call.event("run_resumed", None if key == Pause.all else FeatureId(key)))
    if arguments.feature_id is not None:
        # The other features of that provider try again, too: their wait is the same one.
        waited = end_wait(tx, call, FeatureId(arguments.feature_id))
        ended += [name for name in waited if name not in ended]
    return ResumeResult(resumed=tuple(ended), still_paused=tuple(key for key in keys if key not in ended))


def _check_feature(tx: Transaction, arguments: PauseArguments) -> None:
    """Refuse a feature that does not exist, or has another version than expected."""
    if arguments.feature_id is not None:
        seen = {"feature_id": arguments.feature_id, "expected_version": arguments.expected_version}
        the_feature(tx, msgspec.convert(seen, ChangeArguments))


TOOLS = (
    Tool(
        name="run.pause",
        summary="Start no new turn and no new gate of one feature, or of all; running ones are finished.",
        arguments=PauseArguments,
        output=PauseResult,
        roles=COORDINATORS,
        run=pause,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="run.resume",
        summary="End the pause of one feature and its wait for a provider, or every pause.",
        arguments=PauseArguments,
        output=ResumeResult,
        roles=COORDINATORS,
        run=resume,
        mutates=True,
        person_only=True,
    ),
)
