"""What the record keeps of a gated workflow, and the two files that show it."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from aop.core.errors import Refusal
from aop.core.ids import CommitId, FeatureId, TreeId
from aop.gated.machine.active_pr import ActivePr, plan_text, read_plan
from aop.gated.machine.state import Workflow
from aop.kernel.record.documents.base import Document
from aop.kernel.record.documents.gate_runs import Subject

ACTIVE_PR, ORCHESTRATION_STATE = "ACTIVE_PR.json", "ORCHESTRATION_STATE.json"
REVIEW_INPUT = ".aop-review.json"


class Unfixed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tree with new tests and without what they are about, on which the gates failed."""

    subject: Subject
    ran: int | None
    """How many tests ran there: with the fix, not one of them may be missing."""


class GatedWorkflow(Document, frozen=True, kw_only=True):
    """One agent on one plan, in a worktree of its own."""

    kind: ClassVar[str] = "gated"

    feature_id: FeatureId
    master_plan: str
    workflow: Workflow = Workflow()
    base_commit: CommitId
    head: CommitId
    """Where the server left the branch, or HEAD while there is none."""
    tree: TreeId
    """What the work is, byte for byte."""
    red_tree: TreeId | None = None
    """What it was before the test was written that went red last: the work without the fix."""
    unfixed: Unfixed | None = None
    """That, with the tests as they are now."""
    draft: str | None = None
    """`ACTIVE_PR.json` while the agent writes it; from then on the plan of the workflow is what it holds."""
    question: str = ""
    """What a person was asked when the agent called for help."""
    agent: str = ""
    """The token of whoever called last."""

    @property
    def branch(self) -> str | None:
        """Return the branch of the pull request; None while there is none."""
        return self.workflow.current_pr_branch

    def active_pr(self) -> bytes | None:
        """Return what `ACTIVE_PR.json` holds; None if it is not there."""
        if self.draft is not None:
            return self.draft.encode()
        return None if self.workflow.plan is None else plan_text(self.workflow.plan)

    def drafted(self) -> ActivePr | Refusal | None:
        """Return the plan that the agent wrote, or what is wrong with it."""
        text = self.active_pr()
        if text is None:
            return None
        try:
            return read_plan(text)
        except Refusal as refusal:
            return refusal

    def files(self) -> dict[str, bytes | None]:
        """Return the files in the root of the worktree; None: not there (GATED-07)."""
        return {ACTIVE_PR: self.active_pr(), ORCHESTRATION_STATE: _state_text(self.workflow)}


def _state_text(workflow: Workflow) -> bytes:
    known: dict[str, Any] = msgspec.to_builtins(workflow)
    known.pop("plan", None)
    told = {"status": workflow.status.value, "debug_attempt_counter": workflow.debug_attempt_counter, **known}
    return msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"
