"""Conflicts with a base branch that moved: their turns, and a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from aop.core.errors import MergeConflict
from aop.core.roles import Role
from aop.core.text.counts import count, list_some
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.questions import STOP
from aop.supervisor.policy.state import Action, AskPerson, CallTool, FeatureRun, Finish, Rung
from aop.supervisor.workers import ToolResult

FOLLOW_BASE = "repo.follow_base"
RESOLUTION_TURNS = 2
"""A person is asked after this many turns that did not resolve a conflict."""
ANEW = "anew"
"""The answer that plans and builds the feature again, on the base branch as it is now."""
RESOLVE = (
    "The base branch changed the same files as this feature. You are on the base branch as it is now: of the files in"
    " conflict you have its version, and the feature's own work on them is missing. The result of `repo.follow_base`"
    " has the lines of both sides, both diffs, and the plans of the features that were merged meanwhile. Do the work of"
    " `own_diff` again so that both purposes hold. Answer with one PATCH against the files as they are now."
)


def has_conflict(result: ToolResult) -> bool:
    """Tell whether a tool's answer says that the feature conflicts with the base branch."""
    return result.tool == FOLLOW_BASE and isinstance(result.data, Mapping) and bool(result.data.get("conflict"))


def is_known_to(results: Sequence[ToolResult], followed: ToolResult) -> bool:
    """Tell whether a worker that gets these results knows of a conflict with this base."""
    return any(has_conflict(each) and each.data["base_commit"] == followed.data["base_commit"] for each in results)


def with_conflict(run: FeatureRun, followed: ToolResult) -> FeatureRun:
    """Return a feature whose builder starts to resolve a conflict."""
    return replace(
        run, conflict=followed, role=Role.BUILDER, turns=0, attempts=(), rung=Rung.NONE, results=(), pending=None
    )


def conflict_question(run: FeatureRun, conflict: ToolResult) -> AskPerson:
    """Return the question about a conflict that the builder did not resolve."""
    paths = [f"`{path}`" for path in conflict.data["conflict"]["paths"]]
    where = f" in {list_some(paths)}" if paths else ""
    last = next((str(each.error["message"]) for each in run.results if each.error), "")
    question = (
        f"The builder of `{run.feature_id}` did not resolve the conflict with the base branch{where} in"
        f" {count(run.turns, 'turn')}.{f' The last refusal: {last}' if last else ''} Answer with a hint for another"
        f" try, with `{ANEW}` to plan and build it again on the base branch as it is now, or with `{STOP}` to block it."
    )
    return AskPerson(question=question, detail={"conflict": conflict.data["conflict"]}, gate="escalation")


def on_conflict_answer(run: FeatureRun, answer: str) -> tuple[FeatureRun, Action] | None:
    """Start over or give up, as a person said; None for a hint, and for the answer to another question."""
    if not run.conflict_asked:
        return None
    run = replace(run, conflict_asked=False)
    if answer == ANEW:
        fresh = replace(run, conflict=None, turns=0, attempts=(), rung=Rung.NONE, results=(), pending=None, asked=False)
        return fresh, CallTool(role=Role.SYSTEM, tool="feature.begin_anew", arguments={"discard": True})
    if answer == STOP:
        return run, Finish(status=Status.BLOCKED, error=conflict_error(run))
    return None


def conflict_error(run: FeatureRun) -> dict[str, Any]:
    """Return the error of a feature whose conflict stays unresolved."""
    return MergeConflict(
        f"The conflict of `{run.feature_id}` with the base branch is not resolved; a person stopped it.",
        hint="Continue with `feature.retry`, or remove it with `feature.delete`.",
        feature_id=run.feature_id,
    ).as_error()
