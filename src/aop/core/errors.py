"""Every way in which AOP says no, and the one way in which it breaks.

    Exception
    |-- Refusal                an answer: stable code, facts, and the caller's next move
    |   `-- <one class a code> raised, it changed nothing; returned by a tool, it is a recorded verdict on gates
    `-- Fault                  a breakage: logged once at the door, shown as `internal_error` with a reference

A refusal becomes JSON in `Refusal.as_error`, an exit code in `aop.cli.shell.exits`, and nowhere else.
Longer than other modules, so that the whole list of codes is in one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Self, TypeAlias

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"


class Move(StrEnum):
    """What the caller of a refused call can do next."""

    ADAPT = "adapt"
    """Send something else."""
    CORRECT_USAGE = "correct_usage"
    """The call itself was malformed."""
    PROVE = "prove"
    """Nothing was done, or what is asked for is not proven yet."""
    ASK_PERSON = "ask_person"
    """Only a person can go on."""
    WAIT = "wait"
    """Somebody else holds what is needed; it will be free by itself."""
    RETRY = "retry"
    """Send the same again."""
    ESCALATE = "escalate"
    """The work was handed to a person."""


class Refusal(Exception):
    """An answer that says no, and what to do next."""

    code: ClassVar[str] = "refused"
    move: ClassVar[Move] = Move.ADAPT
    hint: ClassVar[str] = "Read the message, change the request, and send it again."

    def __init__(self, message: str, *, hint: str | None = None, **facts: Json) -> None:
        super().__init__(message)
        self.message = message
        self.next_action = hint or self.hint
        self.facts = facts
        self.evidence: dict[str, Json] = {}

    def with_evidence(self, **pointers: Json) -> Self:
        """Add pointers to the proof: log paths, command, exit code (AOP-149)."""
        self.evidence.update(pointers)
        return self

    def as_error(self) -> dict[str, Json]:
        """Return the `error` object of the envelope (AOP-318, AOP-322)."""
        feature = self.facts.get("feature_id")
        # What a person should type is told with the name that it is about, where there is one.
        next_action = self.next_action.replace("FEATURE", feature) if isinstance(feature, str) else self.next_action
        details: dict[str, Json] = {
            "retryable": self.move in (Move.RETRY, Move.WAIT),
            "requires_human": self.move in (Move.ASK_PERSON, Move.ESCALATE),
            "suggested_next_actions": [next_action],
        }
        details.update(self.facts)
        return {"code": self.code, "message": self.message, "details": details}


def all_refusals(refusal: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    """Return the refusal and all below it, in the order of this module."""
    yield refusal
    for narrower in refusal.__subclasses__():
        yield from all_refusals(narrower)


class Fault(Exception):
    """A breakage of AOP itself or of the machine below it; never an agent's mistake."""


# --- the call itself ---------------------------------------------------------------------------


class UnknownTool(Refusal):
    """No tool has this name."""

    code = "unknown_tool"
    move = Move.CORRECT_USAGE
    hint = "List the tools with `aop tools` or `tools/list`, and call one of those."


class InvalidArguments(Refusal):
    """The arguments do not fit the tool's input schema."""

    code = "invalid_arguments"
    move = Move.CORRECT_USAGE
    hint = "Correct the argument that the message names; the tool's input schema says what it takes."


class ForbiddenToolForRole(Refusal):
    """The caller's role, or its token, does not open this tool or this feature."""

    code = "forbidden_tool_for_role"
    hint = "Use a tool of your own role, or ask the orchestrator to make this call."


class TokenInvalid(Refusal):
    """The token is unknown, expired or revoked."""

    code = "token_invalid"
    move = Move.ASK_PERSON
    hint = "A person makes a token with `aop token ROLE --feature ID`, and puts it into `AOP_TOKEN`."


class ServerStopping(Refusal):
    """The server is going down and takes no new calls."""

    code = "server_stopping"
    move = Move.RETRY
    hint = "Send the same call again when the server is back."


class VersionConflict(Refusal):
    """Somebody changed it since the caller looked."""

    code = "version_conflict"
    move = Move.RETRY
    hint = "Read the current version, look at what changed, and send the call again with it."

    def __init__(self, what: str, *, expected: int, current: int) -> None:
        super().__init__(
            f"{what} is at version {current}, not {expected}.", expected_version=expected, current_version=current
        )


class IdempotencyMismatch(Refusal):
    """The operation id was used for another request."""

    code = "idempotency_mismatch"
    hint = "Take a new operation id for a new request; the same id means the same request."


class OperationInProgress(Refusal):
    """The first call with this operation id is still running."""

    code = "operation_in_progress"
    move = Move.RETRY
    hint = "Send the same call with the same operation id again; it returns the one result when it is there."


class UnknownOperation(Refusal):
    """No gate run of this feature was called under the operation id."""

    code = "unknown_operation"
    hint = "Start the gates with `gates.run` and this `operation_id`. A call that was refused is not kept."


class WorktreeBusy(Refusal):
    """Another call works in this feature's worktree."""

    code = "worktree_busy"
    move = Move.RETRY
    hint = "Another call works in this feature's worktree. Send this one again when it has ended."


class WorktreeMissing(Refusal):
    """Git knows no worktree of this feature any more."""

    code = "worktree_missing"
    move = Move.ADAPT
    hint = "Somebody has removed it; `repo.ensure_worktree` makes it again."


class WorktreeSetupFailed(Refusal):
    """What `worktree` of policy.yaml promises could not be put into a worktree, or a set-up command did not pass."""

    code = "worktree_setup_failed"
    move = Move.ADAPT
    hint = "The details say what and why; a person mends `worktree` of policy.yaml, or what it names."


class InternalError(Refusal):
    """AOP itself, or the machine below it, broke."""

    code = "internal_error"
    move = Move.RETRY
    hint = "AOP itself broke; report it with the reference."


# --- features ------------------------------------------------------------------------------------


class UnknownFeature(Refusal):
    """There is no feature with this id."""

    code = "unknown_feature"
    hint = "Make the feature with `feature.init` first, or correct the id (`aop status` lists them)."

    def __init__(self, feature_id: str) -> None:
        super().__init__(f"There is no feature `{feature_id}`.", feature_id=feature_id)


class RecordUnavailable(Refusal):
    """The repository cannot be written, and has no record that could be read."""

    code = "record_unavailable"
    move = Move.CORRECT_USAGE
    hint = "Look where AOP has worked on this repository, or where it can be written: the first command makes a record."


class InvalidFeatureSlug(Refusal):
    """The text cannot be a feature id."""

    code = "invalid_feature_slug"
    move = Move.CORRECT_USAGE
    hint = "Choose an id of lower-case letters, digits, `_` and `-`, at most 63, that does not begin with `-`."

    def __init__(self, text: str, why: str) -> None:
        shown = ascii(text[:80])[1:-1]
        super().__init__(f"`{shown}` is not a feature id: {why}.", feature_id=shown)


class FeatureSlugCollision(Refusal):
    """Two specs would make a feature of the same id."""

    code = "feature_slug_collision"
    move = Move.CORRECT_USAGE
    hint = "Rename one of the two, so that each feature has an id of its own."


class InvalidStatusTransition(Refusal):
    """The feature's status does not allow this step."""

    code = "invalid_status_transition"
    hint = "Read the feature's status with `feature.state_get`, and take the step that this status allows."


class BranchExists(Refusal):
    """A branch of the feature's name is there already, with commits of its own."""

    code = "branch_exists"
    move = Move.ASK_PERSON
    hint = "Rename or delete that branch if its commits are not needed, or choose another feature id."


class BranchInUse(Refusal):
    """A checkout stands on the branch, so it cannot be deleted."""

    code = "branch_in_use"
    move = Move.ASK_PERSON
    hint = "Check out another branch there first, or keep the branch."


class UnmergedWork(Refusal):
    """The feature has work that no branch holds besides its own."""

    code = "unmerged_work"
    move = Move.ASK_PERSON
    hint = "Merge it first, keep worktree and branch, or pass `force` to lose what was never merged."


# --- plans and collisions ------------------------------------------------------------------------


class InvalidPlan(Refusal):
    """The plan breaks a rule of the policy, or does not fit the repository."""

    code = "invalid_plan"
    hint = "Correct every line of `violations`, and submit the whole plan again."


class ObligationsUnaccounted(Refusal):
    """The plan says nothing of some obligations of the spec, and `planning.require_obligations` demands it."""

    code = "obligations_unaccounted"
    hint = "Say of each in `obligations`: `in_scope` with its paths and tests, or `deferred` with the reason."


class PlanRequired(Refusal):
    """The feature has no accepted plan."""

    code = "plan_required"
    hint = "Submit a plan with `plan.submit` first."


class PlanAlreadyAccepted(Refusal):
    """The feature has its first plan already."""

    code = "plan_already_accepted"
    hint = "Revise it with `plan.update`: `plan_version` one higher, `revision_of` the current one."


class CollisionDetected(Refusal):
    """The plan reaches for what another accepted plan has taken."""

    code = "collision_detected"
    hint = "Revise the plan so that it leaves the named items alone, or wait until the other feature is merged."


class BlockedByCollisionPolicy(Refusal):
    """The plan must wait for another feature."""

    code = "blocked_by_collision_policy"
    move = Move.WAIT
    hint = "The plan waits in the queue; it is looked at again when the other feature lets go."


class LockNotHeld(Refusal):
    """The change needs a lock that the feature does not hold."""

    code = "lock_not_held"
    hint = "Ask the orchestrator for the lock on the named resource before changing a contract."


class LockConflict(Refusal):
    """Another feature holds the lock."""

    code = "lock_conflict"
    move = Move.WAIT
    hint = "Wait until the holder releases the lock, or until its lease ends."


class LockOrderViolation(Refusal):
    """Locks are asked for in an order that could make two features wait for each other."""

    code = "lock_order_violation"
    hint = "Release what you hold, and acquire all that you need in the order of `acquire_in_order`."


class UnknownLockResource(Refusal):
    """The policy knows no such resource."""

    code = "unknown_lock_resource"
    hint = "Take one of `known_resources`; a person adds others under `locks.resources` in policy.yaml."


class StaleLockReclaimed(Refusal):
    """The feature's lease ended before the change came."""

    code = "stale_lock_reclaimed"
    hint = "The lease ended and another feature may hold it now: acquire the lock again before you write."


# --- paths and patches ---------------------------------------------------------------------------


class PathOutOfBounds(Refusal):
    """The path leads out of the repository, or is not written plainly."""

    code = "path_out_of_bounds"
    hint = "Name a file inside the repository by its plain path from the root, such as `src/a.py`."


class FileNotFound(Refusal):
    """The feature's tree has no such file."""

    code = "file_not_found"
    hint = "List what there is with `repo.status` or `repo.diff`, and read an existing file."


class InvalidPatch(Refusal):
    """The text is not a patch that can be judged."""

    code = "invalid_patch"
    hint = "Send a unified diff as `git diff` writes it, with `a/` and `b/` before the names."


class PatchDoesNotApply(Refusal):
    """The patch does not fit the files as they are."""

    code = "patch_does_not_apply"
    move = Move.ADAPT
    hint = "Read the file as it is now with `repo.read_file`, and make the diff against that."


class UnplannedFile(Refusal):
    """The patch touches a file that the plan does not list."""

    code = "unplanned_file"
    hint = "Leave the file alone, or have the planner add it with `plan.update`."


class AreaNotAllowed(Refusal):
    """The patch touches a part of the repository that the plan leaves out."""

    code = "area_not_allowed"
    hint = "Stay inside the plan's `allowed_areas` and out of its `forbidden_areas`."


class ProtectedPath(Refusal):
    """The path is one that no agent changes."""

    code = "protected_path"
    move = Move.ASK_PERSON
    hint = "A person can open it for this feature (`inbox.ask_path` asks for that), or permit it in `policy.yaml`."


class SecretDetected(Refusal):
    """The patch, or the message of a commit, would put a secret into the repository."""

    code = "secret_detected"
    hint = "Take the secret out of the change; read it from the environment at run time."


# --- gates and evidence --------------------------------------------------------------------------


class UnknownGateProfileOrMode(Refusal):
    """There is no such gate profile, or it has no such mode."""

    code = "unknown_gate_profile_or_mode"
    hint = "Take a profile and a mode that `gates.list` shows."


class NoGateSteps(Refusal):
    """The gate mode has no steps, so it cannot prove anything."""

    code = "no_gate_steps"
    move = Move.ASK_PERSON
    hint = "Write at least one step for this mode into `agentic/orchestrator/gates.yaml`, and commit it."


class UnsupportedParser(Refusal):
    """No parser reads this kind of report."""

    code = "unsupported_parser"
    move = Move.ASK_PERSON
    hint = "Choose a parser type that `gates.list` shows under `capabilities`."


class InvalidOverridePrecedence(Refusal):
    """The plan would relax what the gates or the policy demand."""

    code = "invalid_override_precedence"
    hint = "A plan may add steps and shorten time limits; it may not relax what gates and policy demand."


class SandboxUnavailable(Refusal):
    """The policy demands a sandbox, and none proves itself on this machine."""

    code = "sandbox_unavailable"
    move = Move.ASK_PERSON
    hint = "Install bubblewrap (or AOP's `sandbox` extra), or set `execution.sandbox: auto`."


class GateFailed(Refusal):
    """A gate step, or what it reports, did not pass; the verdict is recorded."""

    code = "gate_failed"
    hint = "Read the log that `evidence.log_path` names, repair the change, and run the gates again."


class GateTimeout(Refusal):
    """A gate step passed its time limit; the verdict is recorded."""

    code = "gate_timeout"
    hint = "Make the step finish within its time limit, or have a person raise `timeout_seconds`."


class TransientExecFailure(Refusal):
    """The machine made a gate step fail; the verdict is recorded."""

    code = "transient_exec_failure"
    move = Move.RETRY
    hint = "The machine, not the change, made the step fail. Run the gates again."


class CoverageBelowMinimum(Refusal):
    """The tests cover less than is demanded; the verdict is recorded."""

    code = "coverage_below_minimum"
    hint = "Add tests for the lines and branches that the report shows as not covered."


class EvidenceStale(Refusal):
    """What was proven is not what the feature is now."""

    code = "evidence_stale"
    move = Move.PROVE
    hint = "Run the named gate modes again on the tree as it is now."


class EvidenceBroken(Refusal):
    """Something that AOP recorded or wrote is not what it was; `kind` says how, `seq` which entry of the journal."""

    code = "evidence_broken"
    move = Move.ASK_PERSON
    hint = "Somebody or something other than AOP changed it: keep a copy of `.aop`, and find out who before you go on."


# --- merging -------------------------------------------------------------------------------------


class NothingToMerge(Refusal):
    """The feature changes nothing."""

    code = "nothing_to_merge"
    move = Move.PROVE
    hint = "Apply the feature's patches first; a feature that changes nothing is not done."


class UserApprovalRequired(Refusal):
    """No person has approved the feature as it is now."""

    code = "user_approval_required"
    move = Move.ASK_PERSON
    hint = "A person reviews the change and runs `aop approve FEATURE`; pass the token that it prints."


class ApprovalInvalid(Refusal):
    """The approval is spent, or is for something else."""

    code = "approval_invalid"
    move = Move.ASK_PERSON
    hint = "Look at the change again and approve it as it is now: `aop approve FEATURE`."


class StrategyNotAllowed(Refusal):
    """The policy does not allow this way of merging."""

    code = "strategy_not_allowed"
    hint = "Use one of the strategies in `merge_policy.allowed_strategies`."


class CommitDisabled(Refusal):
    """The policy forbids commits by this tool."""

    code = "commit_disabled"
    move = Move.ASK_PERSON
    hint = "`commit_policy.allow_commit` in policy.yaml forbids this."


class MergeDisabled(Refusal):
    """The policy forbids merges by this tool."""

    code = "merge_disabled"
    move = Move.ASK_PERSON
    hint = "`commit_policy.allow_merge` in policy.yaml forbids this."


class MergeConflict(Refusal):
    """Feature and base branch changed the same thing in different ways."""

    code = "merge_conflict"
    hint = "Change the feature so that it agrees with the base branch where `conflicts` says, and run the gates again."


class BaseMoved(Refusal):
    """The base branch moved while the merge was prepared."""

    code = "base_moved"
    move = Move.RETRY
    hint = "The base branch moved while the merge was prepared. Nothing changed; send the merge again."


class FeatureBranchMoved(Refusal):
    """Somebody committed to the feature's branch by hand."""

    code = "feature_branch_moved"
    move = Move.ASK_PERSON
    hint = "Move the commits that were made by hand to another branch; AOP commits the approved tree itself."


class BaseBranchUnusable(Refusal):
    """The base branch has no commit to start from."""

    code = "base_branch_unusable"
    move = Move.ASK_PERSON
    hint = "Set `worktree.base_branch` in policy.yaml to a branch that has at least one commit."


# --- configuration and the command line ----------------------------------------------------------


class InvalidConfiguration(Refusal):
    """A configuration file is not valid."""

    code = "invalid_configuration"
    move = Move.ASK_PERSON
    hint = "Correct the key that the message names; `docs/configuration.md` lists every key."


class InvalidWorkspaceImplementation(Refusal):
    """`implementation.workspace` is not `uv`."""

    code = "invalid_workspace_implementation"
    move = Move.ASK_PERSON
    hint = "`implementation.workspace` has one legal value: `uv`."


class MissingRolePrompt(Refusal):
    """The prompt file of a role is not there."""

    code = "missing_role_prompt"
    move = Move.ASK_PERSON
    hint = "Write the prompt file that agents.yaml names, or set `missing_prompt_behavior: ignore`."


class QaIndexVersionConflict(Refusal):
    """Somebody changed the QA index since the caller looked."""

    code = "qa_index_version_conflict"
    move = Move.RETRY
    hint = "Read the index with `qa.test_index_get`, and send the update with its version."


class InvalidCliArgs(Refusal):
    """The command line does not make sense."""

    code = "invalid_cli_args"
    move = Move.CORRECT_USAGE
    hint = "`aop COMMAND --help` shows what the command takes."


class InputPathNotFound(Refusal):
    """A file or folder that was named is not there, or cannot be used."""

    code = "input_path_not_found"
    move = Move.CORRECT_USAGE
    hint = "Check the path; it is looked up from the folder you are in."


class ContractDrift(Refusal):
    """Files that describe the tools are not what the code says."""

    code = "contract_drift"
    hint = "Run `aop tools write`, look at what changed, and commit it."


class NotARepository(Refusal):
    """The folder is not inside a git repository with a work tree."""

    code = "not_a_repository"
    move = Move.CORRECT_USAGE
    hint = "Change into a git repository with a work tree, or name one with `--repo PATH`."


class NoSpecsFound(Refusal):
    """There is no spec to work on."""

    code = "no_specs_found"
    move = Move.CORRECT_USAGE
    hint = "Write a spec to `agentic/features/<id>/spec.md`, or name one with `-fi` or `-fl`."


class SpecIngestFailed(Refusal):
    """A spec cannot be read."""

    code = "spec_ingest_failed"
    move = Move.CORRECT_USAGE
    hint = "Make the spec a readable UTF-8 file."


class AgentProviderNotConfigured(Refusal):
    """Nobody said which coding agent does the work."""

    code = "agent_provider_not_configured"
    move = Move.CORRECT_USAGE
    hint = "Name a provider: `--agent-provider`, `AOP_AGENT_PROVIDER`, or `runtime.default_provider` in agents.yaml."


class UnsupportedAgentProvider(Refusal):
    """AOP cannot drive this coding agent."""

    code = "unsupported_agent_provider"
    move = Move.CORRECT_USAGE
    hint = "Take one of: codex, claude, gemini, custom, model."


class ProviderAuthMissing(Refusal):
    """The coding agent is not logged in."""

    code = "provider_auth_missing"
    move = Move.CORRECT_USAGE
    hint = "Log in with the provider's own command, or set its key in the environment."


class AgentInstallFailed(Refusal):
    """A coding agent could not be installed."""

    code = "agent_install_failed"
    hint = "See to what the message names, and try again; or install the agent yourself, where PATH leads to it."


class SupervisorRunning(Refusal):
    """Another process supervises this repository."""

    code = "supervisor_running"
    move = Move.WAIT
    hint = (
        "Watch that run with `aop status`, or end it with `aop stop`; one supervisor works on a repository at a time."
    )


class SupervisorReplaced(Refusal):
    """A newer supervisor works on this repository; what an older one still sends is not done."""

    code = "supervisor_replaced"
    move = Move.WAIT
    hint = "Leave the work to the newer one: `aop status` shows it. The older one ends by itself."


class NoSupervisor(Refusal):
    """Nobody supervises this repository right now."""

    code = "no_supervisor"
    move = Move.PROVE
    hint = "Start a run with `aop run`, or go on with an earlier one with `aop resume`."


# --- driving a feature ---------------------------------------------------------------------------


class UnknownQuestion(Refusal):
    """The inbox has no such question, or not of this feature."""

    code = "unknown_question"
    hint = "`aop inbox` lists the questions that are open."

    def __init__(self, question_id: str) -> None:
        super().__init__(f"There is no question `{question_id}`.", question_id=question_id)


class UnknownRun(Refusal):
    """The record has nothing of a run of this name."""

    code = "unknown_run"
    hint = "List the runs with `aop replay`, or name a feature."

    def __init__(self, name: str) -> None:
        shown = ascii(name[:80])[1:-1]
        super().__init__(f"The record has nothing of a run or a feature `{shown}`.", run=shown)


class AlreadyAnswered(Refusal):
    """A person has answered this question."""

    code = "already_answered"
    hint = "The first answer counts. To tell the worker more, wait until it asks again."


class NotAChoice(Refusal):
    """The question has a few answers, and this is none of them."""

    code = "not_a_choice"
    hint = "Answer with one of `choices`, as it is written there."

    def __init__(self, question_id: str, choices: Sequence[str]) -> None:
        named = " or ".join(f"`{choice}`" for choice in choices)
        super().__init__(
            f"The question `{question_id}` is answered with {named}.", question_id=question_id, choices=list(choices)
        )


class NobodyAnsweredInTime(Refusal):
    """What a person was asked has a time limit and no default answer, and nobody answered."""

    code = "nobody_answered"
    move = Move.ESCALATE
    hint = "`aop retry FEATURE` asks again; `inbox` of policy.yaml sets the time limits."


class CostCapReached(Refusal):
    """A cap on cost is reached, and a person said to stop, or nobody answered in time."""

    code = "cost_cap_reached"
    move = Move.ESCALATE
    hint = "The work so far is kept. Raise the cap in `cost` of policy.yaml, and name the feature's spec again."


class TurnsUsedUp(Refusal):
    """A worker did not get there in the turns that it had."""

    code = "turns_used_up"
    move = Move.ESCALATE
    hint = "Look at `last_error`; make the spec or the plan clearer, or do this step by hand, and go on from there."


class GoesInCircles(Refusal):
    """A worker makes no progress, although it was nudged and a person was asked."""

    code = "goes_in_circles"
    move = Move.ESCALATE
    hint = "Look at `attempts`; make the spec or the plan clearer, or do this step by hand, and go on from there."


class NoUsableAnswer(Refusal):
    """An agent's turn brought nothing that could be used."""

    code = "no_usable_answer"
    hint = "Answer with one JSON object: PLAN_SUBMISSION, PATCH, NOTE or REQUEST, as the instructions say."


class ReplayDiverged(Refusal):
    """The recording does not fit what the tools answer."""

    code = "replay_diverged"
    hint = "The recording was made where the tools answered otherwise; take one that fits, or a live agent."


# --- one step at a time --------------------------------------------------------------------------


class InvalidActivePr(Refusal):
    """`ACTIVE_PR.json` is no plan of a pull request, or not the one that was asked for."""

    code = "invalid_active_pr"
    hint = "Correct `ACTIVE_PR.json` with `safe_patch`; `get_task` shows its form."


class NoWorkflow(Refusal):
    """Nobody has started a gated workflow for the caller."""

    code = "no_workflow"
    move = Move.ASK_PERSON
    hint = "A person starts one with `aop gated start`."


class NoMasterPlan(Refusal):
    """The plan that an agent is to be driven through is not there."""

    code = "no_master_plan"
    move = Move.ASK_PERSON
    hint = (
        "Commit one to the base branch: a heading `### Pull Request #1: TITLE` for each; docs/gated.md has an example."
    )


class AgentAtWork(Refusal):
    """Somebody else works through the same plan."""

    code = "agent_at_work"
    move = Move.WAIT
    hint = "One agent at a time: wait until the other one has ended, or end it."


class ReviewerNotConfigured(Refusal):
    """Nobody is named who reviews the work."""

    code = "reviewer_not_configured"
    move = Move.ASK_PERSON
    hint = "A person names one in `gated` of policy.yaml, on the base branch: `review_command` or `review_model`."


class FrozenTest(Refusal):
    """A test that went red is to be changed before the code is right."""

    code = "frozen_test"
    hint = "Change the code and not the test; or call `safe_patch` again with a `reason`, and a person decides."


class OutOfStep(Refusal):
    """The workflow is at another step than the call."""

    code = "out_of_step"
    hint = "Call `get_task`: it says what comes next."


class TestCommandMissing(Refusal):
    """Work on a step was handed in without the command that proves it."""

    code = "test_command_missing"
    move = Move.CORRECT_USAGE
    hint = "Call `submit_work` again with `test_command`."


class AnalysisPending(Refusal):
    """A red run waits for the agent's judgement."""

    code = "analysis_pending"
    hint = "Call `submit_work` with `analysis_decision: SUCCESS` or `FAILURE`."


class AnalysisNotPending(Refusal):
    """There is nothing to judge."""

    code = "analysis_not_pending"
    hint = "Call `submit_work` with a `test_command`, or `get_task` to see what comes next."


class ToolLocked(Refusal):
    """Too little was tried for this tool."""

    code = "tool_locked"
    hint = "Try again to fix it, and hand in with `submit_work`."


class WorkflowEscalated(Refusal):
    """A person was asked for help, and the workflow waits for the answer."""

    code = "workflow_escalated"
    move = Move.ESCALATE
    hint = "Stop here. A person answers with `aop gated resume --guidance TEXT`."


class WorkflowHalted(Refusal):
    """The workflow stopped because the repository needs a person."""

    code = "workflow_halted"
    move = Move.ASK_PERSON
    hint = "A person does what the message says, and starts again with `aop gated reset`."


# --- asking a model ------------------------------------------------------------------------------


class ModelNotConfigured(Refusal):
    """Nothing says which model to ask, or what says so cannot be understood."""

    code = "model_not_configured"
    move = Move.CORRECT_USAGE
    hint = "Set `AOP_MODELS` to one or more names such as `anthropic:MODEL`; docs/models.md lists the providers."


class ModelSupportMissing(Refusal):
    """This installation cannot talk to models."""

    code = "model_support_missing"
    move = Move.CORRECT_USAGE
    hint = "Install AOP with its extra `models`: `pip install 'aop[models]'`."


class ModelKeyMissing(Refusal):
    """No key for the model's provider is in the environment."""

    code = "model_key_missing"
    move = Move.CORRECT_USAGE
    hint = "Set the variable that the message names, and try again."


class ModelKeyRejected(Refusal):
    """The provider does not accept the key, or does not let it use this model."""

    code = "model_key_rejected"
    move = Move.ASK_PERSON
    hint = "A person checks the key and what it may use, at the provider."


class ModelPriceUnknown(Refusal):
    """A cost limit was set for a model whose price nobody knows."""

    code = "model_price_unknown"
    move = Move.CORRECT_USAGE
    hint = "Give the model a price in the file that `AOP_MODEL_PRICES` names, or set no cost limit."


class ModelUnreachable(Refusal):
    """The model's endpoint cannot be connected to."""

    code = "model_unreachable"
    move = Move.RETRY
    hint = "Check that the endpoint runs and that its base URL is right, then send the same again."


class ModelTimeout(Refusal):
    """The model did not answer in time."""

    code = "model_timeout"
    move = Move.RETRY
    hint = "Send the same again, ask for less at once, or give the model more time (`AOP_MODEL_TIMEOUT_SECONDS`)."


class ModelRateLimited(Refusal):
    """The provider takes no more requests for now."""

    code = "model_rate_limited"
    move = Move.WAIT
    hint = "Wait for `retry_after_seconds`, if that is known, and send the same again; or name a second model."


class ModelUnavailable(Refusal):
    """The provider broke, or is overloaded."""

    code = "model_unavailable"
    move = Move.RETRY
    hint = "Send the same again later, or name a second model to fall back on."


class ModelRequestRejected(Refusal):
    """The provider does not take this request."""

    code = "model_request_rejected"
    hint = "Check the model's name and what it supports; the same request will be rejected again."


class ModelContextExceeded(Refusal):
    """The prompt is longer than the model can read."""

    code = "model_context_exceeded"
    hint = "Send less, or take a model with a larger context."


class ModelReplyUnreadable(Refusal):
    """What came back is not a reply of this protocol."""

    code = "model_reply_unreadable"
    move = Move.RETRY
    hint = "Check that the base URL is the endpoint itself, and not a page or a proxy in front of it."


class ModelReplyCutOff(Refusal):
    """The reply ended before it was complete."""

    code = "model_reply_cut_off"
    move = Move.RETRY
    hint = "Send the same again; if the reply was too long for its token limit, ask for less at once."


class ModelAnswerInvalid(Refusal):
    """The model answered, but not in the shape that was asked for."""

    code = "model_answer_invalid"
    hint = "Ask again, or take a model that keeps to schemas."


class MissionMissing(Refusal):
    """The ticket's description has no block that says what to do."""

    code = "mission_missing"
    hint = "Put one fenced `yaml` block into the ticket's description, as `docs/tickets.md` shows it."


class MissionAmbiguous(Refusal):
    """The ticket's description has several blocks that say different things."""

    code = "mission_ambiguous"
    hint = "Keep one of the blocks in the ticket's description, and remove the others."


class MissionMalformed(Refusal):
    """The block of a ticket, or its whole description, cannot be read."""

    code = "mission_malformed"
    hint = "Repair the text at the line that is named; anchors, aliases and tags are not taken."


class MissionInvalid(Refusal):
    """The block of a ticket can be read, but lacks a field or has a wrong one."""

    code = "mission_invalid"
    hint = "Set the field that is named in the ticket's block, as `docs/tickets.md` shows it."


class ScaffoldPlanRejected(Refusal):
    """The files that the model planned may not be written."""

    code = "scaffold_plan_rejected"
    hint = "Start the ticket again; if the model plans the same, say in the ticket what it must leave out."


class ToolCallDenied(Refusal):
    """A model in a loop asked for a tool, or for an argument, that its mission does not have."""

    code = "tool_call_denied"
    hint = "Call only the tools that are offered, with the project, the branch and the ticket of the mission."


class AgentStopped(Refusal):
    """A model in a loop ended, or was ended, before its mission was done."""

    code = "agent_stopped"
    hint = (
        "Look at what is there already (`aop ticket show RUN` has every call); raise the limit that was reached, or ask"
        " for less in the ticket, and start again."
    )


class RemoteNotFound(Refusal):
    """The tracker, the version control system or the documentation has no such thing."""

    code = "remote_not_found"
    hint = "Check the key, the path or the page id, and whether the account of AOP may see it."


class RemoteRejected(Refusal):
    """A system around the ticket said no."""

    code = "remote_rejected"
    hint = "Read what it says; the same request will be rejected again."


class RemoteUnavailable(Refusal):
    """A system around the ticket did not answer, or its MCP server died."""

    code = "remote_unavailable"
    move = Move.RETRY
    hint = "Wait until it answers (`aop doctor --outbound` asks it), and start the ticket again."


class RemoteToolsMissing(Refusal):
    """The MCP server of a provider lacks a tool, or an argument of one, that AOP needs."""

    code = "remote_tools_missing"
    hint = "Install the version of the server that `docs/tickets.md` names."


class OutboundServerMissing(Refusal):
    """The MCP server of a provider is not on this machine."""

    code = "outbound_server_missing"
    hint = "Run `aop outbound install jira gitlab`, which needs npm for GitLab, and start again."


class OutboundInstallFailed(Refusal):
    """The MCP server of a provider could not be installed."""

    code = "outbound_install_failed"
    hint = "See to what the message names, and try again; or name a server of your own in `MCP_..._COMMAND`."


class TicketProviderUnsupported(Refusal):
    """A variable names a provider that AOP has no adapter for."""

    code = "ticket_provider_unsupported"
    hint = "Set the variable to one of the providers that are named."


class TicketSettingMissing(Refusal):
    """A variable that the work on tickets needs is not set."""

    code = "ticket_setting_missing"
    move = Move.CORRECT_USAGE
    hint = "Set the variable, as `docs/tickets.md` says, and start again."


class MergeRequestNotReviewable(Refusal):
    """The merge request of a ticket is closed, changes nothing, or is not that of its branch."""

    code = "merge_request_not_reviewable"
    hint = "Open the merge request again, or correct `code_review_params` in the ticket's description."


class TicketRunNotFound(Refusal):
    """There is no such run of a ticket."""

    code = "ticket_run_not_found"
    hint = "`aop ticket runs` lists them."


class TicketKeyInvalid(Refusal):
    """This is not the key of a ticket."""

    code = "ticket_key_invalid"
    move = Move.CORRECT_USAGE
    hint = "A key is a project in capitals and a number, such as `SHOP-12`."


class WebhookDisabled(Refusal):
    """This server takes no webhooks."""

    code = "webhook_disabled"
    move = Move.ASK_PERSON
    hint = "Set `JIRA_WEBHOOK_SECRET` to a secret that the tracker knows too, and start `aop serve` again."


class WebhookUnauthorized(Refusal):
    """A webhook does not prove that it comes from the tracker."""

    code = "webhook_unauthorized"
    move = Move.ASK_PERSON
    hint = "Send `X-API-KEY` with the secret, or one `X-Hub-Signature: sha256=...` over the exact bytes of the body."


class WebhookUnsupported(Refusal):
    """A webhook is encoded in a way that is not read."""

    code = "webhook_unsupported"
    move = Move.CORRECT_USAGE
    hint = "Send JSON as `Content-Type: application/json`, without `Content-Encoding`."


class WebhookTooLarge(Refusal):
    """A webhook is longer than any may be."""

    code = "webhook_too_large"
    hint = "Leave fields out that are not needed: the key of the ticket and its description are enough."


class WebhookTooSlow(Refusal):
    """A webhook did not arrive as a whole in time."""

    code = "webhook_too_slow"
    move = Move.RETRY
    hint = "Send it again."


class WebhookMalformed(Refusal):
    """A webhook is not what a tracker sends."""

    code = "webhook_malformed"
    move = Move.CORRECT_USAGE
    hint = "Send `webhookEvent`, `issue` with `key` and `fields`, and `changelog`, as `docs/tickets.md` shows it."


class WebhookQueueFull(Refusal):
    """More work on tickets waits than may wait."""

    code = "webhook_queue_full"
    move = Move.RETRY
    hint = "Send it again later; `aop ticket runs` shows what waits."


class WebhookNotKept(Refusal):
    """What a webhook asks for could not be written down, as on a full disk."""

    code = "webhook_not_kept"
    move = Move.RETRY
    hint = "Make room on the disk of the server, and have the tracker send it again."


class TicketRunBusy(Refusal):
    """Another process works on this run of a ticket."""

    code = "ticket_run_busy"
    move = Move.WAIT
    hint = "`aop ticket show RUN` tells how far it is."
