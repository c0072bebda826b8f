"""Networks of set-ups: the question whether a feature's set-up may use one."""

from __future__ import annotations

from msgspec.structs import replace

from aop.core.errors import SetupNeedsNetwork
from aop.kernel.features.opened_paths import NO, YES
from aop.supervisor.policy.state import Action, AskPerson, FeatureRun, RunGates, ToolAnswered


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
