"""Review view: diff rows, gate outcomes and warnings, for page and terminal."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

import msgspec
from msgspec import Struct

from aop.core.text.counts import count
from aop.core.text.visible import deception_in, escapes_in, is_deceptive, visible_name
from aop.kernel.features.opened_paths import YES, PathAnswer
from aop.kernel.features.requests.change_requests import ChangeRequest
from aop.kernel.gates.base.behaviour import ChangedTest
from aop.kernel.gates.reports.coverage import Figure
from aop.kernel.gates.reports.measurements import TestReport
from aop.kernel.gates.summaries import RunSummary
from aop.kernel.merges.review_alerts import GuardedChange, LoweredCoverage
from aop.kernel.plans.obligations.accounting import OBLIGATION_STATES
from aop.kernel.plans.obligations.review import ObligationReview
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.tools.repo.diff_bundle import LONGEST_DIFF_LINE, DiffBundle, TouchedFile
from aop.kernel.tools.report.feature_summary import FeatureSummary

AGENT_TEXT = "Written by the planner. AOP checked the form, not the content."

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_HEADER = "diff --git "


class DiffRow(Struct, frozen=True, kw_only=True):
    """One line of a diff with git's mark: `+`, `-`, a space, a backslash, `@` for a hunk; empty for a header."""

    mark: str
    text: str
    old: int | None = None
    new: int | None = None
    cut: int = 0
    """The number of characters at its end that are not shown."""

    @property
    def place(self) -> int | None:
        """Return the line number in the new file, or else in the old one."""
        return self.new or self.old


def rows_of(lines: list[str]) -> Iterator[DiffRow]:
    """Return the lines of one file's diff, with line numbers."""
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
            # Masking a secret can remove the mark of a line; the rest of the line is still shown.
            mark, text = (line[0], line[1:]) if line.startswith(("+", "-", " ")) else (" ", line)
            is_old, is_new = mark != "+", mark != "-"
            yield DiffRow(mark=mark, text=text, old=old if is_old else None, new=new if is_new else None)
            old, new = old + is_old, new + is_new


def files_with_lines(bundle: DiffBundle) -> Iterator[tuple[TouchedFile, list[str]]]:
    """Return each touched file with its shown lines."""
    lines = bundle.diff.split("\n")
    for file in bundle.files:
        yield file, lines[file.first_line : file.first_line + file.shown_lines]


def rows_of_file(file: TouchedFile, lines: list[str]) -> Iterator[DiffRow]:
    """Return the rows of a file's shown lines; those of long lines say how much of them is missing."""
    lengths = {each.line - file.first_line: each.length for each in file.cut_lines}
    for at, (line, row) in enumerate(zip(lines, rows_of(lines), strict=True)):
        yield msgspec.structs.replace(row, cut=lengths[at] - len(line)) if at in lengths else row


def is_partly_shown(file: TouchedFile) -> bool:
    """Tell whether the diff of a file has lines, or parts of lines, that are not shown."""
    return bool(file.left_out_lines or file.cut_lines)


def omitted_text(file: TouchedFile) -> str:
    """Return how much of the diff of a file is not shown; empty if all is."""
    more = [count(file.left_out_lines, "more line")] if file.left_out_lines else []
    cut = [f"a line of {each.length:,} characters is cut" for each in file.cut_lines[:1]]
    cut = cut if len(file.cut_lines) < 2 else [f"{len(file.cut_lines)} long lines are cut"]
    return "; ".join((*more, *cut))


def subject_of_request(request: ChangeRequest) -> str:
    """Return the part of the feature that a request is about."""
    if request.kind == "rejection":
        return "another approach"
    lines = f", lines {request.lines}" if "-" in request.lines else f", line {request.lines}" if request.lines else ""
    return f"{visible_name(request.file)}{lines}" if request.file else "changes"


def diff_command(bundle: DiffBundle, file: TouchedFile) -> str:
    """Return the command that shows the whole diff of a file."""
    wanted = {"feature_id": bundle.feature_id, "options": {"paths": [file.path]}}
    return f"aop call repo.diff {shlex.quote(json.dumps(wanted))}"


def outcome_of(summary: FeatureSummary, run: RunSummary) -> Literal["passed", "failed", "stale"]:
    """Return the outcome of a run for the current tree and gates."""
    if run.verdict is not Verdict.PASS:
        return "failed"
    return "passed" if _still_holds(summary, run) else "stale"


def outcome_of_path(answer: PathAnswer) -> str:
    """Return the outcome of a request to open a guarded path."""
    word = "opened for this feature" if answer.answer == YES else "kept closed"
    return f"{word}, until it ended" if answer.ended else word


def subject_of(summary: FeatureSummary, run: RunSummary) -> str:
    """Return the tree that a run checked, in words."""
    if run.tree != summary.state.tree:
        return "on the merged tree" if run.mode == "merge" else "on another tree"
    return "on this tree" if _still_holds(summary, run) else "on this tree, with other gates or another base"


def _still_holds(summary: FeatureSummary, run: RunSummary) -> bool:
    # The runs of a merged feature stay valid when the gates change.
    return run.current or summary.state.status is Status.MERGED


def seconds_of(run: RunSummary) -> str:
    """Return the time of a run's steps."""
    return f"{sum(step.seconds for step in run.steps):.2f} s"


def figures_of(run: RunSummary) -> Iterator[tuple[str, str]]:
    """Return the test counts and coverage of a run, by name."""
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


BEHAVIOUR = "Tests of the base that this feature changes"


def told_change(each: ChangedTest) -> str:
    """Return what became of a test of the base, in words."""
    if each.change == "renamed":
        return f"renamed to {each.renamed_to}"
    return {
        "removed": "does not run and pass any more",
        "changed": "does not pass as the base has it",
        "planned": "named in the plan; no run shows a change of it",
    }[each.change]


def reason_for_change(each: ChangedTest) -> str:
    """Return the planner's reason for a change."""
    return f"Reason of the plan: {each.reason}" if each.reason else "The plan does not name it."


def side_by_side(old: str, new: str) -> Iterator[tuple[str, str, bool]]:
    """Return the lines of two texts in pairs, and whether they are equal."""
    before, after = old.splitlines(), new.splitlines()
    for kind, first, last, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for left, right in zip_longest(before[first:last], after[start:end], fillvalue=""):
            yield left, right, kind == "equal"


WORD_OF_STANDING: Mapping[str, str] = {
    "unaccounted": "unaccounted for",
    "missing": "missing",
    "claimed": "claimed, not proven",
    "deferred": "deferred",
    "met": "met",
}


def obligation_counts(review: ObligationReview) -> str:
    """Return the number of obligations in each state, the most urgent first."""
    counted = [f"{review.counts[standing]} {WORD_OF_STANDING[standing]}" for standing in OBLIGATION_STATES]
    return ", ".join(text for text in counted if not text.startswith("0 ")) or "none found in the spec"


def base_text(summary: FeatureSummary) -> str:
    """Return the commit of the base branch, and the commit that the feature started from."""
    cut, head = summary.state.base_commit, summary.base_head
    if head is None:
        return f"{summary.base_branch} has no commit; the feature started at {cut}"
    if head == cut:
        return f"{summary.base_branch} at {cut}"
    return f"{summary.base_branch} at {head}; the feature started at {cut}"


def notes_of(file: TouchedFile) -> Iterator[str]:
    """Return notes on a file: its mode, binary content, omitted lines."""
    if file.old_mode and file.new_mode and file.old_mode != file.new_mode:
        yield f"mode {file.old_mode} to {file.new_mode}"
    elif file.old_mode != file.new_mode and "100644" not in (file.old_mode, file.new_mode):
        yield f"mode {file.new_mode or file.old_mode}"
    if file.binary:
        yield "binary"
    if file.left_out_lines:
        yield f"{count(file.left_out_lines, 'line')} not shown"
    if file.cut_lines:
        yield f"{count(len(file.cut_lines), 'long line')} cut"


def viewed_text(bundle: DiffBundle) -> str:
    """Return how many of the changed files a person has viewed as they are now."""
    return f"{sum(bool(file.viewed_by) for file in bundle.files)} of {count(len(bundle.files), 'file')} viewed"


def warnings_of(summary: FeatureSummary, bundle: DiffBundle) -> Iterator[str]:
    """Return warnings: findings of gates, guarded files, lowered coverage, deceptive characters, omitted lines."""
    for run in bundle.gates.values():
        yield from (f"The {run.mode} gates: {finding}" for finding in run.findings)
    yield from map(_guarded_text, summary.guarded_changes)
    yield from map(_coverage_text, summary.lowered_coverage)
    words = summary.agent_text
    if words and any(map(escapes_in, "\n".join((words.summary, *words.acceptance_criteria, *words.risk)).split("\n"))):
        yield "The plan has characters that are invisible or imitate others; they are shown as escapes."
    if summary.obligations and summary.obligations.spec_changed:
        yield "The spec changed after the plan was submitted."
    if summary.obligations and summary.obligations.left_out:
        yield f"The list omits {count(summary.obligations.left_out, 'obligation')} of the spec."
    yield from _file_warnings(bundle)


def _guarded_text(change: GuardedChange) -> str:
    by = f"; opened by {change.opened_by}" if change.opened_by else ""
    return f"{visible_name(change.path)} is changed: {change.why}{by}."


def _coverage_text(figure: LoweredCoverage) -> str:
    return f"The {figure.name} coverage is {figure.now} %; it was {figure.before} % on the base."


def _file_warnings(bundle: DiffBundle) -> Iterator[str]:
    for file, lines in files_with_lines(bundle):
        name = visible_name(file.path)
        if is_deceptive(file.path):
            yield f"The name {name} has characters that are invisible or imitate others."
        if deception := deception_in((row.place, row.text) for row in rows_of(lines) if row.mark):
            yield f"{name} has {deception}."
        if file.left_out_lines:
            yield f"{count(file.left_out_lines, 'line')} of the diff of {name} not shown."
        for each in file.cut_lines:
            yield f"A line of {name} has {each.length:,} characters; its first {LONGEST_DIFF_LINE:,} are shown."
