"""Exact trees: checkouts in which each gate step begins on the very tree.

Code that one step runs could rewrite what the next one reads: files of the tree, caches, installed packages, reports.
After each step everything but the declared outputs is undone and named; what cannot be undone fails the step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from aop.core.ids import TreeId
from aop.core.text.counts import list_some
from aop.kernel.config.gates import Step
from aop.kernel.config.policy import Policy
from aop.kernel.features.installation import CheckoutExtras, changed_installation
from aop.kernel.features.worktree_extras import place_extras
from aop.kernel.gates.execution.canary_steps import FOLDER
from aop.kernel.gates.execution.step_results import StepRun
from aop.kernel.gates.reports.coverage import LARGEST_REPORT
from aop.kernel.gates.reports.verdict import MOST_REPORT_FILES
from aop.kernel.gateway.calls import Kernel
from aop.kernel.ports.git import Leavings

Kept = Literal["outputs", "ignored", "all"]
"""What a step may find of those before it: the outputs that they declare, also what git ignores, or all of it."""
MOST_NAMED = 20


class ExactTree:
    """A checkout of a tree during one gate run."""

    def __init__(
        self,
        kernel: Kernel,
        folder: Path,
        tree: TreeId,
        *,
        policy: Policy,
        extras: CheckoutExtras,
        kept: Kept,
        reports: Sequence[str],
    ) -> None:
        self._kernel = kernel
        self.folder = folder
        self._tree = tree
        self._policy = policy
        self._extras = extras
        self._kept = kept
        self._reports = tuple(reports)
        self._outputs: tuple[str, ...] = ()
        self._digests: Mapping[str, str | None] = {}

    def after(self, steps: Sequence[Step], runs: list[StepRun]) -> list[StepRun]:
        """Undo what steps that ran at the same time left, and return their runs with it, named at the last one."""
        if self._kept == "all" or not runs:
            return runs
        self._outputs += tuple(path for step in steps for path in step.outputs)
        reports = self._reports_now()
        problem = self._spoiled_report(reports) or self._spoiled_installation()
        tracked = self._tracked(reports)
        left = self._renew()
        self._put_back(reports, tracked)
        place_extras(self._kernel, self._tree, self.folder, self._policy.worktree)
        if len(steps) > 1 and left.changed:
            problem = f"steps that run at once may not change the tree, and {_shown(left.changed)} changed"
        return [*runs[:-1], _with_leavings(runs[-1], left, problem)]

    def restore(self) -> None:
        """Undo what ran after the reports were read."""
        if self._kept != "all":
            self._renew()
            place_extras(self._kernel, self._tree, self.folder, self._policy.worktree)

    def _renew(self) -> Leavings:
        return self._kernel.git.worktrees.renew(
            self.folder,
            self._tree,
            keep=(*self._extras.installed, *self._reports, *self._outputs),
            ignored=self._kept == "outputs",
        )

    def _reports_now(self) -> dict[str, str | None]:
        """Return the digests of the reports, by their paths from the root of the repository."""
        files = self._kernel.files
        patterns = [(self.folder / path).relative_to(files.root).as_posix() for path in self._reports]
        paths = [path for pattern in patterns for path in files.matching(pattern, limit=MOST_REPORT_FILES)]
        return {path: files.fingerprint(path) for path in paths}

    def _spoiled_report(self, reports: Mapping[str, str | None]) -> str:
        """Return how a report that an earlier step wrote was changed."""
        spoiled = [self._own_path(path) for path, digest in self._digests.items() if reports.get(path) != digest]
        self._digests = reports
        return f"it changed {_shown(spoiled)}, the report of an earlier step" if spoiled else ""

    def _tracked(self, reports: Iterable[str]) -> dict[str, bytes]:
        """Return the content of reports whose paths the tree has too."""
        objects, files = self._kernel.git.objects, self._kernel.files
        own = [path for path in reports if objects.entry(self._tree, self._own_path(path)) is not None]
        return {path: files.read(path, limit=LARGEST_REPORT) or b"" for path in own}

    def _put_back(self, reports: Collection[str], tracked: Mapping[str, bytes]) -> None:
        """Have the reports as the step left them: one of the tree speaks for no run."""
        for path in set(self._reports_now()).difference(reports):
            self._kernel.files.remove(path)
        for path, content in tracked.items():
            self._kernel.files.write(path, content, durable=False)

    def _own_path(self, path: str) -> str:
        return (self._kernel.files.root / path).relative_to(self.folder).as_posix()

    def _spoiled_installation(self) -> str:
        changed = changed_installation(self._kernel, self.folder, self._extras, self._policy)
        return f"it changed {_shown(changed)}, which the set-up installed" if changed else ""


def _with_leavings(run: StepRun, left: Leavings, problem: str) -> StepRun:
    names = [name for name in (*left.changed, *left.added) if name != f"{FOLDER}/"]
    more = (f"and {len(names) - MOST_NAMED} more",) if len(names) > MOST_NAMED else ()
    result = msgspec.structs.replace(run.result, left=(*names[:MOST_NAMED], *more))
    if problem and result.outcome == "passed":
        result = msgspec.structs.replace(result, outcome="failed", problem=problem)
    return msgspec.structs.replace(run, result=result)


def _shown(paths: Sequence[str]) -> str:
    return list_some([f"`{path}`" for path in paths])
