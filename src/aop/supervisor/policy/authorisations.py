"""Authorisations: questions about a cost cap, and about a set-up's network."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from aop.core.errors import CostCapReached, ModelPriceUnknown, SetupNeedsNetwork
from aop.core.ids import FeatureId
from aop.kernel.features.opened_paths import NO, YES
from aop.kernel.record.documents.questions import PRICED, RAISE, RESUME, RETRY, STOP, UNCAPPED
from aop.kernel.record.documents.usage import Overrun
from aop.supervisor.policy.state import Action, AskPerson, FeatureRun, RunGates, ToolAnswered, TurnWithheld

ALLOWED = (RAISE, RESUME, RETRY, PRICED, UNCAPPED)
"""The answers after which the turn that waits is taken."""


def withhold(run: FeatureRun, event: TurnWithheld) -> tuple[FeatureRun, AskPerson]:
    """Keep a turn until a person has answered; the reason is that of a feature that is stopped then."""
    error = withheld_error(run.feature_id, event.over)
    return replace(run, held_back=event.ask, fault=error), cap_question(run.feature_id, event.over)


def cap_question(feature_id: FeatureId, over: Overrun) -> AskPerson:
    """Return the question whether a feature may continue beyond its cost cap, or without one."""
    if over.model:
        return _price_question(over)
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


def _price_question(over: Overrun) -> AskPerson:
    question = (
        f"The policy caps the cost of each {over.scope} at {over.cap:g} USD, and AOP has no price for `{over.model}`."
        " Give it one with `aop models prices --file FILE`, which answers this question."
        f" `{PRICED}` looks for the price again; `{UNCAPPED}` lets this model work without a cap on its cost;"
        f" `{STOP}` keeps the work and stops here."
    )
    choices = (PRICED, UNCAPPED, STOP)
    detail = msgspec.to_builtins(over)
    return AskPerson(question=question, detail=detail, gate="authorisation", about=over.about, choices=choices)


def withheld_error(feature_id: FeatureId, over: Overrun) -> dict[str, Any]:
    """Return the error of a feature that was stopped because its cap was not raised, or its model has no price."""
    if not over.model:
        return cap_reached_error(feature_id)
    message = f"`{over.model}`, the model of the feature `{feature_id}`, has no price, and the policy caps the cost."
    return ModelPriceUnknown(message, feature_id=feature_id, model=over.model).as_error()


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
