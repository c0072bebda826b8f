"""Seal tools: a build is sealed, and its seal is checked."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import BuildNotSealed, BuildUncommitted, Fault, NothingToSeal, Refusal, VersionConflict
from aop.core.ids import TreeId
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.builds.cycle.abandonment import end_work
from aop.forge.builds.cycle.commits import COMMITTED, branch_tip, commit_and_push, unchanged_cycle
from aop.forge.builds.cycle.lookup import the_cycle, the_living_cycle
from aop.forge.builds.documents import BuildCycle, CycleStatus, Seal
from aop.forge.builds.seal.seal import SEALED, flaws_of, scored_seal, signed
from aop.forge.builds.tools.branch import BranchArguments
from aop.forge.builds.tools.cycles import BuildArguments
from aop.forge.projects.keys import READ_SCOPE
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gateway.calls import Call, Kernel, Outcome, Tool, feature_named
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.merges.branch_moves import undo_move
from aop.kernel.record.documents.base import digest_of, revise
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Snapshot, Transaction


class SealedBuild(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    status: str
    """`sealed`."""
    branch: str
    """Its branch, which is neither merged nor deleted."""
    published: str = ""
    """The commit that was last pushed to the remote; empty if none was."""
    publish_problem: str = ""
    """Why the last push failed; empty if it did not."""
    seal: Seal
    """The seal."""


class CheckedSeal(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    valid: bool
    """Whether nothing moved that the seal speaks of."""
    flaws: tuple[str, ...]
    """Why it is void; empty if it is valid."""
    seal: Seal
    """The seal."""


def seal_build(call: Call, arguments: BuildArguments) -> Outcome:
    """Seal a build as it is now; a sealed one is answered with its seal."""
    return seal(call, arguments.build_id)


def seal_branch(call: Call, arguments: BranchArguments) -> Outcome:
    """Seal a build by the id of its cycle."""
    return seal(call, arguments.build_cycle_id)


def seal(call: Call, build_id: str) -> Outcome:
    """Score the tree of a build, end its branch with an empty commit, and store the signed seal (FORGE-202..206).

    Raises: BuildEnded, NothingToSeal, BuildUncommitted, BuildBranchMoved, WorktreeBusy.
    """
    kernel = call.kernel
    with kernel.record.read() as view:
        known = the_cycle(view, build_id, call.principal)
        earlier = view.get(Seal, known.seal_id) if known.status == "sealed" else None
    if earlier is not None:
        return call.commit(lambda _tx: _answer(known, earlier))
    with held_worktree(kernel, known.build_id):
        with kernel.record.read() as view:
            cycle, state = the_living_cycle(view, build_id, call.principal), feature_named(view, known.build_id)
            _refuse_unsealable(kernel, view, cycle, state)
        sealing = _marked(call, cycle)
        try:
            return _sealed(call, sealing, state)
        except Refusal:
            _release(call, sealing)
            raise


def _refuse_unsealable(kernel: Kernel, view: Snapshot, cycle: BuildCycle, state: FeatureState) -> None:
    """Refuse what cannot be sealed before anything is changed. Raises: as `seal`."""
    if branch_tip(kernel, cycle) != cycle.head:
        raise BuildUncommitted(
            f"The branch `{cycle.branch}` has commits that the build did not take in yet.",
            hint="`aop forge build PROJECT` takes them in, and seals it.",
            build_id=cycle.build_id,
        )
    if not any(True for _ in view.journal(feature_id=state.feature_id, kinds=(COMMITTED,), limit=1)):
        raise NothingToSeal(f"The branch `{cycle.branch}` has no commit of the build yet.", build_id=cycle.build_id)
    if kernel.git.objects.tree_of(cycle.head) != state.tree:
        raise BuildUncommitted(
            f"The build `{cycle.build_id}` has changes that are not committed yet.", build_id=cycle.build_id
        )


def _marked(call: Call, cycle: BuildCycle) -> BuildCycle:
    """Return a cycle whose status says that it is being sealed; a call that was killed may have left it so."""
    if cycle.status == "sealing":
        return cycle
    with call.kernel.record.write() as tx:
        unchanged_cycle(tx, cycle)
        return _with_status(call, tx, cycle, "sealing")


def _release(call: Call, cycle: BuildCycle) -> None:
    """Let a build go on that could not be sealed."""
    with call.kernel.record.write() as tx:
        current = tx.get(BuildCycle, cycle.build_id)
        if current is not None and current.status == "sealing":
            _with_status(call, tx, current, "active")


def _with_status(call: Call, tx: Transaction, cycle: BuildCycle, status: CycleStatus) -> BuildCycle:
    changed = revise(cycle, status=status, updated_at=call.kernel.now())
    tx.put(changed, cycle.build_id)
    name = feature_named(tx, cycle.build_id).feature_id
    tx.append(call.event("build_status_changed", name, build_id=cycle.build_id, old=cycle.status, new=status))
    return changed


def _sealed(call: Call, cycle: BuildCycle, state: FeatureState) -> Outcome:
    kernel = call.kernel
    with kernel.record.read() as view:
        scored = scored_seal(AuditSubject(call, view, cycle, state), kernel.new_id("seal"), kernel.now())

    def store(tx: Transaction, moved: BuildCycle) -> Outcome:
        if feature_named(tx, cycle.build_id).tree != state.tree:
            raise VersionConflict(f"The build `{cycle.build_id}`", expected=state.version, current=state.version + 1)
        done = signed(scored, moved.head, kernel.signer)
        tx.put(done, done.seal_id)
        ends = {"hold": "", "hold_reason": "", "stop": None, "sealed_at": done.sealed_at, "seal_id": done.seal_id}
        ended = revise(moved, status="sealed", **ends)
        tx.put(ended, ended.build_id)
        end_work(call, tx, ended, "completed")
        facts = {"project_id": done.project_id, "build_id": done.build_id, "seal_id": done.seal_id}
        figures = {"verdict": done.verdict, "score": done.score, "commit": done.commit, "tree": done.tree}
        tx.append(call.event(SEALED, state.feature_id, **facts, **figures, document=digest_of(done)))
        return _answer(ended, done)

    verdict = f"sealed — verdict: {scored.verdict}"
    return commit_and_push(call, cycle, TreeId(state.tree), verdict, store=store, push=True)


def _answer(cycle: BuildCycle, sealed: Seal) -> SealedBuild:
    return SealedBuild(build_id=cycle.build_id, status=cycle.status, branch=cycle.branch, seal=sealed)


def with_publication(kernel: Kernel, answer: SealedBuild) -> SealedBuild:
    """Add to a recorded answer how the push went, which came after it."""
    with kernel.record.read() as view:
        cycle = view.get(BuildCycle, answer.build_id)
    if cycle is None:
        return answer
    return replace(answer, published=cycle.published, publish_problem=cycle.publish_problem)


def verify_seal(call: Call, arguments: BuildArguments) -> Outcome:
    """Check whether a seal still holds: its signature, its branch and tree, its contracts, its evidence."""
    with call.kernel.record.read() as view:
        cycle = the_cycle(view, arguments.build_id, call.principal)
        if cycle.status != "sealed":
            raise BuildNotSealed(f"The build `{cycle.build_id}` is {cycle.status}.", build_id=cycle.build_id)
        found = view.get(Seal, cycle.seal_id)
        if found is None:
            raise Fault(f"The seal `{cycle.seal_id}` is missing from the record.")
        flaws = flaws_of(call, view, cycle, feature_named(view, cycle.build_id), found)
    return CheckedSeal(build_id=cycle.build_id, valid=not flaws, flaws=flaws, seal=found)


TOOLS = (
    Tool(
        name="forge.build_seal",
        summary="Seal a build: score nine dimensions of its proven tree, sign them, and end its branch.",
        arguments=BuildArguments,
        output=SealedBuild,
        roles=COORDINATORS,
        run=seal_build,
        mutates=True,
        person_only=True,
        reveal=with_publication,
        resolve=undo_move,
    ),
    Tool(
        name="forge.build_verify_seal",
        summary="Check that the seal of a build still holds: nothing moved that it speaks of.",
        arguments=BuildArguments,
        output=CheckedSeal,
        roles=COORDINATORS,
        run=verify_seal,
        person_only=True,
        key_scope=READ_SCOPE,
    ),
    Tool(
        name="forge_seal_branch",
        summary="Seal a build by the id of its cycle: score its proven tree, sign it, and end its branch.",
        arguments=BranchArguments,
        output=SealedBuild,
        roles=COORDINATORS,
        run=seal_branch,
        mutates=True,
        person_only=True,
        reveal=with_publication,
        resolve=undo_move,
    ),
)
