"""Authorisations: questions about a cost cap, and about a set-up's network."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from aop.core.errors import CostCapReached, SetupNeedsNetwork
from aop.core.ids import FeatureId
from aop.kernel.features.opened_paths import NO, YES
from aop.kernel.record.documents.questions import RAISE, STOP
from aop.kernel.record.documents.usage import Overrun
from aop.supervisor.policy.state import Action, AskPerson, FeatureRun, RunGates, ToolAnswered


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


def network_question(run: FeatureRun, event: ToolAnswered) -> tuple[FeatureRun, Action] | None:
    """Wait for the answer to the kernel's question, with the gates that it holds back; None for any other refusal."""
    error = event.result.error or {}
    if error.get("code") != SetupNeedsNetwork.code or event.mode is None:
        return None
    details = error["details"]
    asked = AskPerson(
        question=details["question"],
        gate="authorisation",
        choices=(YES, NO),
        question_id=details["question_id"],
    )
    gates = RunGates(role=run.role, mode=event.mode)
    return replace(run, results=(event.result,), pending=None, held_back=gates), asked
