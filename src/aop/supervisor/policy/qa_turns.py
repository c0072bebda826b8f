"""QA turns: the review before the full gates, and marks for the QA index.

A hunk that QA calls failed or waived is marked at once. One that it calls passed is a claim, which waits for the full
gates: with their run as evidence the kernel records it, and without a pass it is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from aop.core.roles import Role
from aop.kernel.config.policy import QaTurns
from aop.kernel.gates.qa_index import Mark
from aop.kernel.record.documents.features import Status
from aop.supervisor.policy.state import CallTool, FeatureRun, Review
from aop.supervisor.workers import Note, PatchProposal, ToolResult, WorkerOutput

READ_INDEX, UPDATE_INDEX = "qa.test_index_get", "qa.test_index_update"


def with_review_due(run: FeatureRun) -> FeatureRun:
    """Return the run of a feature that is still to be reviewed, if the policy wants a turn of QA for each."""
    return replace(run, review=Review.DUE if run.qa is QaTurns.ALWAYS else Review.NONE)


def is_review(run: FeatureRun) -> bool:
    """Tell whether QA has its turn before the full gates, and no conflict to resolve."""
    return run.review is Review.OPEN and run.role is Role.QA and run.conflict is None


def marks_in(output: WorkerOutput | None) -> tuple[Mark, ...]:
    """Return the marks of an answer that need no gate run."""
    return tuple(mark for mark in _all_marks(output) if mark.status != "passed")


def with_claims(run: FeatureRun, output: WorkerOutput) -> FeatureRun:
    """Return the run with the claims of a new answer in place of earlier ones."""
    return replace(run, claims=tuple(mark for mark in _all_marks(output) if mark.status == "passed"))


def after_tool(run: FeatureRun, result: ToolResult) -> FeatureRun:
    """Return the run after a tool's answer: a refusal drops the claims, and gates prove them and end the review."""
    if result.tool != "gates.run":
        return run if result.ok else replace(run, claims=())
    review = Review.NONE if run.review is Review.OPEN else run.review
    if not result.ok:
        return replace(run, review=review, claims=())
    is_proof = bool(run.claims) and run.status is Status.READY_TO_MERGE
    return replace(run, review=review, proof=str(result.data["gate_run_id"]) if is_proof else "")


def read_index() -> CallTool:
    """Return the call that reads the index, which an update names by its version."""
    return CallTool(role=Role.QA, tool=READ_INDEX)


def index_update(run: FeatureRun, read: Mapping[str, Any]) -> CallTool | None:
    """Return the call that records QA's marks, or its proven claims about hunks that are still the same."""
    index = read["index"] or {"version": 1, "items": ()}
    marks = _standing(run.claims, index["items"]) if run.proof else marks_in(run.pending)
    if not marks:
        return None
    arguments = {
        "expected_version": index["version"],
        "updates": msgspec.to_builtins(marks),
        "evidence_refs": [run.proof] if run.proof else _failed_runs(run),
    }
    return CallTool(role=Role.QA, tool=UPDATE_INDEX, arguments=arguments)


def _all_marks(output: WorkerOutput | None) -> tuple[Mark, ...]:
    return output.qa_index if isinstance(output, PatchProposal | Note) else ()


def _standing(claims: tuple[Mark, ...], items: Any) -> tuple[Mark, ...]:
    """Return the claims without hunks that a patch has changed since."""
    refs = {item["path"]: {hunk["ref"] for hunk in item["hunks"]} for item in items}
    kept = [
        replace(claim, hunk_refs=tuple(ref for ref in claim.hunk_refs if ref in refs.get(claim.path, ())))
        for claim in claims
    ]
    return tuple(claim for claim in kept if claim.hunk_refs)


def _failed_runs(run: FeatureRun) -> list[str]:
    """Return the failed gate runs that the worker was shown."""
    shown = [result for result in run.results if result.tool == "gates.run" and not result.ok]
    return [str(result.evidence["gate_run_id"]) for result in shown if "gate_run_id" in result.evidence]
