"""Branch log: the commits of a build, and the state of its branch."""

from __future__ import annotations

from msgspec import Struct

from aop.core.ids import CommitId, FeatureId
from aop.core.structs import copy_fields
from aop.forge.builds.cycle.commits import COMMITTED, TRAILER
from aop.forge.builds.cycle.cycle_facts import CycleFacts, cycle_facts
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.people.pauses import alive_at, pause_ends_at, silence_of
from aop.forge.projects.documents import ForgeBuild
from aop.kernel.gateway.calls import Kernel, feature_named
from aop.kernel.ports.git import LoggedCommit
from aop.kernel.record.port import Snapshot

MOST_COMMITS = 1000
SHOWN_COMMITS = 20
LONGEST_SUBJECT = 200


class BranchCommit(Struct, frozen=True, kw_only=True):
    sha: str
    """The commit."""
    author: str
    """Name and address of its author, as the commit has them."""
    made_by: str
    """`bot` if AOP recorded that it made this commit, else `person`."""
    subject: str
    """The first line of its message."""
    build_cycle: str
    """The build that its trailer names; empty without one."""
    at: str
    """When it was written."""


class BuildStatus(CycleFacts, frozen=True, kw_only=True):
    alive_at: str
    """When it last did something, or something was done to it."""
    silence: str
    """`warn` or `fail` if it did nothing for so long, as the policy says; empty while it works, waits or is over."""
    pause_ends_at: str
    """When it is given up if it stays on hold; empty: never."""
    tip: str
    """The commit of the branch as git has it; empty if the branch is gone."""
    branch_state: str
    """`as_left`; `ahead` if people added commits that were not taken in yet; `moved`; or `gone`."""
    commit_count: int
    """The number of commits since the baseline, at most 1000."""
    forge_commit_count: int
    """The number of those that AOP made."""
    commits: tuple[BranchCommit, ...]
    """The newest of them, oldest first."""


def build_status(kernel: Kernel, view: Snapshot, cycle: BuildCycle, build: ForgeBuild) -> BuildStatus:
    """Return a build with the state of its branch; nothing is changed."""
    tip, rules = kernel.git.branches.head(cycle.branch), kernel.config().policy.forge.build
    commits = branch_commits(kernel, view, cycle)
    return copy_fields(
        BuildStatus,
        cycle_facts(cycle, feature_named(view, cycle.build_id), build),
        alive_at=alive_at(view, cycle),
        silence=silence_of(view, cycle, rules, kernel.clock.now()),
        pause_ends_at=pause_ends_at(view, cycle, rules),
        tip=tip or "",
        branch_state=_branch_state(kernel, cycle, tip),
        commit_count=len(commits),
        forge_commit_count=sum(each.made_by == "bot" for each in commits),
        commits=commits[-SHOWN_COMMITS:],
    )


def _branch_state(kernel: Kernel, cycle: BuildCycle, tip: CommitId | None) -> str:
    if tip is None:
        return "gone"
    if tip == cycle.head:
        return "as_left"
    return "ahead" if kernel.git.objects.is_ancestor(cycle.head, tip) else "moved"


def branch_commits(kernel: Kernel, view: Snapshot, cycle: BuildCycle) -> tuple[BranchCommit, ...]:
    """Return the newest commits of the branch since the baseline, oldest first; of a branch that is gone, as left."""
    tip = kernel.git.branches.head(cycle.branch) or cycle.head
    entries = view.journal(feature_id=FeatureId(cycle.build_id), kinds=(COMMITTED,))
    own = {str(entry.event.payload["commit"]) for entry in entries}
    found = kernel.git.objects.log(cycle.baseline_sha, tip, limit=MOST_COMMITS)
    return tuple(_row(kernel, each, "bot" if each.commit in own else "person") for each in found)


def _row(kernel: Kernel, found: LoggedCommit, made_by: str) -> BranchCommit:
    lines = found.message.splitlines()
    trailers = [line.partition(":")[2].strip() for line in lines if line.startswith(f"{TRAILER}:")]
    return BranchCommit(
        sha=found.commit,
        author=kernel.redact(f"{found.author.name} <{found.author.email}>")[:LONGEST_SUBJECT],
        made_by=made_by,
        subject=kernel.redact(lines[0] if lines else "")[:LONGEST_SUBJECT],
        build_cycle=kernel.redact(trailers[-1] if trailers else "")[:LONGEST_SUBJECT],
        at=found.at,
    )
