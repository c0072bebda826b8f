"""Renovation plan: the tasks that renew a repository, in order (FORGE-127)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from aop.core.text.counts import count, list_some
from aop.forge.scan.file_facts import UNKNOWN
from aop.forge.scan.findings.checks import ROWS, CheckRow, severity_of
from aop.forge.scan.releases.lifetimes import end_of_support
from aop.forge.scan.releases.versions import compare, lowest_of, release_of
from aop.forge.scan.report import Check, Grade, PackageUse, ScanReport, Severity

VersionStatus = Literal["current", "outdated", "eol", "unknown"]
Effort = Literal["small", "medium", "large"]
STATUSES: tuple[VersionStatus, ...] = ("current", "outdated", "eol", "unknown")
MOST_PLACES = 10
TOP = 3

BY_A_PERSON = frozenset({"S06", "S08"})
"""Checks that only people can mend: a secret has to be revoked, a licence chosen."""
_LARGE = frozenset({"S02", "S03", "S12"})
_SLUG = re.compile(r"[^a-z0-9]+")
_RANKS: Mapping[Severity, int] = {"high": 0, "medium": 1, "low": 2}


class PackageVersion(Struct, frozen=True, kw_only=True):
    """A package or a language, the version in use, and how it stands."""

    package: str
    """The package, or the language."""
    ecosystem: str
    """`python`, `node`, `maven`, `go`, `rust`, or `runtime` for a language."""
    current: str
    """The locked version, else the lowest that is asked for."""
    latest: str
    """`unknown` unless registries were asked."""
    status: VersionStatus
    """`eol` if its support has ended; `unknown` if nothing tells."""
    support_ends: str
    """A day; empty if it is not known."""
    file: str
    """The manifest that asks for it."""
    line: int
    """The line of the manifest; 0 if it is not known."""


class PatternFinding(Struct, frozen=True, kw_only=True):
    """Something in the code that a renovation should change."""

    pattern: str
    """The check that it fails."""
    severity: Severity
    """`high`, `medium` or `low`."""
    detail: str
    """The finding in a sentence."""
    places: tuple[str, ...]
    """`file:line` of the first places."""


class MigrationRecommendation(Struct, frozen=True, kw_only=True):
    """One task of the plan."""

    id: str
    """The same for the same task in every plan."""
    from_state: str
    """The state now."""
    to_state: str
    """The state to reach."""
    effort: Effort
    """`small`, `medium` or `large`."""
    risk: Severity
    """`high`, `medium` or `low`."""
    priority: Severity
    """`high`, `medium` or `low`; the list is in this order."""
    category: str
    """`runtime`, `dependencies`, or the area of the check."""
    rationale: str
    """The reason, with the place."""
    steps: tuple[str, ...]
    """The steps, in order."""
    forge_automatable: bool
    """Whether an agent can do it; a person still approves."""


class ExecutiveBrief(Struct, frozen=True, kw_only=True):
    """The plan in a few sentences."""

    health_grade: Grade
    """From A to F, as the scan gave it."""
    headline: str
    """The repository in one sentence."""
    top_priorities: tuple[str, ...]
    """At most three, as `id: what to reach`."""
    risk_summary: str
    """The largest risks."""
    forge_automation_note: str
    """How many tasks an agent can do."""


class RenovationPlan(Struct, frozen=True, kw_only=True):
    """The whole plan."""

    version_report: Mapping[VersionStatus, tuple[PackageVersion, ...]]
    """A list for each status."""
    pattern_findings: tuple[PatternFinding, ...]
    """Findings in the code, each with its places."""
    migration_recommendations: tuple[MigrationRecommendation, ...]
    """The tasks, the most urgent first."""
    executive_brief: ExecutiveBrief
    """The plan in a few sentences."""
    summary_stats: Mapping[str, int]
    """The numbers of packages by status, and of tasks by priority."""
    online: bool
    """Whether registries were asked for the newest versions."""


def plan_of(report: ScanReport, *, today: str, latest: Mapping[str, str] | None = None) -> RenovationPlan:
    """Return the plan for a scanned commit; `latest`: newest versions by `ecosystem:name`, if asked for."""
    versions = [_version(each, today, latest or {}) for each in _unique((*report.runtimes, *report.dependencies))]
    tasks = [*_upgrades(versions), *_repairs(report.checks)]
    tasks.sort(key=lambda task: (_RANKS[task.priority], _RANKS[task.risk], task.id))
    by_status = {status: tuple(each for each in versions if each.status == status) for status in STATUSES}
    return RenovationPlan(
        version_report=by_status,
        pattern_findings=tuple(_patterns(report.checks)),
        migration_recommendations=tuple(tasks),
        executive_brief=_brief(report, by_status, tasks),
        summary_stats={
            "packages": len(versions),
            **{status: len(found) for status, found in by_status.items()},
            "recommendations": len(tasks),
            **{priority: sum(task.priority == priority for task in tasks) for priority in _RANKS},
            "automatable": sum(task.forge_automatable for task in tasks),
        },
        online=latest is not None,
    )


def _unique(uses: Iterable[PackageUse]) -> Iterable[PackageUse]:
    """Return each package once, where it is pinned if it is."""
    found: dict[tuple[str, str], PackageUse] = {}
    for each in uses:
        key = (each.ecosystem, each.name)
        if key not in found or (each.locked and not found[key].locked):
            found[key] = each
    return [found[key] for key in sorted(found)]


def _version(use: PackageUse, today: str, latest: Mapping[str, str]) -> PackageVersion:
    current = use.locked or lowest_of(use.constraint)
    newest = latest.get(f"{use.ecosystem}:{use.name}", "")
    ends = end_of_support(use.ecosystem, use.name, current)
    return PackageVersion(
        package=use.name,
        ecosystem=use.ecosystem,
        current=current or UNKNOWN,
        latest=newest or UNKNOWN,
        status=_status(current, newest, is_over=bool(ends) and ends <= today),
        support_ends=ends,
        file=use.file,
        line=use.line,
    )


def _status(current: str, newest: str, *, is_over: bool) -> VersionStatus:
    if is_over:
        return "eol"
    old, new = release_of(current), release_of(newest)
    if old is None or new is None:
        return "unknown"
    return "outdated" if compare(old, new) < 0 else "current"


def _upgrades(versions: Iterable[PackageVersion]) -> Iterator[MigrationRecommendation]:
    near: list[PackageVersion] = []
    for each in versions:
        if each.status == "eol" or (each.status == "outdated" and _is_major(each)):
            yield _upgrade(each)
        elif each.status == "outdated":
            near.append(each)
    if near:
        names = list_some([f"{each.package} {each.current} to {each.latest}" for each in near])
        yield MigrationRecommendation(
            id="update-within-major-versions",
            from_state=f"{count(len(near), 'package')} behind within the same major version",
            to_state="the newest release of each major version in use",
            effort="small",
            risk="low",
            priority="low",
            category="dependencies",
            rationale=f"Small steps now are cheaper than large ones later: {names}.",
            steps=("Update the lock files.", "Run the tests.", "Read the change logs of what fails."),
            forge_automatable=True,
        )


def _upgrade(each: PackageVersion) -> MigrationRecommendation:
    is_over = each.status == "eol"
    target = f"{each.package} {each.latest}" if each.latest != UNKNOWN else f"a supported release of {each.package}"
    why = f"Its support ended on {each.support_ends}." if is_over else "A newer major version is out."
    place = f" It is asked for at {each.file}:{each.line}." if each.line else f" It is asked for in {each.file}."
    return MigrationRecommendation(
        id=_slug("upgrade", each.ecosystem, each.package),
        from_state=f"{each.package} {each.current}",
        to_state=target,
        effort="large" if each.ecosystem == "runtime" or is_over else "medium",
        risk="high" if is_over else "medium",
        priority="high" if is_over else "medium",
        category="runtime" if each.ecosystem == "runtime" else "dependencies",
        rationale=why + place,
        steps=(
            f"Read what changed between {each.current} and {target}.",
            f"Change the version in {each.file}, and write the lock file anew.",
            "Run the tests, and repair what fails.",
        ),
        forge_automatable=True,
    )


def _is_major(each: PackageVersion) -> bool:
    old, new = release_of(each.current), release_of(each.latest)
    return old is not None and new is not None and old[:1] < new[:1]


def _failed(checks: Iterable[Check]) -> Iterator[tuple[Check, CheckRow]]:
    rows = {row.code: row for row in ROWS}
    return ((check, rows[check.code]) for check in checks if check.result != "pass" and check.code in rows)


def _patterns(checks: Iterable[Check]) -> Iterator[PatternFinding]:
    for check, _ in _failed(checks):
        if check.places:
            yield PatternFinding(
                pattern=f"not: {check.name}",
                severity=severity_of(check),
                detail=check.detail,
                places=check.places[:MOST_PLACES],
            )


def _repairs(checks: Iterable[Check]) -> Iterator[MigrationRecommendation]:
    for check, row in _failed(checks):
        places = [f"Begin at {place}." for place in check.places[:TOP]]
        yield MigrationRecommendation(
            id=_slug("repair", check.name),
            from_state=check.detail,
            to_state=check.name,
            effort="large" if check.code in _LARGE else "small",
            risk="medium" if check.code in _LARGE else "low",
            priority=severity_of(check),
            category=row.area,
            rationale=f"Check {check.code} of the scan: {check.result}.",
            steps=(row.advice, *places),
            forge_automatable=check.code not in BY_A_PERSON,
        )


def _brief(
    report: ScanReport,
    versions: Mapping[VersionStatus, tuple[PackageVersion, ...]],
    tasks: list[MigrationRecommendation],
) -> ExecutiveBrief:
    failing = sum(check.result == "fail" for check in report.checks)
    score = report.dossier.quality_assessment.score
    over = [f"{each.package} {each.current}" for each in versions["eol"]]
    high = [risk for risk in report.dossier.risk_areas if risk.severity == "high"]
    automatable = sum(task.forge_automatable for task in tasks)
    risks = [*(f"{each} is without support." for each in over), *(risk.detail for risk in high)]
    return ExecutiveBrief(
        health_grade=report.health_grade,
        headline=(
            f"{report.metadata.name}: grade {report.health_grade}, {score} of 100;"
            f" {count(failing, 'check')} {'fails' if failing == 1 else 'fail'},"
            f" {count(len(over), 'package')} without support."
        ),
        top_priorities=tuple(f"{task.id}: {task.to_state}" for task in tasks[:TOP]),
        risk_summary=" ".join(risks[:TOP]) or "No high risk was found.",
        forge_automation_note=f"{automatable} of {count(len(tasks), 'recommendation')} can be done by an agent.",
    )


def _slug(*words: str) -> str:
    return _SLUG.sub("-", "-".join(words).lower()).strip("-")
