"""Gate run documents: step results, verdicts and the test count of the base."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from aop.core.ids import CommitId, FeatureId, GateRunId, TreeId
from aop.core.structs import Part
from aop.kernel.record.documents.base import Document, NonEmpty


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
    left: tuple[str, ...] = ()
    """What it changed in the tree, or left beside it, besides its declared outputs; it was undone."""


class Subject(Struct, frozen=True, kw_only=True):
    """The subject of a verdict; another byte anywhere makes it another subject."""

    tree: TreeId
    base_commit: CommitId
    definition: str
    """The hash of the steps, parsers and thresholds that were run."""


class TestChange(Part, frozen=True, kw_only=True):
    """A test of the base that a feature removes, renames or contradicts; a whole file stands for all of its tests."""

    test: NonEmpty
    """The test by its name, or a file of tests: `tests/test_cart.py::test_total`, `tests/test_cart.py`."""
    reason: Annotated[str, Meta(min_length=5)]
    """Why it is no longer right."""


class BaseTestsRun(Struct, frozen=True, kw_only=True):
    """The tests of the base, run as the base has them on the code of a feature."""

    tree: TreeId
    """The code of the feature, with the tests, test helpers and test configuration of the base."""
    definition: str
    """Of the gates that ran, without what a plan adds."""
    steps: tuple[StepResult, ...]
    failed: tuple[str, ...] = ()
    """The tests that pass on the base, and do not pass so; at most 500."""
    failed_count: int = 0
    left_out: tuple[str, ...] = ()
    """The test files of the base that the plan names as a whole."""


class TestComparison(Struct, frozen=True, kw_only=True):
    """The tests of a run beside those of the base, by name."""

    passed_sha256: str
    """The digest of the sorted names of all tests that passed, one a line."""
    base_sha256: str
    """The digest of those that ran on the base."""
    removed: tuple[str, ...] = ()
    """The tests that ran on the base, and did not pass in this run; at most 500."""
    removed_count: int = 0
    added: tuple[str, ...] = ()
    """The tests that passed in this run, and did not run on the base; at most 500."""
    added_count: int = 0
    base_tests: BaseTestsRun | None = None
    """None where they did not run."""


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
    """The figures of the test report, the outcome of `named` tests, and the `comparison` with the base."""
    findings: tuple[str, ...] = ()
    """Warnings for a person, although the run passed."""
    sandbox_level: str
    machine: str = ""
    """The sandbox level and a hash of the programs that the steps started: elsewhere, the same gates run again."""
    worker: str | UnsetType = UNSET
    """The worker that ran it, on another machine than the record's; left out where none did."""
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
    """The tests that run on a commit of the base branch, by name: each must still pass on a feature."""

    kind: ClassVar[str] = "test_baseline"

    commit: CommitId
    definition: str
    """Of the gates that ran them, without what a plan adds: other steps run other tests."""
    ran: int | None
    """None when the gates of the base itself left no report: then there is nothing to compare with."""
    passed: tuple[str, ...] | None = None
    """The names of those that passed, sorted; one that ran twice stands there twice. None in a record from before
    names were compared: then they are measured again."""
    failed: tuple[str, ...] = ()
    """The names of those that ran and failed."""
    canaries: bool = False
    """Whether AOP's own tests answered as they must: where they do on the base, they must on a feature."""
    listed: bool = False
    """Whether the report has just the tests that the runner lists: where it has on the base, it must on a feature."""


class KnownFailure(Document, frozen=True, kw_only=True):
    """A person's note on a failure, shown with each occurrence of it; it makes no gate pass."""

    kind: ClassVar[str] = "known_failure"

    fingerprint: NonEmpty
    note: str
    marked_by: str
    marked_at: str
