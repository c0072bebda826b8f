"""Texts of the scaffolder: comments, the commit, the merge request."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from aop.tickets.mission.blocks import ScaffoldingMission
from aop.tickets.ports import MergeRequest
from aop.tickets.safe_text import harmless_text
from aop.tickets.scaffold_plan import ScaffoldPlan


class ScaffoldRemains(Struct, frozen=True, kw_only=True):
    """The remains of a failed scaffold."""

    branch: str = ""
    """Empty: none."""
    has_commit: bool = False
    merge_request: str = ""
    block: str = ""
    """The block for a review, if the description lacks it."""
    unsure: str = ""
    """A thing that may exist too, since the answer was lost."""


def start_comment(mission: ScaffoldingMission) -> str:
    """Return the comment at the start."""
    target = mission.target
    service, stack = harmless_text(mission.parameters.service_name), harmless_text(mission.technology_stack)
    return (
        f"Scaffolding of `{service}` ({stack}) started:"
        f" branch `{target.branch_slug}` of `{target.gitlab_project_path}`."
    )


def branch_exists(mission: ScaffoldingMission, merge_request: MergeRequest | None) -> str:
    """Return the comment for a branch that exists."""
    branch = mission.target.branch_slug
    seen = (
        f"Its merge request is {merge_request.url} ({merge_request.state})."
        if merge_request
        else "It has no merge request: another run may be at work on it. If its work is done, open one; if nobody needs"
        " it, delete the branch; or choose another `branch_slug`. Then start again."
    )
    return f"The branch `{branch}` already exists, so nothing was generated or written. {seen}"


def commit_message(key: str, mission: ScaffoldingMission) -> str:
    """Return the message of the commit."""
    parameters = mission.parameters
    return (
        f"{key}: Scaffold {parameters.service_name}\n\n"
        f"Stack: {mission.technology_stack}\nTeam: {parameters.owner_team}\nTicket: {key}"
    )


def merge_request_title(key: str, mission: ScaffoldingMission) -> str:
    """Return the title of the merge request."""
    return f"{key}: Scaffold {mission.parameters.service_name}"


def merge_request_description(key: str, plan: ScaffoldPlan | None) -> str:
    """Return the description of the merge request; None: an earlier run committed the files."""
    if plan is None:
        return f"Generated for {key}. The files were committed by an earlier run."
    files = "\n".join(f"- `{path}`" for path in sorted(file.path for file in plan.files))
    return f"Generated for {key}.\n\n{plan.summary}\n\nFiles:\n{files}"


def done_before(failed_at: str, reached: Sequence[str]) -> str:
    """Return, for the model, what the fixed steps did before."""
    writes = [step for step in ("create_branch", "commit", "open_merge_request") if step in reached]
    done = ", ".join(f"`{step}`" for step in writes) or "nothing"
    return f"They failed at `{failed_at}`. These writes are done and must not be repeated: {done}."


def remains_text(left: ScaffoldRemains) -> str:
    """Return the state that a failed scaffold leaves."""
    perhaps = f" {left.unsure.capitalize()} may exist too: the answer was lost." if left.unsure else ""
    if left.merge_request:
        lacks = " The description lacks the block for the review; see below." if left.block else ""
        return f"The merge request {left.merge_request} of the branch `{left.branch}`, with all files.{lacks}"
    if left.has_commit:
        return f"The branch `{left.branch}`, with the files in one commit and without a merge request.{perhaps}"
    if left.branch:
        return f"The branch `{left.branch}`, without files and without a merge request.{perhaps}"
    return f"Nothing in the code: no branch, no commit, no merge request.{perhaps}"


def next_step(key: str, left: ScaffoldRemains) -> str:
    """Return the next step after a failure; a scaffold goes on with a branch that it left."""
    again = f"`aop ticket scaffold {key}`"
    if left.merge_request:
        put = f"add this block to the description:\n\n{left.block}\n\n" if left.block else ""
        return f"{put}start again with {again}, which finds the branch, writes no code and moves the ticket."
    if left.branch or left.unsure:
        return f"start again with {again}, which goes on with the branch, unless another has committed to it."
    return f"start again with {again}, or by the webhook."


def success_comment(mission: ScaffoldingMission, merge_request: MergeRequest, at: str) -> str:
    """Return the comment at the end."""
    return (
        f"Scaffolding done: {merge_request.url}\nBranch: `{mission.target.branch_slug}`\nTime: {at}\n"
        "Next: review the merge request."
    )
