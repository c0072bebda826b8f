"""Coverage: the parser of each report type, and the minimums it must reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from aop.core.errors import UnsupportedParser
from aop.kernel.config.gates import Thresholds
from aop.kernel.config.policy import CoverageRules
from aop.kernel.gates.reports.lcov import read_lcov
from aop.kernel.gates.reports.measurements import CoverageReport, Ratio, Report, UnreadableReport
from aop.kernel.gates.reports.xml import read_cobertura, read_jacoco, read_junit
from aop.kernel.record.documents.gate_runs import Verdict

LARGEST_REPORT = 64 * 1024 * 1024

Parser = Callable[[bytes], Report]


class Figure(Struct, frozen=True, kw_only=True):
    """The measured coverage of lines or branches, and the required one."""

    verdict: Verdict
    covered: int
    total: int
    """0 where nothing was measured."""
    percent: str | None
    minimum: float
    target: float
    target_reached: bool


class CoverageVerdict(Struct, frozen=True, kw_only=True):
    """The judgement of a report; without problems it passed."""

    figures: Mapping[str, Figure]
    problems: tuple[str, ...]


def parse_report(name: str, data: bytes, plugins: Mapping[str, Parser] = MappingProxyType({})) -> Report:
    """Read a report with the parser of that name; a plugin may add a name but not replace one."""
    parser = PARSERS.get(name) or plugins.get(name)
    if parser is None:
        raise UnsupportedParser(
            f"There is no parser `{name}` for reports.", parser=str(name), parsers=sorted({*PARSERS, *plugins})
        )
    if len(data) > LARGEST_REPORT:
        raise UnreadableReport(f"it is larger than {LARGEST_REPORT} bytes")
    return parser(data)


def judge_coverage(report: Report | None, thresholds: Thresholds, rules: CoverageRules) -> CoverageVerdict:
    """Judge a report by the stricter minimums of profile and policy; a minimum of 0 requires nothing."""
    measured = report if isinstance(report, CoverageReport) else CoverageReport()
    figures = {
        "line": _figure(
            measured.line or _NOTHING,
            minimum=max(thresholds.coverage_line_min or 0, rules.minimums.line),
            target=max(thresholds.coverage_line_target or 0, rules.targets.line),
        ),
        "branch": _figure(
            measured.branch or _NOTHING,
            minimum=max(thresholds.coverage_branch_min or 0, rules.minimums.branch),
            target=max(thresholds.coverage_branch_target or 0, rules.targets.branch),
        ),
    }
    problems = tuple(_problem(name, figure) for name, figure in figures.items() if figure.verdict is Verdict.FAIL)
    return CoverageVerdict(figures=figures, problems=problems)


_NOTHING = Ratio(covered=0, total=0)


def _figure(ratio: Ratio, *, minimum: float, target: float) -> Figure:
    verdict = Verdict.PASS if ratio.reaches(minimum) else Verdict.FAIL
    return Figure(
        verdict=verdict if minimum > 0 else Verdict.NA,
        covered=ratio.covered,
        total=ratio.total,
        percent=ratio.percent,
        minimum=minimum,
        target=target,
        target_reached=ratio.reaches(target),
    )


def _problem(name: str, figure: Figure) -> str:
    minimum = f"{figure.minimum * 100:g} %"
    if figure.percent is None:
        return f"The report has no {name} coverage, and at least {minimum} is required."
    covered = f"{figure.percent} % ({figure.covered} of {figure.total})"
    return f"The {name} coverage is {covered}, and at least {minimum} is required."


def _read_nothing(_data: bytes) -> CoverageReport:
    return CoverageReport()


PARSERS: Mapping[str, Parser] = {
    "none": _read_nothing,
    "lcov": read_lcov,
    "junit_xml": read_junit,
    "jacoco_xml": read_jacoco,
    "cobertura_xml": read_cobertura,
}
