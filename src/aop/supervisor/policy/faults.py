"""Faults of agents: how often each is retried, and the question to a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aop.core import errors
from aop.core.text.counts import count
from aop.kernel.record.documents.questions import RETRY, STOP
from aop.supervisor.policy.state import AskPerson, FeatureRun

TOLD_AND_RETRIED = 2
"""How often a worker is told that its answer cannot be used."""
RETRIES: Mapping[str, int] = {
    # The cause may be of the moment: one more turn is worth its price.
    **dict.fromkeys(
        (
            errors.AgentCrashed.code,
            errors.AgentFailed.code,
            errors.AgentTimedOut.code,
            errors.AgentOutputTooLarge.code,
            errors.ModelReplyCutOff.code,
        ),
        1,
    ),
    # The cause does not go away by itself.
    **dict.fromkeys(
        (
            errors.AgentNotStarted.code,
            errors.AgentProviderNotConfigured.code,
            errors.ProviderAuthMissing.code,
            errors.ModelContextExceeded.code,
            errors.ModelNotConfigured.code,
            errors.ModelPriceUnknown.code,
            errors.ModelRequestRejected.code,
            errors.ModelSupportMissing.code,
            errors.ProviderToolRefused.code,
            errors.RequestPartUnknown.code,
        ),
        0,
    ),
}
"""The immediate retries after each cause; any other is an answer that cannot be used."""
BEFORE_RETRY: Mapping[str, str] = {
    errors.AgentNotStarted.code: "Install the program or correct its command first; `aop agents` lists what is found.",
    errors.ProviderAuthMissing.code: "Log in or set the key first, and check it with `aop agents test PROVIDER`.",
    errors.AgentTimedOut.code: "A longer time is set with `supervisor.turn_timeout_seconds` in policy.yaml.",
}


def cause_of(error: Mapping[str, Any]) -> str:
    """Return the code of the cause: a model's own error, or else the agent's."""
    return str(error.get("details", {}).get("model_error") or error["code"])


def failures_in_a_row(run: FeatureRun) -> int:
    """Return how many of the newest turns brought no answer."""
    answered = [number for number, attempt in enumerate(run.attempts, 1) if attempt.fingerprint]
    return len(run.attempts) - (answered[-1] if answered else 0)


def is_retried(run: FeatureRun, error: Mapping[str, Any]) -> bool:
    """Tell whether a worker gets another turn at once after a fault; the newest attempt is the fault."""
    return failures_in_a_row(run) <= RETRIES.get(cause_of(error), TOLD_AND_RETRIED)


def fault_question(run: FeatureRun, error: Mapping[str, Any], attempts: Sequence[Any]) -> AskPerson:
    """Return the question whether a worker that failed gets another turn."""
    failed = failures_in_a_row(run)
    times = f" {count(failed, 'time')} in a row" if failed > 1 else ""
    before = BEFORE_RETRY.get(cause_of(error), f"Its output: `aop logs --agent {run.feature_id}`.")
    text = (
        f"The {run.role} of `{run.feature_id}` failed{times}. {sentence(str(error['message']))} {before}"
        f" `{RETRY}` gives it another turn; `{STOP}` keeps the work and blocks the feature."
    )
    detail = {"error": error, "attempts": attempts}
    return AskPerson(question=text, detail=detail, gate="escalation", choices=(RETRY, STOP))


def sentence(text: str) -> str:
    """Return a text with a full stop, unless it ends with a mark."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
