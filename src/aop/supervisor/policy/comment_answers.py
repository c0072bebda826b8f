"""Comment answers: what a worker says of people's comments, beside its proposal.

The words are recorded after the proposal is accepted. A note that settles all that was asked for, because each comment
is declined with a reason or met already, ends the builder's phase as a patch does: the gates run.
"""

from __future__ import annotations

import msgspec

from aop.supervisor.policy.state import CallTool, FeatureRun
from aop.supervisor.policy.tool_calls import judging_call
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, ToolResult

ANSWER = "feature.answer_comments"


def answer_call(run: FeatureRun) -> CallTool | None:
    """Return the call that records the words of the pending answer; None if it has none."""
    if not isinstance(run.pending, PlanSubmission | PatchProposal | Note):
        return None
    # Nothing is declined without a reason: such a comment stays open.
    words = [each for each in run.pending.comments if each.word == "done" or each.reason.strip()]
    if not words:
        return None
    return CallTool(role=run.role, tool=ANSWER, arguments={"comments": msgspec.to_builtins(words)})


def judging_tool(run: FeatureRun, result: ToolResult) -> str:
    """Return the tool that accepted the pending answer, also after its words were recorded."""
    if result.tool == ANSWER and isinstance(run.pending, PlanSubmission | PatchProposal | Note):
        return judging_call(run.role, run.pending).tool
    return result.tool


def settles(result: ToolResult) -> bool:
    """Tell whether the words settle all that people asked for."""
    return result.tool == ANSWER and result.ok and bool(result.data["settled"])
