"""Errors: refusals, which are answers, and faults, which are breakages.

    Exception
    |-- Refusal                an answer: stable code, facts, and the caller's next move
    |   `-- <one class a code> raised, it changed nothing; returned by a tool, it is a recorded verdict on gates
    `-- Fault                  a breakage: logged once at the entry point, shown as `internal_error` with a reference

A refusal becomes JSON in `Refusal.as_error`, an exit code in `aop.cli.shell.exits`, and nowhere else.
Longer than other modules, so that the whole list of codes is in one place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Self, TypeAlias

from aop.core.text.suggestions import did_you_mean

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"


class Move(StrEnum):
    """The caller's next move after a refusal."""

    ADAPT = "adapt"
    """Send something else."""
    CORRECT_USAGE = "correct_usage"
    """The call itself was malformed."""
    PROVE = "prove"
    """Something has to be done or proven first."""
    ASK_PERSON = "ask_person"
    """Only a person can go on."""
    WAIT = "wait"
    """Another feature or process holds what is needed, and will release it."""
    RETRY = "retry"
    """Send the same again."""
    ESCALATE = "escalate"
    """The work was handed to a person."""
    CONTINUE = "continue"
    """The caller stopped it, and can continue."""


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
            "suggested_next_actions": [with_names(self.next_action, self.facts)],
        }
        details.update(self.facts)
        return {"code": self.code, "message": self.message, "details": details}


_PLACES = {"FEATURE": "feature_id", "PROJECT": "project_id", "TYPE": "contract_type"}
"""Words of a hint that stand for a name, and the fact that has it."""


def with_names(hint: str, facts: Mapping[str, Json]) -> str:
    """Return a hint with the names of its facts, so that a person can paste its commands."""

    def name(word: re.Match[str]) -> str:
        known = facts.get(_PLACES[word[0]])
        return known if isinstance(known, str) else word[0]

    return re.sub(rf"\b(?:{'|'.join(_PLACES)})\b", name, hint)


def all_refusals(refusal: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    """Return the refusal and all below it, in the order of this module."""
    yield refusal
    for narrower in refusal.__subclasses__():
        yield from all_refusals(narrower)


class Fault(Exception):
    """A defect of AOP or of the machine below it; never an agent's mistake."""


class RecordLost(Fault):
    """The connection to the record was lost within a change or a read. The same call may be made again."""


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
    """The caller's role or token does not permit this tool or this feature."""

    code = "forbidden_tool_for_role"
    hint = "Call a tool that your role permits, or ask the orchestrator to make this call."


class PersonRequired(Refusal):
    """A command for a person was given where an agent is at work: `AOP_TOKEN` is set, or AOP started the process."""

    code = "person_required"
    move = Move.ASK_PERSON
    hint = "A person repeats it in a terminal of their own, where `AOP_TOKEN` is not set: env -u AOP_TOKEN aop ..."


class TokenInvalid(Refusal):
    """The token is unknown, expired or revoked."""

    code = "token_invalid"
    move = Move.ASK_PERSON
    hint = "A person makes a new one with `aop token ROLE --feature ID` and sets it as `AOP_TOKEN`."


class PageLinkInvalid(Refusal):
    """The link to the pages was used before, is too old, or belongs to another repository."""

    code = "page_link_invalid"
    move = Move.ASK_PERSON
    hint = "Open the pages again with `aop web`."


class PageSessionInvalid(Refusal):
    """The browser has no valid session of this repository's pages."""

    code = "page_session_invalid"
    move = Move.ASK_PERSON
    hint = "Open the pages with `aop web`."


class PageFormInvalid(Refusal):
    """The form was not drawn for this session, or lacks a field."""

    code = "page_form_invalid"
    move = Move.CORRECT_USAGE
    hint = "Load the page again, and repeat what you did."


class ServerStopping(Refusal):
    """The server is shutting down and accepts no new calls."""

    code = "server_stopping"
    move = Move.RETRY
    hint = "Send the same call again when the server runs again."


class VersionConflict(Refusal):
    """The document changed since the caller read it."""

    code = "version_conflict"
    move = Move.RETRY
    hint = "Read the current version, check what changed, and send the call again with that version."

    def __init__(self, what: str, *, expected: int, current: int, hint: str | None = None) -> None:
        super().__init__(
            f"{what} is at version {current}, not {expected}.",
            hint=hint,
            expected_version=expected,
            current_version=current,
        )


class IdempotencyMismatch(Refusal):
    """The operation id was used for another request."""

    code = "idempotency_mismatch"
    hint = "Use a new operation id for a new request; the same id means the same request."


class OperationInProgress(Refusal):
    """The first call with this operation id is still running."""

    code = "operation_in_progress"
    move = Move.RETRY
    hint = "Send the same call with the same operation id again; it returns the result of the first one."


class UnknownOperation(Refusal):
    """This feature has no gate run with this operation id."""

    code = "unknown_operation"
    hint = "Start the gates with `gates.run` and this `operation_id`. A refused call is not recorded."


class WorktreeBusy(Refusal):
    """Another call uses this feature's worktree."""

    code = "worktree_busy"
    move = Move.RETRY
    hint = "Send the call again when the other one has ended."


class WorktreeMissing(Refusal):
    """The feature's worktree was removed."""

    code = "worktree_missing"
    hint = "Call `repo.ensure_worktree`, which makes it again."


class WorktreeSetupFailed(Refusal):
    """A worktree could not be set up as `worktree` in policy.yaml says, or a set-up command failed."""

    code = "worktree_setup_failed"
    hint = "Read the details; a person corrects `worktree` in policy.yaml, or the files that it names."


class SetupNeedsNetwork(Refusal):
    """A set-up command failed without the network, which is closed because the feature changed its inputs."""

    code = "setup_needs_network"
    move = Move.ASK_PERSON
    hint = "A person answers the question in the inbox; then send the call again."


class InternalError(Refusal):
    """AOP has a defect, or the machine below it failed."""

    code = "internal_error"
    move = Move.RETRY
    hint = "Send the call again; if it fails again, report it with the reference."


class DiskFull(Refusal):
    """The disk is full, or a limit on the size of files was reached."""

    code = "disk_full"
    move = Move.RETRY
    hint = "Nothing was left half done. Free space on the disk, then repeat the command."


class FilesClosed(Refusal):
    """Files of the repository belong to another user, or their permissions forbid to read or write them."""

    code = "files_closed"
    move = Move.CORRECT_USAGE
    hint = "Nothing is lost. Make the files yours (`sudo chown -R $USER FOLDER`), then repeat the command."


class FilesExposed(Refusal):
    """AOP's private folder or one of its keys can be changed or read by another user."""

    code = "files_exposed"
    move = Move.CORRECT_USAGE
    hint = (
        "Close them: `chmod 700 .aop .aop/keys && chmod 600 .aop/keys/*.key`. Remove a key that another user may have"
        " read: AOP makes a new one, and what the old one signed is void."
    )


class UnknownFeature(Refusal):
    """There is no feature with this id."""

    code = "unknown_feature"
    hint = "Create the feature with `feature.init` first, or correct the id (`aop status` lists them)."

    def __init__(self, feature_id: str, known: Iterable[str] = ()) -> None:
        super().__init__(f"There is no feature `{feature_id}`.{did_you_mean(feature_id, known)}", feature_id=feature_id)


class RecordUnavailable(Refusal):
    """The repository is read-only and has no record."""

    code = "record_unavailable"
    move = Move.CORRECT_USAGE
    hint = "Use a checkout that AOP has worked on, or a writable one: the first command makes the record."


class RecordTooNew(Refusal):
    """The record was made by a newer AOP, whose shape this one does not know."""

    code = "record_too_new"
    move = Move.CORRECT_USAGE
    hint = "Update AOP to the version that last worked on this repository, or a newer one. The record is unchanged."


class RecordMoved(Refusal):
    """The record of this repository is kept elsewhere by now."""

    code = "record_moved"
    move = Move.CORRECT_USAGE
    hint = (
        "Set AOP_DATABASE to the database that the record was moved to, or unset it if the record was moved back."
        " A move that was interrupted is finished by the same `aop record move`."
    )


class RecordNotMoved(Refusal):
    """AOP_DATABASE is set, but the record of this repository is still the file in it."""

    code = "record_not_moved"
    move = Move.CORRECT_USAGE
    hint = "Move it with `aop record move`, or unset AOP_DATABASE."

    def __init__(self, address: str) -> None:
        super().__init__(f"The record of this repository is `.aop/record.db`, not in {address}.", address=address)


class RecordElsewhere(Refusal):
    """The record belongs to a folder of another name, or on another machine."""

    code = "record_elsewhere"
    move = Move.CORRECT_USAGE
    hint = (
        "Work in that folder, set AOP_HUB there and here to share the record, or set AOP_REPOSITORY to another name for"
        " this repository. If that folder is gone"
        " for good, or its machine has a new name, take the record with `aop record adopt`."
    )

    def __init__(self, name: str, home: str) -> None:
        super().__init__(f"The record of `{name}` in this database belongs to `{home}`.", repository=name, home=home)


class RecordNotEmpty(Refusal):
    """A record cannot be moved onto another one."""

    code = "record_not_empty"
    move = Move.CORRECT_USAGE
    hint = "Nothing changed. Choose another database, or another name with AOP_REPOSITORY."


class DatabaseUnavailable(Refusal):
    """The database of the record cannot be reached, or does not let AOP in."""

    code = "database_unavailable"
    move = Move.RETRY
    hint = "Start the database, or correct AOP_DATABASE (postgresql://USER@HOST:PORT/NAME); then repeat the command."

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"The database {address} cannot be used: {reason}", address=address)


class DatabaseNotAop(Refusal):
    """The database has a schema `aop` that AOP did not make."""

    code = "database_not_aop"
    move = Move.CORRECT_USAGE
    hint = "Nothing changed. Choose another database in AOP_DATABASE."


class PlatformMissing(Refusal):
    """The database has no queues for workers."""

    code = "platform_missing"
    move = Move.CORRECT_USAGE
    hint = "Make them once, as the owner of the database: aop platform init."


class WorkerIdTaken(Refusal):
    """Another worker has this worker's id."""

    code = "worker_id_taken"
    move = Move.RETRY
    hint = "Start the worker again: each start chooses an id."

    def __init__(self, worker: str) -> None:
        super().__init__(f"There is a worker `{worker}` already.", worker=worker)


class PoolerUnsupported(Refusal):
    """The address is that of a pooler which gives each transaction another connection."""

    code = "pooler_unsupported"
    move = Move.CORRECT_USAGE
    hint = "Set AOP_DATABASE to the database itself, or to a pooler in session mode."

    def __init__(self, address: str) -> None:
        super().__init__(
            f"At {address} a transaction pooler answers: locks and notifications of a session would get lost.",
            address=address,
        )


class WorkerVersion(Refusal):
    """The worker knows another shape of runs than the platform."""

    code = "worker_version"
    move = Move.CORRECT_USAGE
    hint = "Install the AOP that made the platform; if this one is newer, take it there: aop platform init."

    def __init__(self, known: int, wanted: int) -> None:
        super().__init__(
            f"This AOP serves runs of shape {known}, and the platform has runs of shape {wanted}.",
            known=known,
            wanted=wanted,
        )


class UnknownWorker(Refusal):
    """No living worker has this id."""

    code = "unknown_worker"
    move = Move.ADAPT
    hint = "List the workers: aop workers."

    def __init__(self, worker: str) -> None:
        super().__init__(f"No living worker has the id `{worker}`.", worker=worker)


class DatabaseRights(Refusal):
    """The user of the database has no right to this."""

    code = "database_rights"
    move = Move.CORRECT_USAGE
    hint = "Nothing changed. Use a user of the database in the role `aop_leader`; `aop_reader` may only read."

    def __init__(self, said: str, *, hint: str | None = None) -> None:
        super().__init__(f"The user of the database may not do this: {said}", hint=hint)


class RepositoryNameTaken(Refusal):
    """Another repository of the platform has this name."""

    code = "repository_name_taken"
    move = Move.CORRECT_USAGE
    hint = "Nothing changed. Choose another name: aop platform add URL --name NAME."

    def __init__(self, name: str, hub: str) -> None:
        super().__init__(f"`{name}` is already the name of {hub}.", repository=name, hub=hub)


class RepositoryBusy(Refusal):
    """A repository of the platform is led, or has unfinished features."""

    code = "repository_busy"
    move = Move.ADAPT
    hint = (
        "Nothing changed. Finish or delete the features and stop the leader, or remove it all the same with `--force`."
    )

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"`{name}` cannot be removed: {why}.", repository=name)


class UnknownRepository(Refusal):
    """No repository of the platform has this name."""

    code = "unknown_repository"
    move = Move.ADAPT
    hint = "List the repositories: aop platform status."

    def __init__(self, name: str) -> None:
        super().__init__(f"No repository of the platform is called `{name}`.", repository=name)


class HubMissing(Refusal):
    """Several machines share the record, and this one has no hub."""

    code = "hub_missing"
    move = Move.CORRECT_USAGE
    hint = "Set AOP_HUB to the git repository that the other machines have. For one folder alone: `aop record adopt`."


class HubUnavailable(Refusal):
    """The git repository through which commits reach other machines cannot be used."""

    code = "hub_unavailable"
    move = Move.RETRY
    hint = "Correct AOP_HUB, or the rights of its git; then send the same call again. Nothing was recorded."


class WorkerFailed(Refusal):
    """A worker could not carry out a gate run; nothing is known about the tree."""

    code = "worker_failed"
    move = Move.RETRY
    hint = "Look at the worker's output, and send the same call again. Nothing was recorded."


class LeaderSilent(Refusal):
    """An agent works on another machine, and the leader did not answer its call in time."""

    code = "leader_silent"
    move = Move.RETRY
    hint = "Send the call again, or go on with the context that you were given."


class InvalidFeatureSlug(Refusal):
    """The text cannot be a feature id."""

    code = "invalid_feature_slug"
    move = Move.CORRECT_USAGE
    hint = "Choose an id of lower-case letters, digits, `_` and `-`, at most 63, that does not begin with `-`."

    def __init__(self, text: str, why: str) -> None:
        shown = ascii(text[:80])[1:-1]
        super().__init__(f"`{shown}` is not a feature id: {why}.", feature_id=shown)


class FeatureSlugCollision(Refusal):
    """Two specs give the same feature id."""

    code = "feature_slug_collision"
    move = Move.CORRECT_USAGE
    hint = "Rename one of the two specs, so that each feature has its own id."


class InvalidStatusTransition(Refusal):
    """The feature's status does not allow this step."""

    code = "invalid_status_transition"
    hint = "Read the status with `feature.state_get`, and take a step that it allows."


class BranchExists(Refusal):
    """A branch with the feature's name already exists, with other commits."""

    code = "branch_exists"
    move = Move.ASK_PERSON
    hint = "Rename or delete that branch, or choose another feature id."


class BranchInUse(Refusal):
    """A checkout uses the branch, so it cannot be deleted."""

    code = "branch_in_use"
    move = Move.ASK_PERSON
    hint = "Check out another branch there first, or keep the branch."


class UnmergedWork(Refusal):
    """The feature has work that was never merged."""

    code = "unmerged_work"
    move = Move.ASK_PERSON
    hint = "Merge it first, keep its worktree and branch, or pass `force` to lose the unmerged work."


class InvalidPlan(Refusal):
    """The plan breaks a rule of the policy, or does not fit the repository."""

    code = "invalid_plan"
    hint = "Correct every line of `violations`, and submit the whole plan again."


class ObligationsUnaccounted(Refusal):
    """The plan leaves out obligations of the spec, which `planning.require_obligations` demands."""

    code = "obligations_unaccounted"
    hint = "List each in `obligations`: `in_scope` with its paths and tests, or `deferred` with the reason."


class PlanRequired(Refusal):
    """The feature has no accepted plan."""

    code = "plan_required"
    hint = "Submit a plan with `plan.submit` first."


class PlanAlreadyAccepted(Refusal):
    """The feature already has an accepted plan."""

    code = "plan_already_accepted"
    hint = "Revise it with `plan.update`: `plan_version` one higher, `revision_of` the current version."


class CollisionDetected(Refusal):
    """The plan wants what another accepted plan has claimed."""

    code = "collision_detected"
    hint = "Revise the plan without the named items, or wait until the other feature is merged."


class BlockedByCollisionPolicy(Refusal):
    """The plan must wait for another feature."""

    code = "blocked_by_collision_policy"
    move = Move.WAIT
    hint = "Wait: the plan is queued, and is checked again when the other feature releases its claim."


class LockNotHeld(Refusal):
    """The change needs a lock that the feature does not hold."""

    code = "lock_not_held"
    hint = "Ask the orchestrator for the lock on the named resource, then send the change again."


class LockConflict(Refusal):
    """Another feature holds the lock."""

    code = "lock_conflict"
    move = Move.WAIT
    hint = "Wait until the holder releases the lock, or until its lease ends."


class LockOrderViolation(Refusal):
    """The locks were requested in an order that could deadlock two features."""

    code = "lock_order_violation"
    hint = "Release your locks, and acquire all that you need in the order of `acquire_in_order`."


class UnknownLockResource(Refusal):
    """The policy defines no such resource."""

    code = "unknown_lock_resource"
    hint = "Use one of `known_resources`; a person adds others under `locks.resources` in policy.yaml."


class StaleLockReclaimed(Refusal):
    """The feature's lease expired before the change arrived."""

    code = "stale_lock_reclaimed"
    hint = "Acquire the lock again before you write: another feature may hold it now."


class PathOutOfBounds(Refusal):
    """The path leads out of the repository, or is not a plain path."""

    code = "path_out_of_bounds"
    hint = "Name a file inside the repository by its plain path from the root, such as `src/a.py`."


class FileNotFound(Refusal):
    """The feature's tree has no such file."""

    code = "file_not_found"
    hint = "Find the file with `repo.search`, `repo.status` or `repo.diff`."


class NothingToTake(Refusal):
    """The worktree of the feature holds no edits."""

    code = "nothing_to_take"
    move = Move.PROVE
    hint = "Edit files in the feature's worktree, then try again."


class EditsChanged(Refusal):
    """The edits in the worktree are not those that were shown."""

    code = "edits_changed"
    move = Move.RETRY
    hint = "Look at the edits again, then take them."


class InvalidPatch(Refusal):
    """The text is not a valid patch."""

    code = "invalid_patch"
    hint = "Send a unified diff as `git diff` writes it, with `a/` and `b/` before the names."


class PatchDoesNotApply(Refusal):
    """The patch does not fit the files as they are."""

    code = "patch_does_not_apply"
    hint = "Read the current file with `repo.read_file`, and make the diff against it."


class UnplannedFile(Refusal):
    """The patch touches a file that the plan does not list."""

    code = "unplanned_file"
    hint = "Leave the file out, or ask the planner to add it with `plan.update`."


class AreaNotAllowed(Refusal):
    """The patch touches an area that the plan does not allow."""

    code = "area_not_allowed"
    hint = "Stay inside the plan's `allowed_areas` and out of its `forbidden_areas`."


class ProtectedPath(Refusal):
    """No agent may change this path."""

    code = "protected_path"
    move = Move.ASK_PERSON
    hint = "Ask a person to open it for this feature with `inbox.ask_path`, or to permit it in `policy.yaml`."


class SecretDetected(Refusal):
    """The patch, the commit message, the contract or the call contains a secret."""

    code = "secret_detected"
    hint = "Remove the secret from the change; read it from the environment at run time."


class UnknownGateProfileOrMode(Refusal):
    """There is no such gate profile, or it has no such mode."""

    code = "unknown_gate_profile_or_mode"
    hint = "Use a profile and a mode that `gates.list` shows."


class NoGateSteps(Refusal):
    """The gate mode has no steps, so it proves nothing."""

    code = "no_gate_steps"
    move = Move.ASK_PERSON
    hint = "Add at least one step for this mode to `agentic/orchestrator/gates.yaml`, and commit it."


class BaseGatesFail(Refusal):
    """The gates fail on the base branch itself, so they could not judge the work of agents."""

    code = "base_gates_fail"
    move = Move.ASK_PERSON
    hint = (
        "Repair the base branch or the gates first: `aop doctor --gates` runs them all. To begin all the same, pass"
        " `--anyway`."
    )


class UnsupportedParser(Refusal):
    """No parser reads this kind of report."""

    code = "unsupported_parser"
    move = Move.ASK_PERSON
    hint = "Choose a parser type that `gates.list` shows under `capabilities`."


class InvalidOverridePrecedence(Refusal):
    """The plan relaxes a rule of the gates or the policy."""

    code = "invalid_override_precedence"
    hint = "Remove the override: a plan may add steps and shorten time limits, and relax nothing."


class SandboxUnavailable(Refusal):
    """The policy demands a sandbox, and none works on this machine."""

    code = "sandbox_unavailable"
    move = Move.ASK_PERSON
    hint = "Install the package `bubblewrap` of your system, or set `execution.sandbox: auto`."


class GateFailed(Refusal):
    """A gate step or its report failed; the verdict is recorded."""

    code = "gate_failed"
    hint = "Read the log at `evidence.log_path`, correct the change, and run the gates again."


class GateTimeout(Refusal):
    """A gate step exceeded its time limit; the verdict is recorded."""

    code = "gate_timeout"
    hint = "Make the step faster, or ask a person to raise `timeout_seconds`."


class TransientExecFailure(Refusal):
    """A gate step failed because of the machine; the verdict is recorded."""

    code = "transient_exec_failure"
    move = Move.RETRY
    hint = "Run the gates again: the machine made the step fail, not the change."


class CoverageBelowMinimum(Refusal):
    """The coverage is below the minimum; the verdict is recorded."""

    code = "coverage_below_minimum"
    hint = "Add tests for the lines and branches that the report shows as not covered."


class EvidenceStale(Refusal):
    """The feature changed since the gates passed."""

    code = "evidence_stale"
    move = Move.PROVE
    hint = "Run the named gate modes again on the current tree."


class EvidenceBroken(Refusal):
    """The record or a file of AOP was altered; `kind` says how, `seq` at which journal entry."""

    code = "evidence_broken"
    move = Move.ASK_PERSON
    hint = "Something other than AOP changed it: keep a copy of `.aop`, and find the cause before you continue."


class NothingToMerge(Refusal):
    """The feature changes nothing."""

    code = "nothing_to_merge"
    move = Move.PROVE
    hint = "Apply the feature's patches first."


class UserApprovalRequired(Refusal):
    """No person has approved the current tree of the feature."""

    code = "user_approval_required"
    move = Move.ASK_PERSON
    hint = (
        "A person runs `aop merge FEATURE` at a terminal (or with `--yes`), which approves and merges;"
        " or `aop approve FEATURE`, and passes the token that it prints with `--token`."
    )


class SignatureRequired(Refusal):
    """The policy names signers, and the approval is not signed by one of them."""

    code = "signature_required"
    move = Move.ASK_PERSON
    hint = (
        "A signer of `approval.signers` runs `aop approve FEATURE --key FILE`, or names the key in `AOP_SIGNING_KEY`."
    )


class SignaturesUnavailable(Refusal):
    """A signature can be neither made nor checked on this machine."""

    code = "signatures_unavailable"
    move = Move.ASK_PERSON
    hint = "Install OpenSSH 8.2 or newer: AOP signs and checks approvals with its `ssh-keygen`."


class ApprovalInvalid(Refusal):
    """The approval was used already, or is for another tree."""

    code = "approval_invalid"
    move = Move.ASK_PERSON
    hint = "Review the change again and approve its current tree: `aop approve FEATURE`."


class StrategyNotAllowed(Refusal):
    """The policy does not allow this merge strategy."""

    code = "strategy_not_allowed"
    hint = "Use one of the strategies in `merge_policy.allowed_strategies`."


class CommitDisabled(Refusal):
    """The policy forbids commits through this tool."""

    code = "commit_disabled"
    move = Move.ASK_PERSON
    hint = "A person sets `commit_policy.allow_commit` in policy.yaml to permit it."


class MergeDisabled(Refusal):
    """The policy forbids merges through this tool."""

    code = "merge_disabled"
    move = Move.ASK_PERSON
    hint = "A person sets `commit_policy.allow_merge` in policy.yaml to permit it."


class MergeConflict(Refusal):
    """The feature and the base branch changed the same lines."""

    code = "merge_conflict"
    hint = "`repo.follow_base` moves it to the new base and hands the conflict to a builder; `run.resume` continues."


class BaseMoved(Refusal):
    """The base branch moved while the merge was prepared."""

    code = "base_moved"
    move = Move.RETRY
    hint = "Send the merge again; nothing was changed."


class CheckoutChanged(Refusal):
    """Local changes in the checkout of the base branch would be lost."""

    code = "checkout_changed"
    move = Move.ASK_PERSON
    hint = (
        "Commit or stash these files, then repeat the command;"
        " with `--leave-checkout`, `aop merge` leaves the checkout as it is."
    )


class CheckoutBusy(Refusal):
    """Git is in the middle of something in the checkout of the base branch."""

    code = "checkout_busy"
    move = Move.ASK_PERSON
    hint = "End it, then repeat the command; with `--leave-checkout`, `aop merge` leaves the checkout as it is."


class CheckoutUnknown(Refusal):
    """The checkout looks like an older commit of the base branch, and AOP's note of where it stood is missing."""

    code = "checkout_unknown"
    move = Move.ASK_PERSON
    hint = "Compare the checkout with `git status`; AOP changes nothing there."


class CheckoutNeedsFilter(Refusal):
    """The checkout of the base branch needs a filter program of git, and AOP starts none."""

    code = "checkout_needs_filter"
    move = Move.ASK_PERSON
    hint = "Merge with `--leave-checkout`; `aop sync` then names the git command that updates the checkout."


class FeatureBranchMoved(Refusal):
    """The feature's branch has commits that AOP did not make."""

    code = "feature_branch_moved"
    move = Move.ASK_PERSON
    hint = "Move those commits to another branch; AOP commits the approved tree itself."


class BaseBranchUnusable(Refusal):
    """The base branch has no commit to start from."""

    code = "base_branch_unusable"
    move = Move.ASK_PERSON
    hint = "Set `worktree.base_branch` in policy.yaml to a branch that has at least one commit."


class InvalidConfiguration(Refusal):
    """A configuration file is not valid."""

    code = "invalid_configuration"
    move = Move.ASK_PERSON
    hint = "Correct the key that the message names; `aop config` lists every key, and `aop config KEY` explains one."


class InvalidWorkspaceImplementation(Refusal):
    """`implementation.workspace` is not `uv`."""

    code = "invalid_workspace_implementation"
    move = Move.ASK_PERSON
    hint = "Set `implementation.workspace` to `uv`, its only value."


class MissingRolePrompt(Refusal):
    """The prompt file of a role does not exist."""

    code = "missing_role_prompt"
    move = Move.ASK_PERSON
    hint = "Write the prompt file that agents.yaml names, or set `missing_prompt_behavior: ignore`."


class QaIndexVersionConflict(Refusal):
    """The QA index changed since the caller read it."""

    code = "qa_index_version_conflict"
    move = Move.RETRY
    hint = "Read the index with `qa.test_index_get`, and send the update with its current version."


class InvalidCliArgs(Refusal):
    """The command line is not valid."""

    code = "invalid_cli_args"
    move = Move.CORRECT_USAGE
    hint = "See `aop COMMAND --help`."


class Interrupted(Refusal):
    """The command was stopped by Ctrl-C or a signal."""

    code = "interrupted"
    move = Move.CONTINUE
    hint = "Nothing is left half done. Repeat the command to continue."


class InputPathNotFound(Refusal):
    """A file or folder does not exist, or cannot be used."""

    code = "input_path_not_found"
    move = Move.CORRECT_USAGE
    hint = "Check the path; it is relative to the current folder."


class ContractDrift(Refusal):
    """The files that describe the tools differ from the code."""

    code = "contract_drift"
    hint = "Run `aop tools write`, review the changes, and commit them."


class NotARepository(Refusal):
    """The folder is not inside a git repository with a work tree."""

    code = "not_a_repository"
    move = Move.CORRECT_USAGE
    hint = "Change into a git repository with a work tree, or name one with `--repo PATH`."


class BaseBranchUnreadable(Refusal):
    """Git cannot read the files of the base branch: its commit, or an object of it, is missing or damaged."""

    code = "base_branch_unreadable"
    hint = "See what is missing with `git fsck`, and bring it back with `git fetch` or from another clone."


class NoSpecsFound(Refusal):
    """There is no spec to work on."""

    code = "no_specs_found"
    move = Move.CORRECT_USAGE
    hint = "Write a spec to `agentic/features/<id>/spec.md`, or name one with `-fi` or `-fl`."


class FeatureDeleted(Refusal):
    """The feature was deleted, and only a person can start it anew."""

    code = "feature_deleted"
    move = Move.ASK_PERSON
    hint = "A person starts it anew with `aop run --file SPEC`."


class FeatureMerged(Refusal):
    """The feature of this spec is merged, and is not run again."""

    code = "feature_merged"
    move = Move.CORRECT_USAGE
    hint = (
        "Begin the next change under another name, with `aop new NAME` or in another file:"
        " the name of the file is the id of the feature."
    )


class SpecIngestFailed(Refusal):
    """A spec cannot be read."""

    code = "spec_ingest_failed"
    move = Move.CORRECT_USAGE
    hint = "Save the spec as a readable UTF-8 file."


class AgentProviderNotConfigured(Refusal):
    """No coding agent is chosen."""

    code = "agent_provider_not_configured"
    move = Move.CORRECT_USAGE
    hint = "Choose one with `--agent-provider`, `AOP_AGENT_PROVIDER`, or `runtime.default_provider` in agents.yaml."


class UnsupportedAgentProvider(Refusal):
    """AOP does not know this coding agent."""

    code = "unsupported_agent_provider"
    move = Move.CORRECT_USAGE
    hint = "Choose one that `aop agents` lists, `custom`, or `model`."


class ProviderAuthMissing(Refusal):
    """The coding agent is not logged in."""

    code = "provider_auth_missing"
    move = Move.CORRECT_USAGE
    hint = "Log in with the provider's own command, or set its key in the environment."


class AgentInstallFailed(Refusal):
    """A coding agent could not be installed."""

    code = "agent_install_failed"
    hint = "Correct what the message names, and try again; or install the agent yourself, in a folder of PATH."


class SupervisorRunning(Refusal):
    """Another process supervises this repository."""

    code = "supervisor_running"
    move = Move.WAIT
    hint = "Watch that run with `aop status`, or end it with `aop stop`; a repository has one supervisor at a time."


class SupervisorReplaced(Refusal):
    """A newer supervisor works on this repository; calls of the older one are refused."""

    code = "supervisor_replaced"
    move = Move.WAIT
    hint = "Leave the work to the newer one, which `aop status` shows. The older one ends by itself."


class NoSupervisor(Refusal):
    """No supervisor runs for this repository."""

    code = "no_supervisor"
    move = Move.PROVE
    hint = "Start a run with `aop run`, or continue an earlier one with `aop resume`."


class UnknownQuestion(Refusal):
    """The inbox has no such question for this feature."""

    code = "unknown_question"
    hint = "List the open questions with `aop inbox`."

    def __init__(self, question_id: str, known: Iterable[str] = ()) -> None:
        meant = did_you_mean(question_id, known)
        super().__init__(f"There is no question `{question_id}`.{meant}", question_id=question_id)


class UnknownComment(Refusal):
    """The feature has no draft of this number by this person."""

    code = "unknown_comment"
    hint = "List your drafts with `feature.comments`; what was sent stays as it is."


class TooManyComments(Refusal):
    """The feature has as many comments as it can keep."""

    code = "too_many_comments"
    move = Move.PROVE
    hint = "Send the drafts with `feature.request_changes`, or delete some with `feature.comment_delete`."


class UnknownRun(Refusal):
    """The record has no run of this name."""

    code = "unknown_run"
    hint = "List the runs with `aop replay`, or name a feature."

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        shown = ascii(name[:80])[1:-1]
        super().__init__(f"There is no run and no feature `{shown}`.{did_you_mean(name, known)}", run=shown)


class AlreadyAnswered(Refusal):
    """A person has already answered this question."""

    code = "already_answered"
    hint = "The first answer counts. Wait until the worker asks again to tell it more."


class NotAChoice(Refusal):
    """The answer is not one of the question's choices."""

    code = "not_a_choice"
    hint = "Answer with one of `choices`, exactly as written."

    def __init__(self, question_id: str, choices: Sequence[str]) -> None:
        named = " or ".join(f"`{choice}`" for choice in choices)
        super().__init__(
            f"The answer to the question `{question_id}` must be {named}.",
            question_id=question_id,
            choices=list(choices),
        )


class NobodyAnsweredInTime(Refusal):
    """A question reached its time limit without an answer, and has no default."""

    code = "nobody_answered"
    move = Move.ESCALATE
    hint = "Ask again with `aop retry FEATURE`; `inbox` in policy.yaml sets the time limits."


class CostCapReached(Refusal):
    """A cost cap is reached, and a person stopped the work or gave no answer in time."""

    code = "cost_cap_reached"
    move = Move.ESCALATE
    hint = "The work so far is kept. Raise the cap under `cost` in policy.yaml, then continue: `aop retry FEATURE`."


class TurnsUsedUp(Refusal):
    """A worker used all its turns without finishing."""

    code = "turns_used_up"
    move = Move.ESCALATE
    hint = "Read `last_error`; make the spec or the plan clearer, or do this step by hand, and continue from there."


class GoesInCircles(Refusal):
    """A worker repeats itself, after a hint and a question to a person."""

    code = "goes_in_circles"
    move = Move.ESCALATE
    hint = "Read `attempts`; make the spec or the plan clearer, or do this step by hand, and continue from there."


class NoProgress(Refusal):
    """A worker's proposals are refused again and again, after a hint and a question to a person."""

    code = "no_progress"
    move = Move.ESCALATE
    hint = "Read `attempts`; make the spec or the plan clearer, or do this step by hand, and continue from there."


class NoUsableAnswer(Refusal):
    """An agent's turn gave no usable answer."""

    code = "no_usable_answer"
    hint = "Answer with one JSON object: PLAN_SUBMISSION, PATCH, NOTE or REQUEST, as the instructions say."


class AgentNotStarted(NoUsableAnswer):
    """The coding agent's program is missing, or cannot be started."""

    code = "agent_not_started"
    move = Move.ASK_PERSON
    hint = "Install the program or correct its command, and check it with `aop agents` and `aop agents test PROVIDER`."


class ProviderTrouble(NoUsableAnswer):
    """The provider of the model has an error of its own (HTTP status 5xx)."""

    code = "provider_failed"
    move = Move.WAIT
    hint = "The features of this provider wait and try again; `aop resume FEATURE` tries at once."


class ProviderOverloaded(ProviderTrouble):
    """The provider of the model is overloaded."""

    code = "provider_overloaded"


class ProviderUnreachable(ProviderTrouble):
    """The provider of the model does not accept a connection."""

    code = "provider_unreachable"


class ProviderTimedOut(ProviderTrouble):
    """The provider of the model did not answer, or not to the end, in time."""

    code = "provider_timed_out"


class ProviderAnswerCutOff(ProviderTrouble):
    """An answer of the model's provider ended before it was complete."""

    code = "provider_answer_cut_off"


class ProviderAnswerMalformed(ProviderTrouble):
    """An answer of the model's provider is not that of a model."""

    code = "provider_answer_malformed"


class ProviderPaymentRequired(ProviderTrouble):
    """The account at the model's provider has no credit left, or is not paid."""

    code = "provider_payment_required"
    move = Move.ASK_PERSON
    hint = "Add credit to the account, or use another key, and answer the question in `aop inbox`."


class AgentNotLoggedIn(ProviderTrouble):
    """The coding agent has no log-in, or its key was rejected."""

    code = "agent_not_logged_in"
    move = Move.ASK_PERSON
    hint = "Log in or set the key, and check it with `aop agents test PROVIDER`."


class AgentLoginMissing(AgentNotLoggedIn):
    """The log-in of a coding agent shall be used, and there is none."""

    code = "agent_login_missing"
    hint = "Log in with `aop agents login PROVIDER`."


class AgentLoginExpired(AgentNotLoggedIn):
    """The log-in of a coding agent has expired, and its program could not renew it."""

    code = "agent_login_expired"
    hint = "Log in again with `aop agents login PROVIDER`."


class AgentLoginUnsafe(AgentNotLoggedIn):
    """The file of a coding agent's log-in is a link, too large, or open to other users."""

    code = "agent_login_unsafe"
    hint = "Correct the file that the message names, or log in again with `aop agents login PROVIDER`."


class AgentLoginAmbiguous(AgentNotLoggedIn):
    """The files of a coding agent's log-in name two accounts."""

    code = "agent_login_ambiguous"
    hint = "Log in again with `aop agents login PROVIDER`, with the account that shall be used."


class AgentCrashed(NoUsableAnswer):
    """The coding agent was ended by a signal."""

    code = "agent_crashed"
    move = Move.RETRY
    hint = "Read the agent's output with `aop logs --agent FEATURE`."


class AgentFailed(NoUsableAnswer):
    """The coding agent exited with an error code and without an answer."""

    code = "agent_failed"
    move = Move.RETRY
    hint = "Read the agent's output with `aop logs --agent FEATURE`."


class AgentTimedOut(NoUsableAnswer):
    """The coding agent did not answer in time, and was stopped."""

    code = "agent_timed_out"
    move = Move.RETRY
    hint = "Make the spec smaller, or raise `supervisor.turn_timeout_seconds` in policy.yaml."


class AgentOutputTooLarge(NoUsableAnswer):
    """The coding agent wrote more than AOP reads."""

    code = "agent_output_too_large"
    hint = "Answer with one short JSON object; print nothing else."


class ModelQuotaReached(ProviderTrouble):
    """The provider of the model limits requests, or the quota is used up."""

    code = "model_quota_reached"
    move = Move.WAIT
    hint = "The feature continues by itself at the time that the provider named; `aop resume FEATURE` tries at once."


class ProviderToolRefused(NoUsableAnswer):
    """The coding agent asks its provider to search, fetch or run something for it."""

    code = "provider_tool_refused"
    move = Move.ASK_PERSON
    hint = "Switch that tool off in the agent, or set `execution.provider_tools: allow` in policy.yaml."


class RequestPartUnknown(NoUsableAnswer):
    """A request of the coding agent has a part that AOP does not know."""

    code = "request_part_unknown"
    move = Move.ASK_PERSON
    hint = (
        "Install the version that AOP is tested with (`aop agents install PROVIDER`), or set"
        " `execution.provider_tools: allow` in policy.yaml."
    )


class ReplayDiverged(Refusal):
    """The recording does not match the answers of the tools."""

    code = "replay_diverged"
    hint = "Use a recording that was made on this repository, or a live agent."


class InvalidActivePr(Refusal):
    """`ACTIVE_PR.json` is not a valid plan, or not the plan of this pull request."""

    code = "invalid_active_pr"
    hint = "Correct `ACTIVE_PR.json` with `safe_patch`; `get_task` shows its form."


class NoWorkflow(Refusal):
    """No gated workflow was started for the caller."""

    code = "no_workflow"
    move = Move.ASK_PERSON
    hint = "A person starts one with `aop gated start`."


class NoWorkspace(Refusal):
    """The caller works on no gated workflow and on no build."""

    code = "no_workspace"
    hint = "Use a token made with `aop token swe --feature ID`, or with `aop token ROLE --build B`."


class NoMasterPlan(Refusal):
    """The master plan of the gated workflow does not exist."""

    code = "no_master_plan"
    move = Move.ASK_PERSON
    hint = "Commit one to the base branch, with a heading `### Pull Request #1: TITLE` for each."


class AgentAtWork(Refusal):
    """Another agent works through the same plan."""

    code = "agent_at_work"
    move = Move.WAIT
    hint = "Wait until the other agent has ended, or end it: one agent works at a time."


class ReviewerNotConfigured(Refusal):
    """No reviewer is configured."""

    code = "reviewer_not_configured"
    move = Move.ASK_PERSON
    hint = "A person sets `gated.review_command` or `gated.review_model` in policy.yaml, on the base branch."


class FrozenTest(Refusal):
    """The patch changes a frozen test before the code passes it."""

    code = "frozen_test"
    hint = "Change the code instead of the test; or call `safe_patch` again with a `reason`, and a person decides."


class OutOfStep(Refusal):
    """The workflow is at another step than the call."""

    code = "out_of_step"
    hint = "Call `get_task` for the current step."


class TestCommandMissing(Refusal):
    """The work was submitted without the command that tests it."""

    code = "test_command_missing"
    move = Move.CORRECT_USAGE
    hint = "Call `submit_work` again with `test_command`."


class AnalysisPending(Refusal):
    """A red test run awaits the agent's analysis."""

    code = "analysis_pending"
    hint = "Call `submit_work` with `analysis_decision: SUCCESS` or `FAILURE`."


class AnalysisNotPending(Refusal):
    """No test run awaits an analysis."""

    code = "analysis_not_pending"
    hint = "Call `submit_work` with a `test_command`, or `get_task` for the current step."


class ToolLocked(Refusal):
    """This tool opens only after more attempts."""

    code = "tool_locked"
    hint = "Try again, and submit with `submit_work`."


class WorkflowEscalated(Refusal):
    """The workflow waits for a person's answer."""

    code = "workflow_escalated"
    move = Move.ESCALATE
    hint = "Stop here. A person answers with `aop gated resume --guidance TEXT`."


class WorkflowHalted(Refusal):
    """The workflow stopped until a person repairs the repository."""

    code = "workflow_halted"
    move = Move.ASK_PERSON
    hint = "A person does what the message says, and restarts with `aop gated reset`."


class ModelNotConfigured(Refusal):
    """No model is configured, or its name is not valid."""

    code = "model_not_configured"
    move = Move.CORRECT_USAGE
    hint = "Set `AOP_MODELS` to one or more names such as `anthropic:MODEL`; `aop brain test` asks it a question."


class ModelNotAllowed(Refusal):
    """The server may not ask a model."""

    code = "model_not_allowed"
    move = Move.ASK_PERSON
    hint = "The operator starts the server with `--ask-models`, or the policy has a `gated.review_command`."


class ModelSupportMissing(Refusal):
    """This installation cannot talk to models."""

    code = "model_support_missing"
    move = Move.CORRECT_USAGE
    hint = "Install AOP with its extra `models`: `pip install 'aop[models]'`."


class ModelKeyMissing(Refusal):
    """The environment has no key for the model's provider."""

    code = "model_key_missing"
    move = Move.CORRECT_USAGE
    hint = "Set the variable that the message names, and try again."


class ModelKeyRejected(Refusal):
    """The provider rejects the key, or the key may not use this model."""

    code = "model_key_rejected"
    move = Move.ASK_PERSON
    hint = "A person checks the key and its permissions at the provider."


class ModelPriceUnknown(Refusal):
    """A cost limit is set for a model without a known price."""

    code = "model_price_unknown"
    move = Move.CORRECT_USAGE
    hint = (
        "Give the model a price in the file that `AOP_MODEL_PRICES` names (`aop models prices` shows how), choose"
        " another model, or set no cost limit."
    )


class ModelUnreachable(Refusal):
    """The model's endpoint cannot be reached."""

    code = "model_unreachable"
    move = Move.RETRY
    hint = "Check that the endpoint runs and that its base URL is correct, then try again."


class ModelTimeout(Refusal):
    """The model did not answer in time."""

    code = "model_timeout"
    move = Move.RETRY
    hint = "Try again, ask for less at once, or raise `AOP_MODEL_TIMEOUT_SECONDS`."


class ModelRateLimited(Refusal):
    """The provider limits the rate of requests."""

    code = "model_rate_limited"
    move = Move.WAIT
    hint = "Wait for `retry_after_seconds`, if it is known, and try again; or configure a second model."


class ModelPaymentRequired(Refusal):
    """The account at the provider has no credit left, or is not paid."""

    code = "model_payment_required"
    move = Move.ASK_PERSON
    hint = "Add credit to the account, or use another key."


class ModelUnavailable(Refusal):
    """The provider has an error, or is overloaded."""

    code = "model_unavailable"
    move = Move.RETRY
    hint = "Try again later, or configure a second model as a fallback."


class ModelRequestRejected(Refusal):
    """The provider rejects this request."""

    code = "model_request_rejected"
    hint = "Check the model's name and what it supports; a retry would be rejected too."


class ModelContextExceeded(Refusal):
    """The prompt is longer than the model can read."""

    code = "model_context_exceeded"
    hint = "Send less, or use a model with a larger context."


class ModelReplyUnreadable(Refusal):
    """The reply does not follow the protocol."""

    code = "model_reply_unreadable"
    move = Move.RETRY
    hint = "Check that the base URL is the endpoint itself, not a web page or a proxy."


class ModelReplyCutOff(Refusal):
    """The reply ended before it was complete."""

    code = "model_reply_cut_off"
    move = Move.RETRY
    hint = "Try again; if the reply exceeded its token limit, ask for less at once."


class ModelAnswerInvalid(Refusal):
    """The model's answer does not have the requested shape."""

    code = "model_answer_invalid"
    hint = "Ask again, or use a model that keeps to schemas."


class MissionMissing(Refusal):
    """The ticket's description has no mission block."""

    code = "mission_missing"
    hint = "Add one fenced `yaml` block to the ticket's description; `aop demo tickets --keep` makes an example."


class MissionAmbiguous(Refusal):
    """The ticket's description has several different mission blocks."""

    code = "mission_ambiguous"
    hint = "Keep one mission block in the ticket's description, and remove the others."


class MissionMalformed(Refusal):
    """The ticket's mission block or description cannot be parsed."""

    code = "mission_malformed"
    hint = "Correct the text at the named line; anchors, aliases and tags are not accepted."


class MissionInvalid(Refusal):
    """The ticket's mission block lacks a field, or a field is wrong."""

    code = "mission_invalid"
    hint = "Set the named field in the mission block; `aop demo tickets --keep` makes an example."


class ScaffoldPlanRejected(Refusal):
    """The model's plan contains files that must not be written."""

    code = "scaffold_plan_rejected"
    hint = "Start the ticket again; if the plan is the same, write in the ticket what it must leave out."


class ToolCallDenied(Refusal):
    """The model called a tool, or passed an argument, that the mission does not permit."""

    code = "tool_call_denied"
    hint = "Call only the tools that are offered, with the project, the branch and the ticket of the mission."


class AgentStopped(Refusal):
    """The model's loop ended before the mission was done."""

    code = "agent_stopped"
    hint = "See `aop ticket show RUN`; raise the limit that was reached or ask for less in the ticket, and start again."


class RemoteNotFound(Refusal):
    """The ticket system has no such ticket, branch, file or page."""

    code = "remote_not_found"
    hint = "Check the key, the path or the page id, and whether AOP's account may read it."


class RemoteRejected(Refusal):
    """A ticket system rejected the request."""

    code = "remote_rejected"
    hint = "Read its message; a retry would be rejected too."


class RemoteUnavailable(Refusal):
    """A ticket system did not answer, or its MCP server ended."""

    code = "remote_unavailable"
    move = Move.RETRY
    hint = "Wait until it answers (check with `aop doctor --outbound`), and start the ticket again."


class RemoteToolsMissing(Refusal):
    """The MCP server of a provider lacks a tool, or an argument of one, that AOP needs."""

    code = "remote_tools_missing"
    hint = "Install the tested version of the server with `aop outbound install`."


class OutboundServerMissing(Refusal):
    """The MCP server of a provider is not installed."""

    code = "outbound_server_missing"
    hint = "Run `aop outbound install jira gitlab` (GitLab needs npm), and start again."


class OutboundInstallFailed(Refusal):
    """The MCP server of a provider could not be installed."""

    code = "outbound_install_failed"
    hint = "Correct what the message names, and try again; or name your own server in `MCP_..._COMMAND`."


class TicketProviderUnsupported(Refusal):
    """A variable names a provider that AOP does not support."""

    code = "ticket_provider_unsupported"
    hint = "Set the variable to one of the named providers."


class TicketSettingMissing(Refusal):
    """A variable that ticket work needs is not set."""

    code = "ticket_setting_missing"
    move = Move.CORRECT_USAGE
    hint = "Set the variable, and start again; `aop outbound` lists the variables of each system."


class MergeRequestNotReviewable(Refusal):
    """The ticket's merge request is closed, is empty, or belongs to another branch."""

    code = "merge_request_not_reviewable"
    hint = "Open the merge request again, or correct `code_review_params` in the ticket's description."


class TicketRunNotFound(Refusal):
    """There is no such ticket run."""

    code = "ticket_run_not_found"
    hint = "List the runs with `aop ticket runs`."


class TicketKeyInvalid(Refusal):
    """The text is not a ticket key."""

    code = "ticket_key_invalid"
    move = Move.CORRECT_USAGE
    hint = "Use a project in capitals and a number, such as `SHOP-12`."


class WebhookDisabled(Refusal):
    """This server accepts no webhooks."""

    code = "webhook_disabled"
    move = Move.ASK_PERSON
    hint = "Set `JIRA_WEBHOOK_SECRET` to the tracker's webhook secret, and restart `aop serve`."


class WebhookUnauthorized(Refusal):
    """The webhook is not authenticated."""

    code = "webhook_unauthorized"
    move = Move.ASK_PERSON
    hint = "Send `X-API-KEY` with the secret, or one `X-Hub-Signature: sha256=...` over the exact bytes of the body."


class UnsupportedContentType(Refusal):
    """The body of the request is not sent as JSON."""

    code = "unsupported_content_type"
    move = Move.CORRECT_USAGE
    hint = "Send JSON as `Content-Type: application/json`."


class WebhookUnsupported(Refusal):
    """The webhook's content type or encoding is not supported."""

    code = "webhook_unsupported"
    move = Move.CORRECT_USAGE
    hint = "Send JSON as `Content-Type: application/json`, without `Content-Encoding`."


class WebhookTooLarge(Refusal):
    """The webhook is too large."""

    code = "webhook_too_large"
    hint = "Leave out fields: the ticket's key and description are enough."


class WebhookTooSlow(Refusal):
    """The webhook did not arrive completely in time."""

    code = "webhook_too_slow"
    move = Move.RETRY
    hint = "Send it again."


class WebhookMalformed(Refusal):
    """The webhook's body is not valid."""

    code = "webhook_malformed"
    move = Move.CORRECT_USAGE
    hint = "Send `webhookEvent`, `issue` with `key` and `fields`, and `changelog`."


class WebhookQueueFull(Refusal):
    """The queue of ticket work is full."""

    code = "webhook_queue_full"
    move = Move.RETRY
    hint = "Send it again later; `aop ticket runs` shows the queue."


class WebhookNotKept(Refusal):
    """The webhook could not be stored, for example on a full disk."""

    code = "webhook_not_kept"
    move = Move.RETRY
    hint = "Free space on the server's disk, and have the tracker send it again."


class TicketRunBusy(Refusal):
    """Another process works on this ticket run."""

    code = "ticket_run_busy"
    move = Move.WAIT
    hint = "See its progress with `aop ticket show RUN`."


# forge


class ForgeSupportMissing(Refusal):
    """This installation cannot parse sources, or cannot count tokens."""

    code = "forge_support_missing"
    move = Move.CORRECT_USAGE
    hint = "Install AOP with its extra `forge`: `pip install 'aop[forge]'`."


class UnknownRef(Refusal):
    """No branch, tag or commit has this name."""

    code = "unknown_ref"
    hint = "Name a branch, a tag or a commit of this repository; one without a commit needs its first."


class NothingToScan(Refusal):
    """The commit holds no file."""

    code = "nothing_to_scan"
    move = Move.PROVE
    hint = "Commit the sources first, or name another commit."


class NotScanned(Refusal):
    """The project has no deep scan that is complete."""

    code = "not_scanned"
    move = Move.PROVE
    hint = "A person scans the repository first, with `aop forge scan PROJECT`."


class UnknownPackage(Refusal):
    """The scan found no source file in this folder."""

    code = "unknown_package"
    hint = "See all packages with `aop forge map PROJECT`, and name a folder of those."

    def __init__(self, path: str, known: Iterable[str]) -> None:
        shown = ascii(path[:80])[1:-1]
        super().__init__(f"The scan has no source file in `{shown}`.{did_you_mean(path, known)}", path=shown)


class ContractRefused(Refusal):
    """The text is not a contract of its type; `problems` lists everything that is wrong with it."""

    code = "contract_refused"
    hint = "Correct every problem, and send the whole contract again."


class UnknownSection(Refusal):
    """The contract has no such section."""

    code = "unknown_section"
    hint = "Ask for one of `sections`, or leave `section` out to get the whole contract."


class UnknownForgeProject(Refusal):
    """There is no such project, or it belongs to another user."""

    code = "unknown_project"
    hint = "Correct the id; a person lists projects with `aop forge list`, and begins one with `aop forge new NAME`."

    def __init__(self, project_id: str, known: Iterable[str] = ()) -> None:
        shown = ascii(project_id[:80])[1:-1]
        super().__init__(f"There is no project `{shown}`.{did_you_mean(project_id, known)}", project_id=shown)


class UnknownForgeBuild(Refusal):
    """There is no such build, or its project belongs to another user."""

    code = "unknown_build"
    hint = "Correct the id. A person sees builds with `aop forge show PROJECT`, makes one with `aop forge pin PROJECT`."

    def __init__(self, build_id: str, known: Iterable[str] = ()) -> None:
        shown = ascii(build_id[:80])[1:-1]
        super().__init__(f"There is no build `{shown}`.{did_you_mean(build_id, known)}", build_id=shown)


class ForgeInvariantError(Refusal):
    """A build was about to write a branch that is not its own; nothing was written, and no setting allows it."""

    code = "forge_invariant"
    move = Move.ASK_PERSON
    hint = "A build writes branches whose name begins with `forge/build-`, and no others; merge its branch yourself."


class MergeNever(Refusal):
    """The feature is a build, and AOP never merges a build."""

    code = "merge_never"
    move = Move.ASK_PERSON
    hint = "Its branch is the deliverable: review it with `repo.diff`, and merge it with git where you want it."


class NotForABuild(Refusal):
    """The feature is a build, and changes only through the tools of builds."""

    code = "not_for_a_build"
    hint = "`aop forge status BUILD` shows the build, and `aop forge abandon BUILD` ends it."


class BuildActive(Refusal):
    """Another build of the project is active, and a project has one at a time."""

    code = "build_active"
    move = Move.WAIT
    hint = "Go on with that build (`aop forge status BUILD` shows it), or end it with `aop forge abandon BUILD`."


class BuildNotBegun(Refusal):
    """The build has pinned its contracts, and has no branch yet."""

    code = "build_not_begun"
    move = Move.PROVE
    hint = "Begin it with `aop forge build PROJECT`."


class BuildEnded(Refusal):
    """The build is sealed or abandoned, or all its phases are signed off: it takes no more work."""

    code = "build_ended"
    hint = "Its branch stays as it is. Begin another build of the project with `aop forge build PROJECT`."


class NothingToSeal(Refusal):
    """The branch of the build has no commit of the build, so there is nothing to seal."""

    code = "nothing_to_seal"
    move = Move.PROVE
    hint = "Let the build finish a task first, or end it with `aop forge abandon BUILD`."


class BuildUncommitted(Refusal):
    """The tree of the build is not the tree of its newest commit."""

    code = "build_uncommitted"
    move = Move.PROVE
    hint = "Let the build go on until its current task is committed, or end it with `aop forge abandon BUILD`."


class BuildNotSealed(Refusal):
    """The build has no seal yet."""

    code = "build_not_sealed"
    move = Move.PROVE
    hint = "Seal it with `aop forge seal BUILD`."


class BuildFeatureExists(Refusal):
    """A feature already has the id of the build."""

    code = "feature_exists"
    move = Move.ASK_PERSON
    hint = "Pin the contracts again with `aop forge pin PROJECT`, and begin that build: it has another id."


class BuildBranchMoved(Refusal):
    """The branch of a build is gone, or no longer has the commit where AOP left it."""

    code = "build_branch_moved"
    move = Move.ASK_PERSON
    hint = "Return the branch to the commit that the message names, or end the build with `aop forge abandon BUILD`."


class BuildCommitsConflict(Refusal):
    """Commits of people change the same lines as the work of a build that is not committed yet."""

    code = "build_commits_conflict"
    move = Move.ASK_PERSON
    hint = "Move these commits to another branch, or change them so that they leave these lines alone."


class ScanLocked(Refusal):
    """The newest scan is the baseline of another build."""

    code = "scan_locked"
    move = Move.PROVE
    hint = "Scan the repository again with `aop forge scan PROJECT`; the next build begins at the commit of that scan."


class ForgeFolderTracked(Refusal):
    """The commit has a folder `Forge/`, where a build shows its contracts."""

    code = "forge_folder_tracked"
    move = Move.ASK_PERSON
    hint = "Rename or remove that folder in a commit of your own."


class UnknownContractVersion(Refusal):
    """The contract has no such version."""

    code = "unknown_version"
    hint = "List the versions with `aop forge history PROJECT TYPE`, and name one of those."


class UnknownForgeKey(Refusal):
    """There is no such key, or it belongs to another user."""

    code = "unknown_key"
    hint = "List your keys (`aop forge key list`), and name the first 12 characters of one."


class ForgeProjectExists(Refusal):
    """A project of this name already exists."""

    code = "project_exists"
    hint = "Choose another name, or go on with the project that exists (`aop forge show PROJECT`)."


class ForgeProjectPinned(Refusal):
    """Builds read the contracts of the project, so it is not deleted."""

    code = "project_pinned"
    move = Move.ASK_PERSON
    hint = "End the work of these builds, then delete them too: `aop forge delete PROJECT --abandon-builds`."


class NoContracts(Refusal):
    """The project has no contracts yet."""

    code = "no_contracts"
    move = Move.PROVE
    hint = "Generate them with `aop forge generate PROJECT`."


class AnswersRefused(Refusal):
    """An answer does not fit its question; `problems` lists everything that is wrong, and no answer was stored."""

    code = "answers_refused"
    hint = "Correct every problem, and send the answers again; `aop forge ask PROJECT` lists the questions."


class ForgeKeyInvalid(Refusal):
    """The request has no key, or one that is unknown or revoked."""

    code = "forge_key_invalid"
    move = Move.ASK_PERSON
    hint = "A person makes a key with `aop forge key new`; send it in the header `Authorization: Bearer KEY`."


class ForgeKeyScopeMissing(Refusal):
    """The key does not open this."""

    code = "forge_key_scope_missing"
    move = Move.ASK_PERSON
    hint = "A person makes a key with the scope that the message names: `aop forge key new --scope SCOPE`."


class HostNotAllowed(Refusal):
    """The request names another server: a page of a foreign site was led here by its name."""

    code = "host_not_allowed"
    move = Move.CORRECT_USAGE
    hint = "Use the address that `aop serve` prints."


class OriginNotAllowed(Refusal):
    """The request comes from a page of another site."""

    code = "origin_not_allowed"
    move = Move.CORRECT_USAGE
    hint = "Send the request from a program, or from a page of this server."


class UnknownRoute(Refusal):
    """The server has nothing at this address."""

    code = "unknown_route"
    move = Move.CORRECT_USAGE
    hint = "Read the routes of this server at `/api/openapi.json`."


class MethodNotAllowed(Refusal):
    """The address exists, and does not take this method."""

    code = "method_not_allowed"
    move = Move.CORRECT_USAGE
    hint = "Use a method that the message names; `/api/openapi.json` describes each."


class TooManyRequests(Refusal):
    """A key or a build sends more requests than the server answers."""

    code = "too_many_requests"
    move = Move.WAIT
    hint = "Send it again after the seconds in `Retry-After`."


class UnknownScanRun(Refusal):
    """There is no such scan, or its project belongs to another user."""

    code = "unknown_scan_run"
    hint = "Correct the id: `aop forge show PROJECT` names the newest scan."

    def __init__(self, run_id: str) -> None:
        shown = ascii(run_id[:80])[1:-1]
        super().__init__(f"There is no scan `{shown}`.", run_id=shown)


class TerminalOnly(Refusal):
    """A person does this at the terminal; no key opens it."""

    code = "terminal_only"
    move = Move.ASK_PERSON
    hint = "A person runs the command that the message names."


# forge: the broker


class NoProjectInSession(Refusal):
    """The call names no project, and the session of its token has none."""

    code = "no_project_in_session"
    hint = "Name the project in `project_id`, or use a token made with `aop token ROLE --project P`."


class NoBuildInSession(Refusal):
    """The call names no build, and the session of its token has none."""

    code = "no_build_in_session"
    hint = "Use a token made with `aop token ROLE --build B`."


class BuildOnHold(Refusal):
    """The build is paused, stopped, or at its cap: nothing in it is changed until it goes on."""

    code = "build_on_hold"
    move = Move.ASK_PERSON
    hint = "Wait for a person: `aop forge status BUILD` says why it does not go on."


class OtherRolesTurn(Refusal):
    """Another role of the team works on the build now."""

    code = "other_roles_turn"
    move = Move.WAIT
    hint = "Wait for your turn: a coder calls `forge_report_progress` without an event."


class FileNotCited(Refusal):
    """The fixer may change only the files that its findings cite."""

    code = "file_not_cited"
    hint = "Change a cited file, or say in `fix_summary` that the finding cannot be repaired there."


class CommandNotAllowed(Refusal):
    """The command is not on the list of commands that a build may run."""

    code = "command_not_allowed"
    hint = "Begin it with one of the listed commands; a person adds others to `forge.build.commands` of the policy."


class ContractQuoted(Refusal):
    """A file repeats the prose of a contract, names a forge tool, or names the build."""

    code = "contract_quoted"
    hint = "Say it in your own words, without the contract's text, the names of forge's tools or the id of the build."


class UnknownContract(Refusal):
    """There is no contract of this name."""

    code = "unknown_contract"
    hint = "Ask for one of those that `forge_list_contracts` names."


class UnknownBatch(Refusal):
    """The project has no batch of this number."""

    code = "unknown_batch"
    hint = "Batches are numbered from 1 to the newest one."


class PhasesByWindow(Refusal):
    """The phases contract is read one phase at a time."""

    code = "phases_by_window"
    move = Move.CORRECT_USAGE
    hint = "Call `forge_get_phase_window` with the number of the phase."


class UnknownPhase(Refusal):
    """The project has no such phase."""

    code = "unknown_phase"
    hint = "Ask for a phase that exists; the first is 0."


class UnknownArtifact(Refusal):
    """There is no such artifact, or its time is over."""

    code = "unknown_artifact"
    hint = "Correct the type and the key; an artifact is kept for a day."


class UnknownNote(Refusal):
    """The scratchpad has no such key."""

    code = "unknown_note"
    hint = "Call `forge_scratchpad` with `list` for the keys that exist."


class UnknownBuildError(Refusal):
    """The build has no such error."""

    code = "unknown_build_error"
    hint = "Name an error as `aop forge errors BUILD` lists it."

    def __init__(self, build_id: str, error_id: str) -> None:
        shown = ascii(error_id[:80])[1:-1]
        super().__init__(f"The build `{build_id}` has no error `{shown}`.", build_id=build_id, error_id=shown)


class ErrorIsFatal(Refusal):
    """An error that ended a build cannot be dismissed."""

    code = "error_is_fatal"
    hint = "Find its cause and continue the build; it is resolved when its phase is complete without it."


class NoActiveBuild(Refusal):
    """The project has no build that takes work."""

    code = "no_active_build"
    move = Move.PROVE
    hint = "Begin a build with `aop forge build PROJECT`, or go on with one that `aop forge show PROJECT` lists."


class TooManyInterjections(Refusal):
    """So many texts wait for the model of a build that no other is taken."""

    code = "too_many_interjections"
    move = Move.WAIT
    hint = "Wait until the model has taken its next turn, then send the text again."


class ForgeUnreachable(Refusal):
    """Another AOP does not answer, or not as one does."""

    code = "forge_unreachable"
    move = Move.RETRY
    hint = "Check the address after `--forge`, and that `aop serve` runs there."


class UnknownClause(Refusal):
    """The contracts have no such clause."""

    code = "unknown_clause"
    hint = "Name a clause as `aop forge check PROJECT` lists it."


class NothingToAccept(Refusal):
    """The clause is not violated, so there is nothing to accept."""

    code = "nothing_to_accept"
    hint = "See the violated clauses with `aop forge check PROJECT`."


class AnswersIncomplete(Refusal):
    """Contracts cannot be generated before the questions are answered."""

    code = "answers_incomplete"
    move = Move.PROVE
    hint = "Answer the sections that the message names, then generate again."


class ScanNotCompleted(Refusal):
    """Contracts of a repository need a scan that is completed."""

    code = "scan_not_completed"
    move = Move.PROVE
    hint = "Scan the repository, then generate again."


class ScanNotDeep(Refusal):
    """Contracts of a repository need a deep scan."""

    code = "scan_not_deep"
    move = Move.PROVE
    hint = "Scan the repository, then generate again."


class RenovationPlanMissing(Refusal):
    """Contracts of a repository need a renovation plan."""

    code = "renovation_plan_missing"
    move = Move.PROVE
    hint = "Make the plan with `aop forge plan PROJECT`, then generate again."


class GenerationBusy(Refusal):
    """Another process generates the contracts of this project."""

    code = "generation_busy"
    move = Move.WAIT
    hint = "Wait until it has ended; `aop forge show PROJECT` shows the contracts then."


class BuildBusy(Refusal):
    """Another process works on this build."""

    code = "build_busy"
    move = Move.WAIT
    hint = "Wait until it has ended; `aop forge status BUILD` shows how far it is."


class BuildNotFinished(Refusal):
    """The model of a build failed, or a limit ended its work before the last phase."""

    code = "build_not_finished"
    move = Move.RETRY
    hint = "Build again: it goes on where it was, with the same model or another."


class ContractNotWritten(Refusal):
    """The model ended its work on a contract without a valid one."""

    code = "contract_not_written"
    move = Move.RETRY
    hint = "Generate again: the contracts that are finished are kept. Another model may do better."


class GenerationOutdated(Refusal):
    """The project changed while its contracts were written."""

    code = "generation_outdated"
    move = Move.RETRY
    hint = "Generate again."
