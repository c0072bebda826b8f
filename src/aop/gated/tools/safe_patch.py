"""`safe_patch`: the only way to change a file, checked by policy and step."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from aop.core.errors import FrozenTest, InvalidArguments, Json, OutOfStep, ProtectedPath, WorkflowEscalated
from aop.core.ids import TreeId
from aop.core.paths.names import canonical_path
from aop.gated.machine.position import plan_of
from aop.gated.machine.state import Phase
from aop.gated.session.documents import ACTIVE_PR, ORCHESTRATION_STATE
from aop.gated.session.frozen_tests import GRANT, REFUSE, about_frozen, freeze_problem, is_granted, take_grant
from aop.gated.session.session import PendingQuestion, Session, session_of
from aop.gated.session.workspace import workspace_in
from aop.gated.tools.answers import SWE, Patched, SafePatch
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call, Outcome, Tool
from aop.kernel.locks.leases import read_clock
from aop.kernel.patches.checks import refuse_secret_name, refuse_secrets, rules_of
from aop.kernel.patches.parser import parse_patch
from aop.kernel.patches.patched_trees import patched_tree
from aop.kernel.patches.proposals import PatchedTree, PatchTarget, judge_proposal, proposal_for
from aop.kernel.plans.needed_locks import check_unbroken, locks_for_paths
from aop.kernel.ports.git import FileMode
from aop.kernel.record.documents.questions import Question
from aop.kernel.tools.workspace.read import state_of

PLANNING = (Phase.INITIALIZING, Phase.REPLANNING)
STEPPING = (Phase.EXECUTING_TDD, Phase.DEBUGGING)
MOST_SHOWN = 16_000
CHANGED_MEANWHILE = (
    "The file does not match `base_content_sha256`; nothing was changed. Make the diff from its current content."
)
ASKED = "A person is asked to permit this change. Nothing is changed yet; send this diff again after the answer."


def safe_patch(call: Call, arguments: SafePatch) -> Outcome:
    """Change one file, if it is still what the agent saw and the step allows it."""
    path = canonical_path(arguments.file_path)
    refuse_secret_name(path, call.kernel.redact)
    with session_of(call) as session:
        _refuse_untimely(session, path)
        content = workspace_in(session.known).content(session.kernel.git.objects, path)
        if hashlib.sha256(content or b"").hexdigest() != arguments.base_content_sha256:
            return session.finish(_answer(session, path, CHANGED_MEANWHILE, success=False))
        _refuse_other_files(session, path, arguments.unified_diff)
        if path == ACTIVE_PR:
            _change_draft(session, content or b"", arguments.unified_diff)
        else:
            proposal = _proposal(session, arguments.unified_diff)
            problem = freeze_problem(session, path, proposal.tree) if session.workflow.status in STEPPING else ""
            if problem:
                _ask_for_grant(session, path, proposal.tree, arguments, problem)
                return session.finish(_answer(session, path, ASKED, success=False))
            _change_tree(session, proposal)
            if is_granted(session, path, proposal.tree):
                take_grant(session, path, proposal.tree)
        return session.finish(_answer(session, path, f"`{path}` is changed.", success=True))


def _refuse_untimely(session: Session, path: str) -> None:
    workflow = session.workflow
    if workflow.escalated:
        raise WorkflowEscalated("A person was asked for help and has not answered yet.")
    if path.casefold() == ORCHESTRATION_STATE.casefold() or (
        path != ACTIVE_PR and path.casefold() == ACTIVE_PR.casefold()
    ):
        raise ProtectedPath(f"`{path}` must not be changed: the server writes it.", path=path)
    if path == ACTIVE_PR:
        is_timely = workflow.status in PLANNING
    elif workflow.status is Phase.FINALIZE_COMPLETE:
        is_timely = path == plan_of(workflow).master_plan_path
    else:
        # A step may not change the master plan: it is marked when all is done.
        is_step = workflow.status in STEPPING and workflow.pending_analysis is None
        is_timely = is_step and path != session.known.master_plan
    if not is_timely or workflow.last_completed_step is not None:
        raise OutOfStep(f"`{path}` must not be changed while the workflow is in `{workflow.status}`.", path=path)


def _refuse_other_files(session: Session, path: str, diff: str) -> None:
    patch = parse_patch(diff.encode(), rules_of(session.config.policy.patch_policy))
    named = sorted({each for file in patch.files for each in file.paths})
    if named != [path]:
        shown: list[Json] = [session.kernel.redact(each) for each in named]
        raise InvalidArguments(f"The diff must change `{path}` and no other file.", paths=shown)


def _change_draft(session: Session, content: bytes, diff: str) -> None:
    """Apply a diff to the draft plan; it is in no tree, so a temporary tree holds it."""
    git, rules = session.kernel.git, session.config.policy.patch_policy
    patch = parse_patch(diff.encode(), rules_of(rules))
    refuse_secrets(patch, session.kernel.redact)
    is_there = session.known.active_pr() is not None
    tree = git.objects.tree_with(session.known.tree, {ACTIVE_PR: (FileMode.FILE, content) if is_there else None})
    entry = git.objects.entry(patched_tree(git.objects, tree, patch, rules.placement), ACTIVE_PR)
    text = None if entry is None else git.objects.blob(entry.oid)
    try:
        session.learn(draft=None if text is None else text.decode())
    except UnicodeDecodeError as error:
        raise InvalidArguments(f"`{ACTIVE_PR}` must be UTF-8: {error}.") from error


def _proposal(session: Session, diff: str) -> PatchedTree:
    kernel, state = session.kernel, session.the_state()
    target = PatchTarget(state=state, accepted=None, base_tree=kernel.git.objects.tree_of(state.base_commit))
    proposal = proposal_for(kernel, target, diff, session.config)
    judge_proposal(kernel, target, proposal, session.config)
    return proposal


def _change_tree(session: Session, proposal: PatchedTree) -> None:
    kernel, state = session.kernel, session.the_state()
    needed = locks_for_paths([change.path for change in proposal.changes], session.config.policy)
    with kernel.record.read() as view:
        check_unbroken(view, state, needed, read_clock(kernel.clock))
    session.state = replace(state, tree=proposal.tree, gates=reset_verdicts(state.gates))
    session.learn(tree=proposal.tree)


def _ask_for_grant(session: Session, path: str, tree: TreeId, arguments: SafePatch, problem: str) -> None:
    if arguments.reason is None:
        raise FrozenTest(f"The test file `{path}` must not be changed so: {problem}.", path=path)
    kernel, about = session.kernel, about_frozen(session, path, tree)
    with kernel.record.read() as view:
        known = list(view.all(Question))
    if any(each.is_open and each.about == about for each in known):
        return
    diff = kernel.redact(arguments.unified_diff)
    if len(diff) > MOST_SHOWN:
        raise InvalidArguments(
            f"The diff has {len(diff)} characters; a person is shown at most {MOST_SHOWN}, and grants what was shown.",
            hint="Change less of the test at a time.",
        )
    session.asking = PendingQuestion(
        gate="authorisation",
        text=kernel.redact(f"May the agent change the test `{path}`? Its reason: {arguments.reason}"),
        more={"detail": {"diff": diff}, "about": about, "choices": (GRANT, REFUSE)},
    )


def _answer(session: Session, path: str, message: str, *, success: bool) -> Patched:
    workspace = workspace_in(session.known)
    content = workspace.content(session.kernel.git.objects, path)
    return Patched(
        success=success,
        message="\n".join([*session.notes, message]),
        latest_file_state=state_of(session.kernel, workspace, path, content),
        next_call=workspace.next_call,
    )


TOOLS = (
    Tool(
        name="safe_patch",
        summary="Change one file by a unified diff; the hash says which content it was made from.",
        arguments=SafePatch,
        output=Patched,
        roles=SWE,
        run=safe_patch,
        mutates=True,
    ),
)
