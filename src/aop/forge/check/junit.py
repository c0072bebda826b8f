"""JUnit report of a check: one test case for each clause."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from aop.core.text.visible import visible
from aop.forge.check.clauses import Clause
from aop.forge.check.verdicts import CheckReport


def junit_report(report: CheckReport, project: str) -> str:
    """Return the clauses as a JUnit file; unknown and accepted ones are skipped tests."""
    skipped = report.unknown + report.accepted
    head = f'tests="{len(report.clauses)}" failures="{report.violated}" errors="0" skipped="{skipped}"'
    cases = "".join(_case(each) for each in report.clauses)
    name = quoteattr(visible(f"contracts of {project}"))
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f"<testsuites {head}>\n  <testsuite name={name} {head}>\n{cases}  </testsuite>\n</testsuites>\n"
    )


def _case(clause: Clause) -> str:
    name, group = quoteattr(visible(clause.clause)), quoteattr(clause.kind)
    opening = f"    <testcase classname={group} name={name}"
    if clause.verdict == "holds":
        return f"{opening}/>\n"
    if clause.verdict == "violated":
        places = "".join(f"{visible(f'{each.file}:{each.line}: {each.text}')}\n" for each in clause.proofs)
        message = quoteattr(visible(f"{clause.statement}. {clause.detail}".strip()))
        return f"{opening}>\n      <failure message={message}>{escape(places)}</failure>\n    </testcase>\n"
    message = quoteattr(visible(f"{clause.verdict}: {clause.detail}"))
    return f"{opening}>\n      <skipped message={message}/>\n    </testcase>\n"
