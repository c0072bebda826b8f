"""Dossier: the repository in sentences that follow from checks and figures."""

from __future__ import annotations

from collections.abc import Sequence

from aop.core.text.counts import count
from aop.forge.scan.file_facts import UNKNOWN
from aop.forge.scan.findings.checks import ROWS, severity_of
from aop.forge.scan.report import (
    Check,
    Dossier,
    Grade,
    Metadata,
    Metrics,
    QualityAssessment,
    Recommendation,
    RiskArea,
    StackProfile,
)

_GRADES: tuple[tuple[int, Grade], ...] = ((90, "A"), (80, "B"), (70, "C"), (60, "D"), (0, "F"))


def grade_of(score: int) -> Grade:
    """Return the health grade of a score."""
    return next(grade for lowest, grade in _GRADES if score >= lowest)


def dossier_of(
    metadata: Metadata, stack: StackProfile, metrics: Metrics, checks: Sequence[Check], score: int
) -> Dossier:
    """Return the dossier; a model may later replace its sentences, never its figures."""
    rows = {row.code: row for row in ROWS}
    failed = sorted(
        (check for check in checks if check.result != "pass"),
        key=lambda check: (check.result != "fail", -rows[check.code].weight, check.code),
    )
    return Dossier(
        executive_summary=_summary(metadata, stack, metrics, checks, score),
        intent=metadata.description,
        quality_assessment=QualityAssessment(
            score=score,
            strengths=tuple(f"{_sentence(check.name)}: {check.detail}" for check in checks if check.result == "pass"),
            weaknesses=tuple(f"{_sentence(check.name)}: {check.detail}" for check in failed),
        ),
        risk_areas=tuple(
            RiskArea(area=rows[check.code].area, severity=severity_of(check), detail=_with_place(check))
            for check in failed
        ),
        recommendations=tuple(
            Recommendation(priority=severity_of(check), suggestion=rows[check.code].advice) for check in failed
        ),
    )


def _summary(metadata: Metadata, stack: StackProfile, metrics: Metrics, checks: Sequence[Check], score: int) -> str:
    languages = ", ".join(f"{share.language} ({count(share.lines, 'line')})" for share in metadata.languages[:3])
    built = ", ".join(part.name for part in (*stack.backend, *stack.frontend)[:4])
    sources = count(metrics.source_files, "source file")
    passed = sum(check.result == "pass" for check in checks)
    sentences = [
        f"{metadata.name} has {count(metadata.files, 'file')}, {sources} among them.",
        f"Its languages: {languages}." if languages else "It has no source file in a language that is read.",
        f"It is built with {built}." if built else "No manifest declares a known framework.",
        f"It has {count(metrics.routes, 'HTTP route')} and {count(metrics.tables, 'table')} that were found.",
        f"{passed} of {count(len(checks), 'check')} pass; the score is {score} of 100, grade {grade_of(score)}.",
    ]
    return " ".join(sentences)


def _with_place(check: Check) -> str:
    return f"{check.detail} First at {check.places[0]}." if check.places else check.detail


def _sentence(name: str) -> str:
    return name[0].upper() + name[1:] if name != UNKNOWN else name
