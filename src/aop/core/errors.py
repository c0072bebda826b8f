"""Every way in which AOP says no, and the one way in which it breaks.

    Exception
    |-- Refusal                an answer: stable code, facts, and the caller's next move
    |   `-- <one class a code> raised, it changed nothing; returned by a tool, it is a recorded verdict on gates
    `-- Fault                  a breakage: logged once at the door, shown as `internal_error` with a reference

A refusal becomes JSON in `Refusal.as_error`, an exit code in `aop.cli.exits`, and nowhere else.
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
        details: dict[str, Json] = {
            "retryable": self.move in (Move.RETRY, Move.WAIT),
            "requires_human": self.move in (Move.ASK_PERSON, Move.ESCALATE),
            "suggested_next_actions": [self.next_action],
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
    code = "unknown_tool"
    move = Move.CORRECT_USAGE
    hint = "List the tools with `aop tools` or `tools/list`, and call one of those."


class InvalidArguments(Refusal):
    code = "invalid_arguments"
    move = Move.CORRECT_USAGE
    hint = "Correct the argument that the message names; the tool's input schema says what it takes."


class ForbiddenToolForRole(Refusal):
    code = "forbidden_tool_for_role"
    hint = "Use a tool of your own role, or ask the orchestrator to make this call."


class TokenInvalid(Refusal):
    code = "token_invalid"
    move = Move.ASK_PERSON
    hint = "A person makes a token with `aop token ROLE --feature ID`, and puts it into `AOP_TOKEN`."


class ServerStopping(Refusal):
    code = "server_stopping"
    move = Move.RETRY
    hint = "Send the same call again when the server is back."


class VersionConflict(Refusal):
    code = "version_conflict"
    move = Move.RETRY
    hint = "Read the current version, look at what changed, and send the call again with it."

    def __init__(self, what: str, *, expected: int, current: int) -> None:
        super().__init__(
            f"{what} is at version {current}, not {expected}.", expected_version=expected, current_version=current
        )


class IdempotencyMismatch(Refusal):
    code = "idempotency_mismatch"
    hint = "Take a new operation id for a new request; the same id means the same request."


class OperationInProgress(Refusal):
    code = "operation_in_progress"
    move = Move.RETRY
    hint = "Send the same call with the same operation id again; it returns the one result when it is there."


class WorktreeBusy(Refusal):
    code = "worktree_busy"
    move = Move.RETRY
    hint = "Another call works in this feature's worktree. Send this one again when it has ended."


class InternalError(Refusal):
    code = "internal_error"
    move = Move.RETRY
    hint = "AOP itself broke; report it with the reference."


# --- features ------------------------------------------------------------------------------------


class UnknownFeature(Refusal):
    code = "unknown_feature"
    hint = "Make the feature with `feature.init` first, or correct the id (`aop status` lists them)."

    def __init__(self, feature_id: str) -> None:
        super().__init__(f"There is no feature `{feature_id}`.", feature_id=feature_id)


class InvalidFeatureSlug(Refusal):
    code = "invalid_feature_slug"
    move = Move.CORRECT_USAGE
    hint = "Choose an id of lower-case letters, digits, `_` and `-`, at most 63, that does not begin with `-`."

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"`{text[:80]!a}` is not a feature id: {why}.", feature_id=ascii(text[:80])[1:-1])


class FeatureSlugCollision(Refusal):
    code = "feature_slug_collision"
    hint = "Rename one of the two, so that each feature has an id of its own."


class InvalidStatusTransition(Refusal):
    code = "invalid_status_transition"
    hint = "Read the feature's status with `feature.state_get`, and take the step that this status allows."


class BranchExists(Refusal):
    code = "branch_exists"
    move = Move.ASK_PERSON
    hint = "Rename or delete that branch if its commits are not needed, or choose another feature id."


class BranchInUse(Refusal):
    code = "branch_in_use"
    move = Move.ASK_PERSON
    hint = "Check out another branch there first, or keep the branch."


class UnmergedWork(Refusal):
    code = "unmerged_work"
    move = Move.ASK_PERSON
    hint = "Merge it first, keep worktree and branch, or pass `force` to lose what was never merged."


# --- plans and collisions ------------------------------------------------------------------------


class InvalidPlan(Refusal):
    code = "invalid_plan"
    hint = "Correct every line of `violations`, and submit the whole plan again."


class PlanRequired(Refusal):
    code = "plan_required"
    hint = "Submit a plan with `plan.submit` first."


class PlanAlreadyAccepted(Refusal):
    code = "plan_already_accepted"
    hint = "Revise it with `plan.update`: `plan_version` one higher, `revision_of` the current one."


class CollisionDetected(Refusal):
    code = "collision_detected"
    hint = "Revise the plan so that it leaves the named items alone, or wait until the other feature is merged."


class BlockedByCollisionPolicy(Refusal):
    code = "blocked_by_collision_policy"
    move = Move.WAIT
    hint = "The plan waits in the queue; it is looked at again when the other feature lets go."


class LockNotHeld(Refusal):
    code = "lock_not_held"
    hint = "Ask the orchestrator for the lock on the named resource before changing a contract."


class LockConflict(Refusal):
    code = "lock_conflict"
    move = Move.WAIT
    hint = "Wait until the holder releases the lock, or until its lease ends."


class LockOrderViolation(Refusal):
    code = "lock_order_violation"
    hint = "Release what you hold, and acquire all that you need in the order of `acquire_in_order`."


class UnknownLockResource(Refusal):
    code = "unknown_lock_resource"
    hint = "Take one of `known_resources`; a person adds others under `locks.resources` in policy.yaml."


class StaleLockReclaimed(Refusal):
    code = "stale_lock_reclaimed"
    hint = "The lease ended and another feature may hold it now: acquire the lock again before you write."


# --- paths and patches ---------------------------------------------------------------------------


class PathOutOfBounds(Refusal):
    code = "path_out_of_bounds"
    hint = "Name a file inside the repository by its plain path from the root, such as `src/a.py`."


class FileNotFound(Refusal):
    code = "file_not_found"
    hint = "List what there is with `repo.status` or `repo.diff`, and read an existing file."


class InvalidPatch(Refusal):
    code = "invalid_patch"
    hint = "Send a unified diff as `git diff` writes it, with `a/` and `b/` before the names."


class PatchDoesNotApply(Refusal):
    code = "patch_does_not_apply"
    move = Move.ADAPT
    hint = "Read the file as it is now with `repo.read_file`, and make the diff against that."


class UnplannedFile(Refusal):
    code = "unplanned_file"
    hint = "Leave the file alone, or have the planner add it with `plan.update`."


class AreaNotAllowed(Refusal):
    code = "area_not_allowed"
    hint = "Stay inside the plan's `allowed_areas` and out of its `forbidden_areas`."


class ProtectedPath(Refusal):
    code = "protected_path"
    move = Move.ASK_PERSON
    hint = "A person must permit this path in `policy.yaml`, or change it by hand."


class SecretDetected(Refusal):
    code = "secret_detected"
    hint = "Take the secret out of the change; read it from the environment at run time."


# --- gates and evidence --------------------------------------------------------------------------


class UnknownGateProfileOrMode(Refusal):
    code = "unknown_gate_profile_or_mode"
    hint = "Take a profile and a mode that `gates.list` shows."


class NoGateSteps(Refusal):
    code = "no_gate_steps"
    move = Move.ASK_PERSON
    hint = "Write at least one step for this mode into `agentic/orchestrator/gates.yaml`, and commit it."


class UnsupportedParser(Refusal):
    code = "unsupported_parser"
    move = Move.ASK_PERSON
    hint = "Choose a parser type that `gates.list` shows under `capabilities`."


class InvalidOverridePrecedence(Refusal):
    code = "invalid_override_precedence"
    hint = "A plan may add steps and shorten time limits; it may not relax what gates and policy demand."


class SandboxUnavailable(Refusal):
    code = "sandbox_unavailable"
    move = Move.ASK_PERSON
    hint = "Install bubblewrap (or AOP's `sandbox` extra), or set `execution.sandbox: auto`."


class GateFailed(Refusal):
    code = "gate_failed"
    hint = "Read the log that `evidence.log_path` names, repair the change, and run the gates again."


class GateTimeout(Refusal):
    code = "gate_timeout"
    hint = "Make the step finish within its time limit, or have a person raise `timeout_seconds`."


class TransientExecFailure(Refusal):
    code = "transient_exec_failure"
    move = Move.RETRY
    hint = "The machine, not the change, made the step fail. Run the gates again."


class CoverageBelowMinimum(Refusal):
    code = "coverage_below_minimum"
    hint = "Add tests for the lines and branches that the report shows as not covered."


class EvidenceStale(Refusal):
    code = "evidence_stale"
    move = Move.PROVE
    hint = "Run the named gate modes again on the tree as it is now."


# --- merging -------------------------------------------------------------------------------------


class NothingToMerge(Refusal):
    code = "nothing_to_merge"
    move = Move.PROVE
    hint = "Apply the feature's patches first; a feature that changes nothing is not done."


class UserApprovalRequired(Refusal):
    code = "user_approval_required"
    move = Move.ASK_PERSON
    hint = "A person reviews the change and runs `aop approve FEATURE`; pass the token that it prints."


class ApprovalInvalid(Refusal):
    code = "approval_invalid"
    move = Move.ASK_PERSON
    hint = "Look at the change again and approve it as it is now: `aop approve FEATURE`."


class StrategyNotAllowed(Refusal):
    code = "strategy_not_allowed"
    hint = "Use one of the strategies in `merge_policy.allowed_strategies`."


class CommitDisabled(Refusal):
    code = "commit_disabled"
    move = Move.ASK_PERSON
    hint = "`commit_policy.allow_commit` in policy.yaml forbids this."


class MergeDisabled(Refusal):
    code = "merge_disabled"
    move = Move.ASK_PERSON
    hint = "`commit_policy.allow_merge` in policy.yaml forbids this."


class MergeConflict(Refusal):
    code = "merge_conflict"
    hint = "Change the feature so that it agrees with the base branch where `conflicts` says, and run the gates again."


class BaseMoved(Refusal):
    code = "base_moved"
    move = Move.RETRY
    hint = "The base branch moved while the merge was prepared. Nothing changed; send the merge again."


class FeatureBranchMoved(Refusal):
    code = "feature_branch_moved"
    move = Move.ASK_PERSON
    hint = "Move the commits that were made by hand to another branch; AOP commits the approved tree itself."


class BaseBranchUnusable(Refusal):
    code = "base_branch_unusable"
    move = Move.ASK_PERSON
    hint = "Set `worktree.base_branch` in policy.yaml to a branch that has at least one commit."


# --- configuration and the command line ----------------------------------------------------------


class InvalidConfiguration(Refusal):
    code = "invalid_configuration"
    move = Move.ASK_PERSON
    hint = "Correct the key that the message names; `docs/configuration.md` lists every key."


class InvalidWorkspaceImplementation(Refusal):
    code = "invalid_workspace_implementation"
    move = Move.ASK_PERSON
    hint = "`implementation.workspace` has one legal value: `uv`."


class MissingRolePrompt(Refusal):
    code = "missing_role_prompt"
    move = Move.ASK_PERSON
    hint = "Write the prompt file that agents.yaml names, or set `missing_prompt_behavior: ignore`."


class QaIndexVersionConflict(Refusal):
    code = "qa_index_version_conflict"
    move = Move.RETRY
    hint = "Read the index with `qa.test_index_get`, and send the update with its version."


class InvalidCliArgs(Refusal):
    code = "invalid_cli_args"
    move = Move.CORRECT_USAGE
    hint = "`aop COMMAND --help` shows what the command takes."


class InputPathNotFound(Refusal):
    code = "input_path_not_found"
    move = Move.CORRECT_USAGE
    hint = "Check the path; it is looked up from the folder you are in."


class NotARepository(Refusal):
    code = "not_a_repository"
    move = Move.CORRECT_USAGE
    hint = "Change into a git repository with a work tree, or name one with `--repo PATH`."


class NoSpecsFound(Refusal):
    code = "no_specs_found"
    move = Move.PROVE
    hint = "Write a spec to `agentic/features/<id>/spec.md`, or name one with `-fi` or `-fl`."


class SpecIngestFailed(Refusal):
    code = "spec_ingest_failed"
    hint = "Make the spec a readable UTF-8 file."


class AgentProviderNotConfigured(Refusal):
    code = "agent_provider_not_configured"
    move = Move.ASK_PERSON
    hint = "Name a provider: `--agent-provider`, `AOP_AGENT_PROVIDER`, or `runtime.default_provider` in agents.yaml."


class UnsupportedAgentProvider(Refusal):
    code = "unsupported_agent_provider"
    move = Move.CORRECT_USAGE
    hint = "Take one of: codex, claude, gemini, custom."


class ProviderAuthMissing(Refusal):
    code = "provider_auth_missing"
    move = Move.ASK_PERSON
    hint = "Log in with the provider's own command, or set its key in the environment."


# --- driving a feature ---------------------------------------------------------------------------


class TurnsUsedUp(Refusal):
    code = "turns_used_up"
    move = Move.ESCALATE
    hint = "Look at `last_error`; make the spec or the plan clearer, or do this step by hand, and go on from there."


class WorkerAsks(Refusal):
    code = "worker_asks"
    move = Move.ASK_PERSON
    hint = "Give the worker what `request` and `detail` ask for, or do this step by hand, and go on from there."


class ReplayDiverged(Refusal):
    code = "replay_diverged"
    hint = "The recording was made where the tools answered otherwise; take one that fits, or a live agent."
