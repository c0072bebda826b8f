"""Caps: the question when a cost cap is reached, and the error when it stays."""

from __future__ import annotations

from typing import Any

import msgspec

from aop.core.errors import CostCapReached
from aop.core.ids import FeatureId
from aop.kernel.record.documents.questions import RAISE, STOP
from aop.kernel.record.documents.usage import Overrun
from aop.supervisor.policy.state import AskPerson


def cap_question(feature_id: FeatureId, over: Overrun) -> AskPerson:
    """Return the question whether a feature may continue beyond its cost cap."""
    of = f"the feature `{feature_id}`" if over.scope == "feature" else "this run"
    unit = "USD" if over.figure == "usd" else "tokens"
    question = (
        f"The cost of {of} is not reported, so the cap of {over.cap:g} {unit} cannot be enforced."
        if over.spent is None
        else f"The cap on {of} is reached: {over.spent:g} of {over.cap:g} {unit}."
    )
    return AskPerson(
        question=f"{question} `{RAISE}` allows the same amount again; `{STOP}` keeps the work and stops here.",
        detail=msgspec.to_builtins(over),
        gate="authorisation",
        about=over.about,
        choices=(RAISE, STOP),
    )


def cap_reached_error(feature_id: FeatureId) -> dict[str, Any]:
    """Return the error of a feature whose cap was not raised."""
    message = f"The cost cap of the feature `{feature_id}` was not raised."
    return CostCapReached(message, feature_id=feature_id).as_error()
