"""Code checks: syntax, boundaries and secrets."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from aop.core.paths.globs import matches
from aop.core.text.counts import count
from aop.core.text.json import MalformedText, parse_json
from aop.forge.builds.audit.audit_verdicts import AuditCheck, judged
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.check.clauses import Clause
from aop.forge.check.layer_clauses import layer_clauses
from aop.forge.check.verdicts import with_acceptances
from aop.forge.projects.documents import AcceptedClause
from aop.forge.scan.inventory import SourceFile
from aop.kernel.ports.git import FileMode

_COMMENTED_JSON = ("tsconfig", "jsconfig", ".eslintrc", "devcontainer")
"""Names of JSON files in which their programs allow comments."""


def check_syntax(subject: AuditSubject) -> AuditCheck:
    """A0: every file that the build changed parses, by a checker that is named."""
    sources = {each.path: each for each in subject.code.inventory.sources}
    checked: Counter[str] = Counter()
    failures, doubts = [], []
    for change in subject.changes:
        if change.new is None or change.new.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
            continue
        source = sources.get(change.path)
        checker, problem = _source_problem(source) if source else _data_problem(change.path, subject)
        checked[checker] += 1
        if problem:
            failures.append(f"{problem} ({checker})")
        elif source is not None and source.facts.problem:
            doubts.append(f"{change.path} was not parsed: {source.facts.problem}")
    facts = [f"{count(number, 'changed file')} read by {checker}" for checker, number in sorted(checked.items())]
    return judged("A0", failures=failures, doubts=doubts, facts=facts or ["The build changed no file."])


def _source_problem(source: SourceFile) -> tuple[str, str]:
    line = source.facts.error_line
    return f"the {source.language} grammar", f"{source.path}:{line} does not parse" if line else ""


def _data_problem(path: str, subject: AuditSubject) -> tuple[str, str]:
    name = path.rpartition("/")[2]
    is_json = name.endswith(".json") and not name.startswith(_COMMENTED_JSON)
    lines = subject.code.lines(path) if is_json or name.endswith(".toml") else None
    if lines is None:
        return "no checker: its kind has none", ""
    text = "\n".join(lines)
    try:
        if is_json:
            parse_json(text)
        else:
            tomllib.loads(text)
    except (MalformedText, tomllib.TOMLDecodeError, RecursionError) as problem:
        return "JSON" if is_json else "TOML", f"{path} cannot be read: {problem}"
    return "JSON" if is_json else "TOML", ""


def check_boundaries(subject: AuditSubject) -> AuditCheck:
    """A4: no line breaks a clause of the pinned boundaries; a violation of the baseline is a doubt."""
    clauses = boundary_clauses(subject)
    before = {proof.key for clause in _boundaries_before(subject, clauses) for proof in clause.proofs}
    failures: list[str] = []
    doubts: list[str] = []
    for clause in clauses:
        if clause.verdict == "unknown":
            doubts.append(f"{clause.clause}: {clause.detail}")
        elif clause.verdict == "violated":
            for proof in clause.proofs:
                told = f"{proof.file}:{proof.line}: {subject.call.kernel.redact.mask_secrets(clause.statement)}"
                (doubts if proof.key in before else failures).append(
                    f"{told} (already at the baseline)" if proof.key in before else told
                )
    holding = sum(clause.verdict in ("holds", "accepted") for clause in clauses)
    facts = [f"{holding} of {count(len(clauses), 'clause')} of the boundaries hold"]
    return judged("A4", failures=failures, doubts=doubts, facts=facts)


def boundary_clauses(subject: AuditSubject) -> tuple[Clause, ...]:
    """Return the clauses of all layers that have files; an empty layer cannot be violated."""
    boundaries = subject.contracts.boundaries
    if boundaries is None:
        return ()
    code = subject.code
    layers = tuple(each for each in boundaries.layers if any(matches(each.glob, path) for path in code.paths))
    accepted = {each.clause: each.lines for each in subject.view.all(AcceptedClause, f"{subject.cycle.project_id}/")}
    return with_acceptances(tuple(layer_clauses(replace(boundaries, layers=layers), code)), accepted)


def _boundaries_before(subject: AuditSubject, clauses: Sequence[Clause]) -> tuple[Clause, ...]:
    """Return the violations of the baseline, which is read only if there is one now."""
    if subject.contracts.boundaries is None or not any(clause.verdict == "violated" for clause in clauses):
        return ()
    found = layer_clauses(subject.contracts.boundaries, subject.code_of(subject.baseline))
    return tuple(clause for clause in found if clause.verdict == "violated")


def check_secrets(subject: AuditSubject) -> AuditCheck:
    """W1: no line that the build added looks like a secret."""
    redact, failures, lines = subject.call.kernel.redact, [], 0
    for path, added in added_lines(subject).items():
        lines += len(added)
        text = "\n".join(added.values())
        rules = sorted({finding.rule for finding in redact.secrets_in(text)})
        for rule in rules:
            places = [at for at, line in added.items() if any(hit.rule == rule for hit in redact.secrets_in(line))]
            failures.append(f"{path}:{places[0] if places else 1} looks like a secret ({rule})")
    return judged("W1", failures=failures, facts=[f"{count(lines, 'added line')} searched"])


def added_lines(subject: AuditSubject) -> Mapping[str, Mapping[int, str]]:
    """Return the lines of each file that the build added, by number; what is not text is left out."""
    before = subject.objects
    found: dict[str, Mapping[int, str]] = {}
    for change in subject.changes:
        lines = subject.code.lines(change.path) if change.new is not None else None
        if lines is None:
            continue
        old = before.blob(change.old.oid).decode("utf-8", "replace").splitlines() if change.old is not None else []
        known = Counter(old)
        added = {}
        for at, line in enumerate(lines, start=1):
            if known[line] > 0:
                known[line] -= 1
            else:
                added[at] = line
        found[change.path] = added
    return found
