"""Dimensions of a seal: nine scores from 0 to 100, with formula and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from aop.core.ids import TreeId
from aop.core.text.counts import count
from aop.forge.builds.audit.audit_verdicts import AuditCheck
from aop.forge.builds.audit.checks.code_checks import boundary_clauses
from aop.forge.builds.audit.checks.route_checks import due_endpoints
from aop.forge.builds.audit.reach import files_reached, modules_of, naming_test
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.builds.documents import BuildError, SealDimension
from aop.forge.builds.seal.history import HistoryFigures, history_figures
from aop.forge.scan.file_facts import UNKNOWN
from aop.forge.scan.findings.architecture import architecture_of
from aop.forge.scan.findings.dependencies import packages_of
from aop.kernel.features.opened_paths import path_answers
from aop.kernel.record.documents.gate_runs import Verdict

WEIGHTS: Mapping[str, float] = {
    "build_integrity": 0.15,
    "test_coverage": 0.15,
    "reliability": 0.15,
    "audit_compliance": 0.10,
    "governance": 0.10,
    "security": 0.10,
    "consistency": 0.10,
    "architecture": 0.10,
    "cost_efficiency": 0.05,
}
"""The nine dimensions and their weights, which sum up to 1."""

ERROR_COSTS, STOP_COSTS, REFUSAL_COSTS, CYCLE_COSTS, GRANT_COSTS = 20, 10, 5, 10, 5
UNPINNED_SHARE = 30
"""The points that unpinned dependencies can cost together."""


class Scored(Struct, frozen=True, kw_only=True):
    """A score with all that it was computed from; None where nothing is known."""

    score: float | None
    formula: str
    figures: Mapping[str, Any] = {}
    evidence: tuple[str, ...] = ()
    before: float | None = None
    """The score of the baseline; None if it has none."""


class SealSubject(Struct, frozen=True, kw_only=True):
    """The audited tree that is sealed."""

    audit: AuditSubject
    checks: Mapping[str, AuditCheck]

    def passed(self, code: str) -> bool:
        """Tell whether a check passed."""
        return self.checks[code].verdict == "PASS"


def dimensions_of(subject: SealSubject) -> dict[str, SealDimension]:
    """Return the nine dimensions, in the order of their weights."""
    history = history_figures(subject.audit)
    scorers: Mapping[str, Callable[[], Scored]] = {
        "build_integrity": lambda: _build_integrity(subject),
        "test_coverage": lambda: _test_coverage(subject.audit),
        "reliability": lambda: _reliability(subject, history),
        "audit_compliance": lambda: _audit_compliance(subject),
        "governance": lambda: _governance(history),
        "security": lambda: _security(subject),
        "consistency": lambda: _consistency(subject.audit),
        "architecture": lambda: _architecture(subject.audit),
        "cost_efficiency": lambda: _cost_efficiency(subject.audit),
    }
    return {name: _dimension(name, scorers[name]()) for name in WEIGHTS}


def total_score(dimensions: Mapping[str, SealDimension]) -> float:
    """Return the weighted sum, from 0 to 100."""
    return round(sum(each.score * each.weight for each in dimensions.values()), 1)


def _dimension(name: str, scored: Scored) -> SealDimension:
    score = 0.0 if scored.score is None else round(min(100.0, max(0.0, scored.score)), 1)
    known = scored.score is not None
    delta = None if scored.before is None or not known else round(score - scored.before, 1)
    return SealDimension(
        score=score,
        weight=WEIGHTS[name],
        known=known,
        formula=scored.formula,
        figures=scored.figures,
        evidence=scored.evidence,
        delta=delta,
    )


def _share(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def unsigned_phases(audit: AuditSubject) -> int:
    """Return the number of phases without a sign-off that holds for the sealed commit."""
    return len(audit.phases.phases) - len(_signed_phases(audit))


def _signed_phases(audit: AuditSubject) -> set[int]:
    cycle, objects = audit.cycle, audit.objects
    return {
        each.phase
        for each in cycle.sign_offs
        if objects.is_ancestor(each.commit, cycle.head) and (each is not cycle.sign_offs[-1] or each.tree == audit.tree)
    }


def _build_integrity(subject: SealSubject) -> Scored:
    audit, signed = subject.audit, _signed_phases(subject.audit)
    phases, whole = len(audit.phases.phases), subject.passed("W2")
    share = _share(len(signed), phases)
    return Scored(
        score=share if whole or share is None else 0.0,
        formula="100 x phases signed off on ancestors of the sealed commit, the last one on the sealed tree / phases;"
        " 0 if the ledger is not whole",
        figures={"signed_off": len(signed), "phases": phases, "ledger_whole": whole},
        evidence=tuple(each.gate_run_id for each in audit.cycle.sign_offs if each.phase in signed),
    )


def _test_coverage(audit: AuditSubject) -> Scored:
    run = audit.verification
    reported = _reported_coverage(run.coverage if run is not None and run.verdict is Verdict.PASS else {})
    if run is not None and reported is not None:
        return Scored(
            score=reported,
            formula="line coverage, as the report of the verification says",
            figures={"line_percent": reported},
            evidence=(run.run_id,),
        )
    now, figures = _reach_share(audit, audit.tree)
    before, _ = _reach_share(audit, audit.baseline)
    return Scored(
        score=now if run is not None and run.verdict is Verdict.PASS else 0.0 if now is not None else None,
        formula="100 x modules that tests reach by imports and routes that a test names / modules and routes;"
        " 0 unless the verification passed on this tree (it left no coverage report)",
        figures=figures,
        evidence=() if run is None else (run.run_id,),
        before=before,
    )


def _reported_coverage(coverage: Mapping[str, Any]) -> float | None:
    found = coverage.get("line_percent", coverage.get("lines", coverage.get("percent")))
    return float(found) if isinstance(found, int | float) else None


def _reach_share(audit: AuditSubject, tree: TreeId) -> tuple[float | None, dict[str, int]]:
    code, reached = audit.code_of(tree), files_reached(audit, tree)
    modules = modules_of(code)
    endpoints = due_endpoints(audit)
    met = sum(path in reached for path in modules)
    named = sum(bool(naming_test(each, code)) for each in endpoints)
    figures = {"modules": len(modules), "modules_reached": met, "routes": len(endpoints), "routes_named": named}
    return (_share(met + named, len(modules) + len(endpoints)) if modules else None), figures


def _reliability(subject: SealSubject, history: HistoryFigures) -> Scored:
    audit = subject.audit
    errors = list(audit.view.all(BuildError, f"{audit.cycle.build_id}/"))
    unresolved = [each for each in errors if not each.resolved]
    refused = len(audit.cycle.refused)
    lost = ERROR_COSTS * len(unresolved) + STOP_COSTS * history.stops + REFUSAL_COSTS * refused
    is_proven = subject.passed("A8")
    run = audit.verification
    return Scored(
        score=100.0 - lost if is_proven else 0.0,
        formula=f"100 - {ERROR_COSTS} x unresolved errors - {STOP_COSTS} x STOPs - {REFUSAL_COSTS} x refused sign-offs;"
        " 0 unless A8 passes",
        figures={
            "unresolved_errors": len(unresolved),
            "errors": len(errors),
            "stops": history.stops,
            "refused_sign_offs": refused,
            "a8": subject.checks["A8"].verdict,
        },
        evidence=(*(each.error_id for each in unresolved), *(() if run is None else (run.run_id,))),
    )


def _audit_compliance(subject: SealSubject) -> Scored:
    checks = [check for code, check in subject.checks.items() if code.startswith("A")]
    passed, doubtful = (sum(check.verdict == verdict for check in checks) for verdict in ("PASS", "WARN"))
    return Scored(
        score=100 * (passed + doubtful / 2) / len(checks),
        formula="100 x (checks A0 to A9 that pass + half of those that warn) / checks",
        figures={"pass": passed, "warn": doubtful, "checks": len(checks)},
        evidence=tuple(check.code for check in checks if check.verdict != "PASS"),
    )


def _governance(history: HistoryFigures) -> Scored:
    if not history.phases_with_writes:
        return Scored(score=None, formula="unknown: nothing was written", figures={})
    read = history.phases_read_first / history.phases_with_writes
    answered = history.answered_by_people / history.questions if history.questions else 1.0
    return Scored(
        score=70 * read + 30 * answered,
        formula="70 x phases in which a contract was read before the first write / phases with writes"
        " + 30 x questions that a person answered / questions (30 if none was asked)",
        figures={
            "phases_with_writes": history.phases_with_writes,
            "phases_read_first": history.phases_read_first,
            "questions": history.questions,
            "answered_by_people": history.answered_by_people,
        },
        evidence=history.evidence,
    )


def _security(subject: SealSubject) -> Scored:
    audit = subject.audit
    if subject.checks["W1"].verdict == "ERROR":
        return Scored(score=None, formula="unknown: W1 could not be computed", figures={})
    answers = path_answers(audit.view, audit.state.feature_id)
    grants = [each for each in answers if each.answer == "yes"]
    points, figures = _pinned_points(audit, audit.tree)
    before, _ = _pinned_points(audit, audit.baseline)
    clean = subject.passed("W1")
    has_code = bool(audit.code_of(audit.baseline).inventory.manifests)
    return Scored(
        score=points - GRANT_COSTS * len(grants) if clean else 0.0,
        formula=f"100 - {UNPINNED_SHARE} x unpinned dependencies / dependencies - {GRANT_COSTS} x opened guarded paths;"
        " 0 if W1 finds a secret",
        figures={**figures, "opened_paths": len(grants), "w1": subject.checks["W1"].verdict},
        evidence=tuple(each.question_id for each in grants),
        before=before if has_code else None,
    )


def _pinned_points(audit: AuditSubject, tree: TreeId) -> tuple[float, dict[str, int]]:
    packages = [each for each in packages_of(audit.code_of(tree).inventory) if each.group != "optional"]
    loose = [each for each in packages if not each.locked and not _is_exact(each.constraint)]
    lost = UNPINNED_SHARE * len(loose) / len(packages) if packages else 0.0
    return 100 - lost, {"dependencies": len(packages), "unpinned": len(loose)}


def _is_exact(constraint: str) -> bool:
    bare = constraint.strip()
    return bare.startswith("==") or (bare[:1].isdigit() and not set(bare) & set("*xX<>~^|, "))


def _consistency(audit: AuditSubject) -> Scored:
    now, figures = _clause_share(audit, audit.tree)
    before, _ = _clause_share(audit, audit.baseline) if audit.code_of(audit.baseline).inventory.sources else (None, {})
    return Scored(
        score=now,
        formula="100 x clauses of boundaries, physics and schema that hold or are accepted / clauses that are decided",
        figures=figures,
        evidence=(f"batch {audit.batch.number}",),
        before=before,
    )


def _clause_share(audit: AuditSubject, tree: TreeId) -> tuple[float | None, dict[str, int]]:
    clauses = audit.clauses_in(tree)
    holding = sum(each.verdict in ("holds", "accepted") for each in clauses)
    violated = sum(each.verdict == "violated" for each in clauses)
    figures = {"hold": holding, "violated": violated, UNKNOWN: len(clauses) - holding - violated}
    return _share(holding, holding + violated), figures


def _architecture(audit: AuditSubject) -> Scored:
    clauses = boundary_clauses(audit)
    holding = sum(each.verdict in ("holds", "accepted") for each in clauses)
    share = _share(holding, len(clauses))
    now, before = (_cycles(audit, tree) for tree in (audit.tree, audit.baseline))
    new = max(0, now - before)
    return Scored(
        score=None if share is None else share - CYCLE_COSTS * new,
        formula=f"100 x boundary clauses that hold / boundary clauses - {CYCLE_COSTS} x import cycles that are new",
        figures={"clauses": len(clauses), "hold": holding, "cycles": now, "cycles_at_baseline": before},
        evidence=tuple(each.clause for each in clauses if each.verdict == "violated")[:20],
    )


def _cycles(audit: AuditSubject, tree: TreeId) -> int:
    return len(architecture_of(audit.code_of(tree).inventory, audit.imports_of(tree)).cycles)


def _cost_efficiency(audit: AuditSubject) -> Scored:
    cap = audit.call.kernel.config().policy.forge.build.max_usd
    cost = audit.cycle.cost_usd
    if not cap:
        return Scored(score=None, formula="unknown: the policy sets no cap", figures={"cost_usd": cost})
    return Scored(
        score=100 * (1 - cost / cap),
        formula="100 x (1 - cost / cap)",
        figures={"cost_usd": round(cost, 4), "cap_usd": cap},
        evidence=(audit.cycle.build_id,),
    )


def reasons_of(dimensions: Mapping[str, SealDimension], checks: Sequence[AuditCheck]) -> tuple[str, ...]:
    """Return why the score is below 100: each dimension that lost points, and each check that does not pass."""
    lost = [
        f"{name} is unknown, and counts as 0: {each.formula}"
        if not each.known
        else f"{name} {each.score:g} of 100: {_told(each.figures)}"
        for name, each in dimensions.items()
        if each.score < 100
    ]
    found = [
        f"{check.code} {check.name}: {check.verdict}. {check.proof[0] if check.proof else ''}".strip()
        for check in checks
        if check.verdict != "PASS"
    ]
    return (*lost, *found)


def _told(figures: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items())


def verdict_line(verdict: str, score: float, dimensions: Mapping[str, SealDimension]) -> str:
    """Return the verdict in one sentence."""
    unknown = sum(not each.known for each in dimensions.values())
    told = f"; {count(unknown, 'dimension')} unknown" if unknown else ""
    return f"{verdict}, {score:g} of 100{told}"
