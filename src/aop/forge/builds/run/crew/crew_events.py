"""Crew events: what those who follow a team's build are told of audits and fixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from aop.core.errors import Json, Refusal
from aop.core.ids import TreeId
from aop.forge.builds.documents import BuildCycle, SignedOff
from aop.forge.builds.machine.crew_step import blocking_in
from aop.forge.builds.machine.decisions import Decision
from aop.forge.builds.machine.events import Audited, Event, Fixed
from aop.kernel.gateway.calls import Kernel
from aop.kernel.ports.git import TreeChange
from aop.reviews.diff_lines import shown_lines
from aop.reviews.report import CheckedReport, Finding


def judged_sign_off(cycle: BuildCycle, event: Event) -> SignedOff | None:
    """Return the sign-off that an event has to be judged by; None if it needs no proof."""
    if isinstance(event, SignedOff):
        return event
    return cycle.current.crew.said if isinstance(event, Audited | Fixed) else None


def phase_diff(kernel: Kernel, cycle: BuildCycle, tree: TreeId) -> str:
    """Return what the current phase changed so far, as a diff."""
    return kernel.git.objects.diff(_start_tree(kernel, cycle), tree).decode(errors="replace")


def phase_lines(kernel: Kernel, cycle: BuildCycle, tree: TreeId) -> Mapping[str, Set[int]]:
    """Return the lines of each file that the diff of the current phase shows; of a diff that is too large, all."""
    try:
        return shown_lines(phase_diff(kernel, cycle, tree))
    except Refusal:
        changes = kernel.git.objects.changes(_start_tree(kernel, cycle), tree)
        return {change.path: _all_lines(kernel, change) for change in changes}


def _start_tree(kernel: Kernel, cycle: BuildCycle) -> TreeId:
    return cycle.current.start_tree or kernel.git.objects.tree_of(cycle.baseline_sha)


def _all_lines(kernel: Kernel, change: TreeChange) -> Set[int]:
    lines = 0 if change.new is None else kernel.git.objects.blob(change.new.oid).count(b"\n") + 1
    return frozenset(range(1, lines + 1))


def crew_events(before: BuildCycle, decision: Decision) -> Iterator[tuple[str, dict[str, Json]]]:
    """Return the events of a decision about an audit or a fix, each with its payload."""
    if decision.audit is not None:
        held = decision.audit
        wrong = {each.file_path for each in blocking_in(held.report)}
        for path in sorted(decision.audited_paths):
            found: list[Json] = [_finding(each) for each in held.report.findings if each.file_path == path]
            yield "file_audited", {"path": path, "verdict": "fail" if path in wrong else "pass", "findings": found}
        for message in _outside(held):
            yield "build_log", {"level": "warn", "source": "aop", "message": message}
    if decision.fix_summary is not None:
        cited: list[Json] = [*sorted({each.file_path for each in before.current.crew.findings})]
        facts: dict[str, Json] = {"attempt": before.current.crew.fixes + 1, "passed": not decision.missing}
        yield "fix_attempt_result", {**facts, "paths": cited, "fix_summary": decision.fix_summary}


def _outside(held: CheckedReport) -> Iterator[str]:
    """Name the findings that the diff does not bear out."""
    for each in held.dropped:
        yield f"A finding of the auditor is left out: the phase does not change `{each.file_path}`."
    for each in held.unanchored:
        yield f"A finding of the auditor is about `{each.file_path}`: the diff does not show line {each.line_number}."


def _finding(found: Finding) -> dict[str, Json]:
    return {"line": found.line_number, "severity": found.severity.value, "message": found.description}
