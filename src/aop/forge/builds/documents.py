"""Documents of builds: cycles, phases, sign-offs, errors, notes and seals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from aop.core.ids import CommitId, TreeId
from aop.forge.contracts.types import BuildMode, ContractType
from aop.forge.projects.documents import LOCAL_USER, BuildId, ProjectId
from aop.kernel.record.documents.base import Document, NonEmpty, Positive
from aop.kernel.record.documents.features import BUILD_BRANCHES
from aop.reviews.report import CodeReviewReport, Finding

BRANCH_PREFIX = BUILD_BRANCHES
"""The only branches that a build writes, here and at a remote (FORGE-192)."""

CycleStatus = Literal["active", "sealing", "sealed", "abandoned"]
Crew = Literal["solo", "team"]
StopCode = Literal[
    "EVIDENCE_MISSING",
    "AMBIGUOUS_INTENT",
    "CONTRACT_CONFLICT",
    "RISK_EXCEEDS_SCOPE",
    "NON_DETERMINISTIC_BEHAVIOR",
    "ENVIRONMENT_LIMITATION",
]
Hold = Literal["", "paused", "stopped", "cost_cap", "silent"]
"""Why an active cycle does not go on: a person paused it, a STOP, its cap, or no sign of life."""
CountedBy = Literal["report", "tree"]
Stage = Literal["scout", "code", "audit", "fix"]
"""The part of a phase that a team is at: each belongs to one role."""


class PlanTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One numbered task of a phase's plan."""

    number: int
    """Its number in the plan."""
    text: str
    """The work, in words."""


class RefusedSignOff(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sign-off that was said and did not count, with everything that was missing."""

    phase: int
    tree: TreeId
    reasons: tuple[str, ...]
    at: NonEmpty


class SignOff(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A phase that counts as done: the tree, and the proof that was made on it."""

    phase: int
    name: str
    tree: TreeId
    commit: CommitId
    gate_run_id: NonEmpty
    tests: int
    counted_by: CountedBy
    deliverables: Mapping[str, tuple[str, ...]] = {}
    """For each deliverable, the paths that show it."""
    at: NonEmpty


class Evidence(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files, or the reason, that a sign-off names for one deliverable."""

    deliverable: int
    """Its place in the list of the phase, from 1."""
    paths: tuple[str, ...] = ()
    """The files that show it, its tests among them."""
    no_test_because: str = ""
    """Why it has no test; empty if it has one."""


class SignedOff(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sign_off"):
    """A phase is said to be done."""

    phase: int
    """The phase that the sign-off names."""
    tests: str = ""
    """The result of the tests as it claims; only `PASS` counts."""
    evidence: tuple[Evidence, ...] = ()
    """Its evidence for each deliverable."""


class ContractFinding(Finding, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding of the auditor: a place that violates a contract."""

    contract: ContractType
    """The contract that is violated."""
    section: Annotated[str, Meta(min_length=1, max_length=200)]
    """Its heading, or a JSON pointer such as `/layers/0`."""


class AuditReport(CodeReviewReport, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The report of the auditor on a phase."""

    findings: Annotated[tuple[ContractFinding, ...], Meta(max_length=100)] = ()
    """Violations of contracts, each with its contract and section."""


class CrewProgress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The work of a team on the current phase."""

    stage: Stage = "scout"
    scout_report: str = ""
    """The report of the scout, as JSON; empty if it handed in none."""
    told: str = ""
    """News for the role that works now: what is missing, what was repaired."""
    claimed: SignedOff | None = None
    """A sign-off that a host handed in, and that is not judged yet."""
    claims: int = 0
    """The number of sign-offs that hosts handed in."""
    said: SignedOff | None = None
    """The sign-off that is proven, and that the auditor looks at."""
    findings: tuple[ContractFinding, ...] = ()
    """The findings that the fixer repairs."""
    fixes: int = 0
    """The times that the fixer worked on findings of this phase."""


class PhaseProgress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The phase that is being built."""

    number: int = 0
    start_tree: TreeId | None = None
    start_commit: CommitId | None = None
    plan: tuple[PlanTask, ...] = ()
    done: tuple[int, ...] = ()
    """The numbers of the tasks that were said to be done, and are committed."""
    attempts: Mapping[str, int] = {}
    """For each reason of a refusal, how often it came up."""
    crew: CrewProgress = CrewProgress()


class Stop(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A STOP: its code, its reason, and the question that a person was asked."""

    code: StopCode
    reason: str
    question_id: str = ""


class BuildCycle(Document, frozen=True, kw_only=True):
    """A pinned build that has begun: a feature of the kernel under the same id. Key: the build id."""

    kind: ClassVar[str] = "build_cycle"

    build_id: BuildId
    project_id: ProjectId
    owner: NonEmpty = LOCAL_USER
    crew: Crew = "solo"
    mode: BuildMode = "full"
    status: CycleStatus = "active"
    branch: NonEmpty
    baseline_sha: CommitId
    scan_run: str = ""
    """The scan whose commit is the baseline; empty for a project that was never scanned."""
    head: CommitId
    """The commit of the branch as AOP left it; people may have added others since."""
    published: str = ""
    """The commit of the branch that was last pushed; empty if none was."""
    publish_problem: str = ""
    """Why the last push failed; empty if it did not."""
    phases: tuple[str, ...] = ()
    """The names of the pinned phases; their numbers begin at 0."""
    current: PhaseProgress = PhaseProgress()
    sign_offs: tuple[SignOff, ...] = ()
    refused: tuple[RefusedSignOff, ...] = ()
    hold: Hold = ""
    hold_reason: str = ""
    stop: Stop | None = None
    questions: int = 0
    """The number of questions that were put to people."""
    interjections: tuple[str, ...] = ()
    """The texts that a person sent and the model was not shown yet."""
    note_shown: str = ""
    """The digest of the note as the model was last told of it."""
    compactions: int = 0
    cost_usd: float = 0
    cost_warned: bool = False
    cap_raises: int = 0
    """The times that a person let it go on at its cap; each allows as much again."""
    created_at: NonEmpty
    updated_at: NonEmpty
    sealed_at: str = ""
    seal_id: str = ""
    reason: str = ""
    """Why it was abandoned."""


class BuildError(Document, frozen=True, kw_only=True):
    """An error of a build; the same error counts up. Key: `build_error_key`."""

    kind: ClassVar[str] = "build_error"

    error_id: NonEmpty
    build_id: BuildId
    fingerprint: NonEmpty
    source: NonEmpty = "build_log"
    severity: Literal["error", "fatal"] = "error"
    phase: int | None = None
    file_path: str = ""
    message: NonEmpty
    occurrence_count: Positive = 1
    first_seen: NonEmpty
    last_seen: NonEmpty
    resolved: bool = False
    resolved_at: str = ""
    resolution_method: Literal["", "auto-fix", "phase-complete", "dismissed"] = ""
    resolution_summary: str = ""


class SealDimension(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the nine dimensions of a seal."""

    score: float
    """0 to 100; 0 if it is unknown."""
    weight: float
    """Its part of the whole score."""
    known: bool = True
    """Whether it could be computed."""
    formula: str
    """The computation of the score from the figures, in words."""
    figures: Mapping[str, Any] = {}
    """The figures, by name."""
    evidence: tuple[str, ...] = ()
    """The ids of gate runs, documents and events that the figures were read from."""
    delta: float | None = None
    """The difference to the baseline; None if the baseline has no figure."""


class Seal(Document, frozen=True, kw_only=True):
    """The signed findings on a build. Key: the seal id."""

    kind: ClassVar[str] = "seal"

    seal_id: NonEmpty
    """The seal."""
    build_id: BuildId
    """The build."""
    project_id: ProjectId
    """The project."""
    commit: CommitId
    """The last commit of the branch, which changes no file."""
    tree: TreeId
    """The sealed tree."""
    batch: Positive
    """The batch of contracts that the build read."""
    batch_sha256: NonEmpty
    """The digest of that batch."""
    gate_runs: tuple[str, ...] = ()
    """The gate runs that it rests on."""
    audit: Mapping[str, str] = {}
    """The verdict of each check of the audit, by code."""
    dimensions: Mapping[str, SealDimension] = {}
    """The nine dimensions, by name."""
    score: float
    """The weighted sum of the dimensions, 0 to 100."""
    verdict: Literal["CERTIFIED", "CONDITIONAL", "FLAGGED"]
    """`CERTIFIED` from 90, `CONDITIONAL` from 70, else `FLAGGED`; a check that fails keeps it from `CERTIFIED`."""
    reasons: tuple[str, ...] = ()
    """Why the verdict is not better than it is, and why the score is not 100."""
    signature: str = ""
    """HMAC-SHA256 over the canonical JSON of everything else."""
    sealed_at: NonEmpty
    """When it was sealed."""


def build_error_key(build_id: str, fingerprint: str) -> str:
    """Return the key of an error: there is one for each fingerprint of a build (FORGE-174)."""
    return f"{build_id}/{fingerprint}"


def branch_of(build_id: str) -> str:
    """Return the branch of a build."""
    return f"{BRANCH_PREFIX}{build_id}"
