"""Scope checks: changed paths, thin changes, evidence of deliverables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aop.core.ids import ObjectId, TreeId
from aop.core.text.counts import count
from aop.forge.builds.audit.audit_verdicts import AuditCheck, judged
from aop.forge.builds.audit.counts import counts_of, fallen
from aop.forge.builds.audit.deliverables import files_of, missing_paths, owner_of
from aop.forge.builds.audit.reach import files_reached
from aop.forge.builds.audit.subject import AuditSubject
from aop.kernel.ports.git import TreeChange

_PROVEN_BY_READING = (".md", ".txt", ".rst", ".json", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".css", ".html", ".svg")
"""Files that no test runs: a deliverable of these alone needs none."""
_UNTESTED_NAMES = frozenset(
    {"Dockerfile", "Makefile", "LICENSE", "Procfile", "Containerfile", ".gitignore", ".env.example"}
)


def check_scope(subject: AuditSubject) -> AuditCheck:
    """A1: each changed path belongs to a deliverable of this or an earlier phase."""
    claimed = {path for paths in subject.claims.values() for path in paths}
    vague = [each for each in subject.deliverables if not each.paths and each.text not in subject.claims]
    failures, doubts, inside = [], [], 0
    for change in subject.changes:
        if change.path in claimed or owner_of(change.path, subject.deliverables) is not None:
            inside += 1
        elif vague and change.kind == "create":
            doubts.append(f"{change.path} is named by no deliverable; `{vague[0].text}` names no path")
        else:
            failures.append(
                f"{change.path} belongs to no deliverable of the phases 0 to {subject.cycle.current.number}"
            )
    facts = [f"{inside} of {count(len(subject.changes), 'changed path')} belong to a deliverable"]
    return judged("A1", failures=failures, doubts=doubts, facts=facts)


def check_minimal_diff(subject: AuditSubject) -> AuditCheck:
    """A2: no rename, deletion or white-space change outside the deliverables, and no fewer files or migrations."""
    claimed = {path for paths in subject.claims.values() for path in paths}
    both = {change.path: change for change in (*subject.phase_changes, *subject.changes)}
    moved = {change.new.oid: change.path for change in both.values() if change.old is None and change.new is not None}
    failures = [
        told
        for path, change in both.items()
        if path not in claimed and owner_of(path, subject.deliverables) is None
        for told in _thin(change, moved, subject)
    ]
    failures += lost_counts(subject)
    now = counts_of(subject.code)
    facts = [f"{count(len(both), 'changed path')}; {now.files} files, {count(now.migrations, 'migration')}"]
    return judged("A2", failures=failures, facts=facts)


def _thin(change: TreeChange, moved: Mapping[ObjectId, str], subject: AuditSubject) -> list[str]:
    if change.old is not None and change.new is None:
        target = moved.get(change.old.oid)
        return [f"{change.path} was renamed to {target}" if target else f"{change.path} was deleted"]
    if change.old is None or change.new is None:
        return []
    if change.old.oid == change.new.oid:
        return [f"{change.path} changed its mode alone"]
    old, new = (b"".join(subject.objects.blob(side.oid).split()) for side in (change.old, change.new))
    return [f"{change.path} changed in white space alone"] if old == new else []


def lost_counts(subject: AuditSubject) -> list[str]:
    """Return the counts of files and migrations that fell since the baseline or the last sign-off."""
    now = counts_of(subject.code)
    lost = [*fallen(counts_of(subject.code_of(subject.baseline)), now, "the baseline")]
    if subject.cycle.sign_offs:
        last = subject.cycle.sign_offs[-1]
        lost += fallen(counts_of(subject.code_of(TreeId(last.tree))), now, f"the sign-off of phase {last.phase}")
    return lost


def check_evidence(subject: AuditSubject) -> AuditCheck:
    """A3: each deliverable has a file, and a test or a stated reason."""
    paths = subject.code.inventory.paths
    reached = files_reached(subject)
    failures, facts = [], []
    for each in subject.deliverables:
        claim = subject.claims.get(each.text, ())
        shown = tuple(path for path in claim if path in paths) or files_of(each, paths)
        reasons = tuple(text for text in claim if text not in paths and text.strip())
        lacking = missing_paths(each, paths)
        if lacking:
            failures.append(f"Phase {each.phase}: {', '.join(lacking)} does not exist (`{each.text}`)")
        elif not shown and not reasons:
            failures.append(f"Phase {each.phase}: no file shows `{each.text}`")
        elif tested := _tested(shown, reached, subject):
            facts.append(f"Phase {each.phase}: {shown[0] if shown else '-'}, {tested}")
        elif reasons:
            facts.append(f"Phase {each.phase}: without a test, because: {reasons[0][:200]}")
        else:
            failures.append(f"Phase {each.phase}: no test reaches {shown[0]} (`{each.text}`)")
    return judged("A3", failures=failures, facts=facts or ["The phase has no deliverable."])


def _tested(shown: Sequence[str], reached: Mapping[str, str], subject: AuditSubject) -> str:
    """Return what proves these files: a test among them, one that reaches them, or that none is needed."""
    tests = {source.path for source in subject.code.inventory.sources if source.is_test}
    found = next((path for path in shown if path in tests), "") or next(
        (reached[path] for path in shown if path in reached), ""
    )
    if found:
        return f"tested by {found}"
    if shown and all(is_proven_by_reading(path) for path in shown):
        return "which no test runs"
    return ""


def is_proven_by_reading(path: str) -> bool:
    """Tell whether a file is text or configuration, which tests do not run."""
    return path.endswith(_PROVEN_BY_READING) or path.rpartition("/")[2] in _UNTESTED_NAMES
