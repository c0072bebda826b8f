"""What a person is asked when a cap on cost is reached, and what is said when it stays."""

from __future__ import annotations

from typing import Any

import msgspec

from aop.core.errors import CostCapReached
from aop.core.ids import FeatureId
from aop.kernel.record.documents.questions import RAISE, STOP
from aop.kernel.record.documents.usage import Overrun
from aop.supervisor.policy.state import AskPerson


def cap_question(feature_id: FeatureId, over: Overrun) -> AskPerson:
    """Ask whether a feature may go on although a cap on cost is reached."""
    of = f"the feature `{feature_id}`" if over.scope == "feature" else "this run"
    unit = "USD" if over.figure == "usd" else "tokens"
    question = (
        f"What {of} costs is not reported, so the cap of {over.cap:g} {unit} cannot be kept."
        if over.spent is None
        else f"The cap on {of} is reached: {over.spent:g} of {over.cap:g} {unit}."
    )
    return AskPerson(
        question=f"{question} `{RAISE}` allows as much again; `{STOP}` keeps the work and ends here.",
        detail=msgspec.to_builtins(over),
        gate="authorisation",
        about=over.about,
        choices=(RAISE, STOP),
    )


def cap_kept(feature_id: FeatureId) -> dict[str, Any]:
    """Return why a feature takes no more turns."""
    return CostCapReached(f"The feature `{feature_id}` takes no more turns.", feature_id=feature_id).as_error()
