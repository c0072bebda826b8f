"""Every text that the scaffolder writes where people read it: comments, the commit, the merge request."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from aop.tickets.mission.blocks import ScaffoldingMission
from aop.tickets.ports import MergeRequest
from aop.tickets.published import harmless
from aop.tickets.scaffold_plan import ScaffoldPlan


class Left(Struct, frozen=True, kw_only=True):
    """What a scaffold that failed has made."""

    branch: str = ""
    """Empty: none."""
    has_commit: bool = False
    merge_request: str = ""
    block: str = ""
    """What the description lacks for a review."""
    unsure: str = ""
    """What may be there too, since nobody answered."""


def started(mission: ScaffoldingMission) -> str:
    """Say that the work begins."""
    target = mission.target
    service, stack = harmless(mission.parameters.service_name), harmless(mission.technology_stack)
    return (
        f"Scaffolding of `{service}` ({stack}) started:"
        f" branch `{target.branch_slug}` of `{target.gitlab_project_path}`."
    )


def branch_exists(mission: ScaffoldingMission, merge_request: MergeRequest | None) -> str:
    """Say that there is nothing to do, and how to go on if that is not what was meant."""
    branch = mission.target.branch_slug
    seen = (
        f"Its merge request is {merge_request.url} ({merge_request.state})."
        if merge_request
        else "It has no merge request: open one by hand, or, if the branch is a leftover, delete it, or name another"
        " `branch_slug` in the ticket, and start again."
    )
    return f"The branch `{branch}` exists already, so nothing was generated or written. {seen}"


def commit_message(key: str, mission: ScaffoldingMission) -> str:
    """Return the message of the commit, which follows from the ticket alone."""
    parameters = mission.parameters
    return (
        f"{key}: Scaffold {parameters.service_name}\n\n"
        f"Stack: {mission.technology_stack}\nTeam: {parameters.owner_team}\nTicket: {key}"
    )


def merge_request_title(key: str, mission: ScaffoldingMission) -> str:
    """Return the title of the merge request."""
    return f"{key}: Scaffold {mission.parameters.service_name}"


def merge_request_description(key: str, plan: ScaffoldPlan) -> str:
    """Return what the merge request says of itself."""
    files = "\n".join(f"- `{path}`" for path in sorted(file.path for file in plan.files))
    return f"Generated for {key}.\n\nFiles:\n{files}"


def done_before(failed_at: str, reached: Sequence[str]) -> str:
    """Tell a model what the fixed steps did before it was asked."""
    writes = [step for step in ("create_branch", "commit", "open_merge_request") if step in reached]
    done = ", ".join(f"`{step}`" for step in writes) or "nothing"
    return f"They failed at `{failed_at}`; of what they write, this is done and must not be done again: {done}."


def left_behind(left: Left) -> str:
    """Say what is there after a failure."""
    perhaps = f" Perhaps also {left.unsure}: the answer was lost." if left.unsure else ""
    if left.merge_request:
        lacks = " The description lacks the block that a review needs; it stands below." if left.block else ""
        return f"The merge request {left.merge_request} of the branch `{left.branch}`, with all files.{lacks}"
    if left.has_commit:
        return f"The branch `{left.branch}`, with the files in one commit and without a merge request.{perhaps}"
    if left.branch:
        return f"The branch `{left.branch}`, without files and without a merge request.{perhaps}"
    return f"Nothing in the code: no branch, no commit, no merge request.{perhaps}"


def going_on(key: str, left: Left) -> str:
    """Say how to go on after a failure: a scaffold stops at a branch that exists, also at one that it left itself."""
    again = f"`aop ticket scaffold {key}`"
    if left.merge_request:
        put = f"put the block into the description by hand, and\n\n{left.block}\n\n" if left.block else ""
        return (
            f"{put}start again with {again}, which finds the branch, writes nothing to the code and moves the ticket."
        )
    if left.branch or left.unsure:
        rather = ", or open its merge request by hand" if left.has_commit else ""
        return (
            f"delete the branch if it is there, or name another `branch_slug` in the ticket{rather}; start again with"
            f" {again}, which stops at a branch that exists."
        )
    return f"start again with {again}, or in the way in which it was started."


def succeeded(mission: ScaffoldingMission, merge_request: MergeRequest, at: str) -> str:
    """Say what was made."""
    return (
        f"Scaffolding done: {merge_request.url}\nBranch: `{mission.target.branch_slug}`\nTime: {at}\n"
        "Next: look at the merge request."
    )
