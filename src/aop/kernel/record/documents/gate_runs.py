"""Gate run documents: step results, verdicts and the test count of the base."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

from msgspec import Struct

from aop.core.ids import CommitId, FeatureId, GateRunId, TreeId
from aop.kernel.record.documents.base import Document


class Verdict(StrEnum):
    """The state of a gate: passed, failed, or unknown for the current tree."""

    PASS = "pass"
    FAIL = "fail"
    NA = "na"


class StepResult(Struct, frozen=True, kw_only=True):
    """The result of one gate step."""

    name: str
    command: tuple[str, ...]
    outcome: Literal["passed", "failed", "timed_out", "not_started", "out_of_memory"]
    exit_code: int | None
    seconds: float
    attempts: int
    log_path: str
    log_sha256: str = ""
    """The digest of the log, so that a log that was changed proves nothing."""
    problem: str = ""


class Subject(Struct, frozen=True, kw_only=True):
    """The subject of a verdict; another byte anywhere makes it another subject."""

    tree: TreeId
    base_commit: CommitId
    definition: str
    """The hash of the steps, parsers and thresholds that were run."""


class GateRun(Document, frozen=True, kw_only=True):
    """One run of one mode of a gate profile on one tree."""

    kind: ClassVar[str] = "gate_run"

    run_id: GateRunId
    feature_id: FeatureId
    profile: str
    mode: str
    subject: Subject
    config_hash: str
    verdict: Verdict
    failure_code: str = ""
    failure: str = ""
    steps: tuple[StepResult, ...]
    coverage: Mapping[str, Any] = {}
    tests: Mapping[str, Any] = {}
    findings: tuple[str, ...] = ()
    """Warnings for a person, although the run passed."""
    sandbox_level: str
    machine: str = ""
    """The sandbox level and a hash of the programs that the steps started: elsewhere, the same gates run again."""
    started_at: str
    finished_at: str


class BaseVerdict(Document, frozen=True, kw_only=True):
    """Whether gates pass on a tree of the base branch: a run of agents begins only where they do."""

    kind: ClassVar[str] = "base_verdict"

    tree: TreeId
    definition: str
    """Of the gates that ran."""
    passed: bool
    failure: str = ""
    """Why they did not pass."""
    machine: str = ""
    """The programs that decided it."""
    accepted_by: str = ""
    """The person who began work although they fail; empty if nobody did."""


class TestBaseline(Document, frozen=True, kw_only=True):
    """How many tests run on a commit of the base branch: what a feature must not fall below."""

    kind: ClassVar[str] = "test_baseline"

    commit: CommitId
    definition: str
    """Of the gates that counted them: other steps count other tests."""
    ran: int | None
    """None when the gates of the base itself left no report: then there is nothing to compare with."""
