"""Documents: a gated workflow in the record, and the two files written from it."""

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
    """A tree with the new tests and without the fix, on which the gates failed."""

    subject: Subject
    ran: int | None
    """The number of tests that ran; with the fix at least as many must run."""
    passed: tuple[str, ...] = ()
    """The tests that passed; with the fix each must pass too."""


class RedStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A RED step that is done."""

    tests: tuple[str, ...]
    """The tests that failed by an assertion of their own."""
    tree: TreeId
    """The work with them."""
    head: CommitId
    """The checkpoint before them."""


class GatedWorkflow(Document, frozen=True, kw_only=True):
    """One agent on one plan, in its own worktree."""

    kind: ClassVar[str] = "gated"

    feature_id: FeatureId
    master_plan: str
    workflow: Workflow = Workflow()
    base_commit: CommitId
    head: CommitId
    """The commit of the branch, or of HEAD while there is no branch, as the server left it."""
    tree: TreeId
    """The exact content of the work."""
    red_tree: TreeId | None = None
    """The tree before the last red test was written: the work without the fix."""
    unfixed: Unfixed | None = None
    """The red tree with the current tests."""
    reds: tuple[RedStep, ...] = ()
    """The RED steps of this pull request."""
    draft: str | None = None
    """`ACTIVE_PR.json` while the agent writes it; once accepted, the workflow's plan is its content."""
    question: str = ""
    """The id of the question when the agent asked for help."""
    agent: str = ""
    """The token of the last caller."""

    @property
    def branch(self) -> str | None:
        """Return the branch of the pull request; None while there is none."""
        return self.workflow.current_pr_branch

    def active_pr(self) -> bytes | None:
        """Return the content of `ACTIVE_PR.json`; None if there is none."""
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
        """Return the two files in the root of the worktree; None if absent (GATED-07)."""
        return {ACTIVE_PR: self.active_pr(), ORCHESTRATION_STATE: _state_text(self.workflow)}


def _state_text(workflow: Workflow) -> bytes:
    known: dict[str, Any] = msgspec.to_builtins(workflow)
    known.pop("plan", None)
    told = {"status": workflow.status.value, "debug_attempt_counter": workflow.debug_attempt_counter, **known}
    return msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"
