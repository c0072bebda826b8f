"""Facts of a build cycle: the shape in which tools and routes answer about it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from aop.core.structs import copy_fields
from aop.forge.builds.documents import BuildCycle
from aop.forge.projects.documents import ForgeBuild
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.features import FeatureState


class CycleFacts(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build; its cycle and its feature have the same id."""
    project_id: str
    """The project."""
    status: str
    """`active`, `sealing`, `sealed` or `abandoned`."""
    crew: str
    """`solo` for one builder, `team` for scout, coder, auditor and fixer."""
    mode: str
    """`full`, or `mini` for two phases."""
    batch: int
    """The batch of contracts that it reads."""
    sha256: str
    """The digest of that batch."""
    branch: str
    """Its branch, the only one that it writes."""
    baseline_sha: str
    """The commit that it began at."""
    head: str
    """The commit of the branch as AOP left it."""
    tree: str
    """Its files as they are now; they may be newer than the last commit."""
    worktree_path: str
    """Its worktree, below the root of the repository."""
    scan_run: str
    """The scan that it took its baseline from; empty for a project that was never scanned."""
    phases: tuple[str, ...]
    """The names of its phases; their numbers begin at 0."""
    phase: int
    """The number of the phase that is being built."""
    signed_off: tuple[int, ...]
    """The numbers of the phases that count as done."""
    hold: str
    """Why it does not go on: `paused`, `stopped`, `cost_cap` or `silent`; empty if it does."""
    hold_reason: str
    """The same, as a sentence."""
    published: str
    """The commit that was last pushed to the remote; empty if none was."""
    publish_problem: str
    """Why the last push failed; empty if it did not."""
    cost_usd: float
    """The cost of its models so far, in US dollars."""
    created_at: str
    """When it began."""
    updated_at: str
    """When it last changed."""
    sealed_at: str
    """When it was sealed; empty if it is not."""
    seal_id: str
    """Its seal; empty if it has none."""
    reason: str
    """Why it was abandoned; empty if it was not."""


def cycle_facts(cycle: BuildCycle, state: FeatureState, build: ForgeBuild) -> CycleFacts:
    """Return a cycle together with the tree of its feature and the batch of its build."""
    return copy_fields(
        CycleFacts,
        cycle,
        batch=build.batch,
        sha256=build.sha256,
        tree=state.tree,
        worktree_path=state.worktree_path,
        phase=cycle.current.number,
        signed_off=tuple(each.phase for each in cycle.sign_offs),
    )


def with_push(kernel: Kernel, begun: CycleFacts) -> CycleFacts:
    """Add to a recorded answer how the push went, which came after it."""
    with kernel.record.read() as view:
        cycle = view.get(BuildCycle, begun.build_id)
    if cycle is None:
        return begun
    return replace(begun, published=cycle.published, publish_problem=cycle.publish_problem)
