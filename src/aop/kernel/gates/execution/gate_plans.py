"""Gate plans: gate runs as decided before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.core.ids import FeatureId, TreeId
from aop.kernel.config.gates import Mode, Profile, Step
from aop.kernel.config.policy import Policy
from aop.kernel.features.installation import CheckoutExtras
from aop.kernel.features.worktree_extras import command_for
from aop.kernel.gates.execution.exact_trees import Kept
from aop.kernel.gates.reports.coverage import LARGEST_REPORT
from aop.kernel.gates.reports.verdict import Reports
from aop.kernel.ports.processes import Command
from aop.kernel.record.documents.gate_runs import Subject, TestChange
from aop.kernel.record.projections import folder_of


class GatePlan(Struct, frozen=True, kw_only=True):
    """A gate run as decided before anything runs."""

    feature_id: FeatureId
    profile_name: str
    profile: Profile
    mode: Mode
    steps: tuple[Step, ...]
    added: tuple[Step, ...] = ()
    """The steps of the feature's plan; they run after the reports are read, so that they cannot write them."""
    reports: Reports
    subject: Subject
    policy: Policy
    config_hash: str
    extras: CheckoutExtras = CheckoutExtras()
    """The extras of the checkout in which it runs."""
    own_definition: str = ""
    """The definition without what the feature's plan adds; empty if that adds nothing."""
    test_changes: tuple[TestChange, ...] = ()
    """The tests of the base that the feature's plan removes or changes."""
    set_up_tree: TreeId | None = None
    """The tree that a person is asked about if the set-up needs the network; None for that of the subject."""
    keeps_going: bool = False
    """Whether the steps after one that failed run too."""
    named_tests: tuple[str, ...] = ()
    """The tests whose outcome is looked up in the test report."""
    logs: str = ""
    """The folder of its logs, from the root of the repository; empty for that of the feature."""
    separates_errors: bool = False
    """Whether standard error has a log of its own, at `error_log`."""
    kept: Kept = "outputs"
    """What a step may find of what ran before it; a run that proves a feature keeps declared outputs alone."""
    lists_tests: bool = False
    """Whether the report is compared with the tests that the runner lists, where it can."""
    inputs: Mapping[str, bytes] = {}
    """Files that are written beside the tree before the first step."""

    def command(self, step: Step, checkout: Path, log_path: Path, *, extras: CheckoutExtras) -> Command:
        """Return the process of a step in a checkout."""
        command = command_for(
            self.policy.execution,
            extras,
            step.cmd,
            checkout,
            log_path=log_path,
            timeout_seconds=step.timeout_seconds,
            folder=step.cwd,
            env=step.env,
        )
        tests = self.reports.tests
        is_report = tests is not None and tests.step == step.name
        return msgspec.structs.replace(command, kept_output_bytes=LARGEST_REPORT + 1) if is_report else command

    @property
    def log_folder(self) -> str:
        """Return the folder of its logs, from the root of the repository."""
        return self.logs or f"{folder_of(self.feature_id)}/logs"
