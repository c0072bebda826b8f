"""What a review shows, whatever it is shown on: the rows of a diff, the standing of a gate run, and warnings."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from aop.core.text.visible import escapes_in, is_deceptive, visible_name
from aop.kernel.features.opened_paths import YES, PathAnswer
from aop.kernel.gates.reports.coverage import Figure
from aop.kernel.gates.reports.measurements import TestReport
from aop.kernel.gates.summaries import RunSummary
from aop.kernel.plans.obligations.accounting import OBLIGATION_STATES
from aop.kernel.plans.obligations.review import ObligationReview
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.tools.repo.diff_bundle import DiffBundle, TouchedFile
from aop.kernel.tools.report.feature_summary import FeatureSummary

AGENT_TEXT = "The planner's words: AOP checked their form, not whether they are true."

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_HEADER = "diff --git "


class DiffRow(Struct, frozen=True, kw_only=True):
    """One line of a diff. Its mark is git's: `+`, `-`, a space, a backslash, `@` for a hunk; none for a header."""

    mark: str
    text: str
    old: int | None = None
    new: int | None = None

    @property
    def place(self) -> int | None:
        """Return the line of the file: the new one where the line is still there."""
        return self.new or self.old


def rows_of(lines: list[str]) -> Iterator[DiffRow]:
    """Number the lines of a file's part of a diff."""
    old = new = 0
    in_header = True
    for line in lines:
        hunk = _HUNK.match(line)
        if hunk:
            old, new, in_header = int(hunk[1]), int(hunk[2]), False
            yield DiffRow(mark="@", text=line)
        elif in_header or line.startswith(_HEADER):
            in_header = True
            yield DiffRow(mark="", text=line)
        elif line.startswith("\\"):
            yield DiffRow(mark="\\", text=line[2:])
        else:
            # Masking can take the mark of a line away with a secret; what is left of the line is still shown.
            mark, text = (line[0], line[1:]) if line.startswith(("+", "-", " ")) else (" ", line)
            is_old, is_new = mark != "+", mark != "-"
            yield DiffRow(mark=mark, text=text, old=old if is_old else None, new=new if is_new else None)
            old, new = old + is_old, new + is_new


def files_with_lines(bundle: DiffBundle) -> Iterator[tuple[TouchedFile, list[str]]]:
    """Return every touched file with what is shown of it."""
    lines = bundle.diff.split("\n")
    for file in bundle.files:
        yield file, lines[file.first_line : file.first_line + file.shown_lines]


def how_to_see_all(bundle: DiffBundle, file: TouchedFile) -> str:
    """Return the command that shows the whole diff of a file."""
    wanted = {"feature_id": bundle.feature_id, "options": {"paths": [file.path]}}
    return f"aop call repo.diff {shlex.quote(json.dumps(wanted))}"


def outcome_of(summary: FeatureSummary, run: RunSummary) -> Literal["passed", "failed", "stale"]:
    """Say what a run is worth now."""
    if run.verdict is not Verdict.PASS:
        return "failed"
    return "passed" if _still_holds(summary, run) else "stale"


def outcome_of_path(said: PathAnswer) -> str:
    """Say what became of a path that a worker asked for."""
    word = "opened for this feature" if said.answer == YES else "kept closed"
    return f"{word}, until it ended" if said.ended else word


def subject_of(summary: FeatureSummary, run: RunSummary) -> str:
    """Say what a run was about."""
    if run.tree != summary.state.tree:
        return "on the merged tree" if run.mode == "merge" else "on another tree"
    return "on this tree" if _still_holds(summary, run) else "on this tree, with other gates or another base"


def _still_holds(summary: FeatureSummary, run: RunSummary) -> bool:
    # What a merged feature was proven with stays true of it, whatever the gates become.
    return run.current or summary.state.status is Status.MERGED


def seconds_of(run: RunSummary) -> str:
    """Return how long a run's steps took."""
    return f"{sum(step.seconds for step in run.steps):.2f} s"


def figures_of(run: RunSummary) -> Iterator[tuple[str, str]]:
    """Return what a run counted and measured, by name."""
    if run.tests:
        tests = msgspec.convert(run.tests, TestReport)
        failed = tests.failures + tests.errors
        passed = tests.tests - failed - tests.skipped
        on_base = run.tests.get("ran_on_base")
        compared = "" if on_base is None else f"; {on_base} ran on the base"
        yield "tests", f"{passed} passed, {failed} failed, {tests.skipped} skipped{compared}"
    for name, value in run.coverage.items():
        figure = msgspec.convert(value, Figure)
        yield f"{name} coverage", "not measured" if figure.percent is None else f"{figure.percent} %"


WORD_OF_STANDING: Mapping[str, str] = {
    "unaccounted": "unaccounted for",
    "missing": "missing",
    "claimed": "claimed, not proven",
    "deferred": "deferred",
    "met": "met",
}


def obligation_counts(review: ObligationReview) -> str:
    """Say how many obligations there are of each standing, those that a reviewer must look at first."""
    counted = [f"{review.counts[standing]} {WORD_OF_STANDING[standing]}" for standing in OBLIGATION_STATES]
    return ", ".join(text for text in counted if not text.startswith("0 ")) or "none found in the spec"


def base_text(summary: FeatureSummary) -> str:
    """Say where the base branch is, and whether it moved since the feature was cut."""
    cut, head = summary.state.base_commit, summary.base_head
    if head is None:
        return f"{summary.base_branch} has no commit; the feature was cut at {cut}"
    if head == cut:
        return f"{summary.base_branch} at {cut}"
    return f"{summary.base_branch} at {head}; the feature was cut at {cut}"


def notes_of(file: TouchedFile) -> Iterator[str]:
    """Return what is special about a file, beside its lines."""
    if file.old_mode and file.new_mode and file.old_mode != file.new_mode:
        yield f"mode {file.old_mode} to {file.new_mode}"
    elif file.old_mode != file.new_mode and "100644" not in (file.old_mode, file.new_mode):
        yield f"mode {file.new_mode or file.old_mode}"
    if file.binary:
        yield "binary"
    if file.left_out_lines:
        yield f"{file.left_out_lines} lines not shown"


def warnings_of(summary: FeatureSummary, bundle: DiffBundle) -> Iterator[str]:
    """Say what a reviewer would overlook: findings of gates, deceptive characters, and lines that are not shown."""
    for run in bundle.gates.values():
        yield from (f"The {run.mode} gates: {finding}" for finding in run.findings)
    words = summary.agent_text
    if words and any(map(escapes_in, "\n".join((words.summary, *words.acceptance_criteria, *words.risk)).split("\n"))):
        yield "The plan's text holds characters that are invisible or imitate others; they are shown as escapes."
    if summary.obligations and summary.obligations.spec_changed:
        yield "The spec was changed after the plan was made for it."
    if summary.obligations and summary.obligations.left_out:
        yield f"The spec has {summary.obligations.left_out} more obligations than are listed."
    for file, lines in files_with_lines(bundle):
        name = visible_name(file.path)
        if is_deceptive(file.path):
            yield f"The name {name} holds characters that are invisible or imitate others."
        yield from _content_warnings(name, lines)
        if file.left_out_lines:
            yield f"{file.left_out_lines} lines of the diff of {name} are not shown."


def _content_warnings(name: str, lines: list[str]) -> Iterator[str]:
    # A carriage return at the end is how some systems end lines; it is shown, and deceives nobody.
    found = [(row, escapes) for row in rows_of(lines) if row.mark and (escapes := escapes_in(row.text.rstrip("\r")))]
    if found:
        count = sum(len(escapes) for _, escapes in found)
        kinds = ", ".join(sorted({escape for _, escapes in found for escape in escapes})[:5])
        first = found[0][0].place
        where = f" (the first in line {first})" if first else ""
        yield f"{name} holds characters that are invisible or imitate others: {count}{where}, shown as {kinds}."
