"""Reports of test tools: what is read from them, what is refused, and what coverage must reach."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.core.errors import UnsupportedParser
from aop.kernel.config.gates import Thresholds
from aop.kernel.config.policy import CoverageRules, CoverageShares
from aop.kernel.gates.reports import measurements
from aop.kernel.gates.reports.coverage import PARSERS, CoverageVerdict, Figure, judge_coverage, parse_report
from aop.kernel.gates.reports.measurements import CoverageReport, Ratio, UnreadableReport
from aop.kernel.record.documents.gate_runs import Verdict


def share(covered: int, total: int) -> Ratio:
    return Ratio(covered=covered, total=total)


def fates_of(count: int, *, failures: int = 0, errors: int = 0, skipped: int = 0) -> measurements.Report:
    return measurements.TestReport(tests=count, failures=failures, errors=errors, skipped=skipped)


# --- LCOV ----------------------------------------------------------------------------------------

LCOV = b"""TN:
SF:src/shop/cart.ts
FN:1,add
FN:8,remove
FNF:2
FNH:1
FNDA:4,add
FNDA:0,remove
DA:1,4
DA:2,4
DA:3,0
DA:8,0
LF:4
LH:2
BRDA:2,0,0,4
BRDA:2,0,1,0
BRDA:8,1,0,-
BRDA:8,1,1,-
BRF:4
BRH:1
end_of_record
TN:
SF:src/shop/price.ts
DA:1,1,Wd0sGqvN1Qb3dWqHqk9xNg
DA:2,1,x5x
LF:2
LH:2
BRF:0
BRH:0
end_of_record
"""


@pytest.mark.req("AOP-271")
def test_lcov_counts_the_lines_and_branches_of_all_records() -> None:
    assert parse_report("lcov", LCOV) == CoverageReport(line=share(4, 6), branch=share(1, 4))


@pytest.mark.req("AOP-271")
def test_lcov_records_of_one_file_are_laid_over_each_other() -> None:
    first = b"SF:a.c\nDA:1,1\nDA:2,0\nBRDA:1,0,0,1\nBRDA:1,0,1,-\nend_of_record\n"
    second = b"SF:a.c\nDA:2,7\nDA:3,0\nBRDA:1,0,0,0\nBRDA:1,0,1,2\nend_of_record\n"
    assert parse_report("lcov", first + second) == CoverageReport(line=share(2, 3), branch=share(2, 2))


def test_lcov_is_read_with_windows_line_ends_comments_and_unknown_tags() -> None:
    data = b"# made by a tool\r\nTN:x\r\nSF:a.c\r\nVER:1\r\nMCF:0\r\nDA:1,1\r\nend_of_record\r\n"
    assert parse_report("lcov", data) == CoverageReport(line=share(1, 1), branch=None)


@pytest.mark.req("AOP-271")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it has no record"),
        (b"TN:\n", "it has no record"),
        (b"SF:a.c\nDA:1,1\n", "its last record does not end"),
        (b"SF:a.c\nDA:1,1\nSF:b.c\n", "line 3: a record begins inside another"),
        (b"DA:1,1\n", "line 1: `DA` stands outside of a record"),
        (b"end_of_record\n", "line 1: a record ends that did not begin"),
        (b"SF:a.c\nDA:1\nend_of_record\n", "line 2: `` is not a count (hits)"),
        (b"SF:a.c\nDA:1,many\nend_of_record\n", "line 2: `many` is not a count (hits)"),
        (b"SF:a.c\nDA:1,-4\nend_of_record\n", "line 2: `-4` is not a count (hits)"),
        (b"SF:a.c\nBRDA:1,0,0,yes\nend_of_record\n", "line 2: `yes` is not a count (taken)"),
        (b"SF:a.c\nDA:1,1\nLF:900\nLH:900\nend_of_record\n", "line 5: `LF` counts 900, and the record lists 1"),
        (b"SF:a.c\nDA:1,1\nBRF:2\nBRH:2\nend_of_record\n", "line 5: `BRF` counts 2, and the record lists 0"),
        (b"<html>not found</html>", "line 1: `<html>not found</html>` is not LCOV"),
        (b"\xff\xfe\x00binary", "line 1: `\udcff\udcfe\x00binary` is not LCOV"),
    ],
)
def test_lcov_that_is_damaged_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(UnreadableReport) as refused:
        parse_report("lcov", data)
    assert str(refused.value) == why


# --- JaCoCo --------------------------------------------------------------------------------------

JACOCO = b"""<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<!DOCTYPE report PUBLIC "-//JACOCO//DTD Report 1.1//EN" "report.dtd">
<report name="shop"><sessioninfo id="box-1" start="1" dump="2"/>
<package name="shop">
<class name="shop/Cart" sourcefilename="Cart.java">
<method name="add" desc="(I)V" line="3">
<counter type="LINE" missed="1" covered="5"/><counter type="BRANCH" missed="1" covered="1"/></method>
<counter type="LINE" missed="1" covered="5"/><counter type="BRANCH" missed="1" covered="1"/></class>
<sourcefile name="Cart.java"><line nr="3" mi="0" ci="2" mb="1" cb="1"/>
<counter type="INSTRUCTION" missed="9" covered="99"/>
<counter type="LINE" missed="1" covered="5"/><counter type="BRANCH" missed="1" covered="1"/></sourcefile>
<sourcefile name="Price.java"><counter type="LINE" missed="0" covered="4"/></sourcefile>
%s</package>
%s</report>"""
PACKAGE = b'<counter type="LINE" missed="1" covered="9"/><counter type="BRANCH" missed="1" covered="1"/>'
WHOLE = b'<counter type="INSTRUCTION" missed="9" covered="99"/><counter type="LINE" missed="2" covered="18"/>' + (
    b'<counter type="BRANCH" missed="3" covered="5"/><counter type="METHOD" missed="0" covered="1"/>'
)


@pytest.mark.req("AOP-271")
@pytest.mark.parametrize(
    ("package", "whole", "line", "branch"),
    [
        pytest.param(PACKAGE, WHOLE, share(18, 20), share(5, 8), id="the report's own counters"),
        pytest.param(PACKAGE, b"", share(9, 10), share(1, 2), id="the packages' counters, if it has none"),
        pytest.param(b"", b"", share(9, 10), share(1, 2), id="the source files' counters, if they have none"),
    ],
)
def test_jacoco_counts_the_whole_report(package: bytes, whole: bytes, line: Ratio, branch: Ratio) -> None:
    assert parse_report("jacoco_xml", JACOCO % (package, whole)) == CoverageReport(line=line, branch=branch)


def test_jacoco_groups_are_added_up() -> None:
    module = b'<group name="m"><counter type="LINE" missed="1" covered="2"/><package name="p">%s</package></group>'
    data = b'<report name="all"><group name="outer">' + module % PACKAGE * 2 + b"</group></report>"
    assert parse_report("jacoco_xml", data) == CoverageReport(line=share(4, 6), branch=share(2, 4))


def test_jacoco_without_branch_counters_has_no_branch_figures() -> None:
    data = b'<report name="x"><counter type="LINE" missed="0" covered="3"/></report>'
    assert parse_report("jacoco_xml", data) == CoverageReport(line=share(3, 3), branch=None)


# --- Cobertura -----------------------------------------------------------------------------------

COBERTURA = b"""<?xml version="1.0" ?>
<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">
<coverage version="7.17" timestamp="1" %s complexity="0">
<sources><source>/build</source></sources>
<packages><package name="shop" line-rate="0.75" branch-rate="0.5" complexity="0"><classes>
<class name="cart.py" filename="shop/cart.py" line-rate="0.75" branch-rate="0.5" complexity="0">
<methods><method name="add" signature="()V"><lines>
<line number="1" hits="3"/><line number="2" hits="3" branch="true" condition-coverage="50%% (1/2)"/>
</lines></method></methods>
<lines>
<line number="1" hits="3"/>
<line number="2" hits="3" branch="true" condition-coverage="50%% (1/2)" missing-branches="exit">
<conditions><condition number="0" type="jump" coverage="50%%"/></conditions></line>
<line number="3" hits="0"/>
<line number="4" hits="1" branch="True" condition-coverage="100%% (2/2)"/>
</lines></class>
<class name="cart.Inner" filename="shop/cart.py"><methods/><lines>
<line number="3" hits="0"/><line number="2" hits="1" branch="true" condition-coverage="0%% (0/2)"/></lines></class>
</classes></package></packages></coverage>"""
COUNTS = (
    b'lines-valid="4" lines-covered="3" line-rate="0.75" branches-valid="4" branches-covered="3" branch-rate="0.75"'
)


@pytest.mark.req("AOP-271")
@pytest.mark.parametrize("totals", [COUNTS, b'line-rate="0.75" branch-rate="0.7500"', b""])
def test_cobertura_counts_each_line_of_a_file_once(totals: bytes) -> None:
    assert parse_report("cobertura_xml", COBERTURA % totals) == CoverageReport(line=share(3, 4), branch=share(3, 4))


@pytest.mark.req("AOP-271")
@pytest.mark.parametrize(
    ("totals", "why"),
    [
        (b'line-rate="1"', "its `line-rate` contradicts its lines"),
        (b'line-rate="0.75" branch-rate="1.0"', "its `branch-rate` contradicts its lines"),
        (b'lines-valid="400" lines-covered="400"', "its `line-rate` contradicts its lines"),
        (b'lines-valid="0" lines-covered="0"', "its `line-rate` contradicts its lines"),
        (b'lines-valid="3" lines-covered="4"', "it counts 4 covered of 3"),
        (b'lines-valid="x" lines-covered="4"', "`x` is not a count (lines-valid)"),
        (b'line-rate="most"', "`most` is not a rate (line-rate)"),
        (b'line-rate="inf"', "`inf` is not a rate (line-rate)"),
        (b'line-rate="nan"', "`nan` is not a rate (line-rate)"),
    ],
)
def test_cobertura_totals_must_agree_with_the_lines(totals: bytes, why: str) -> None:
    with pytest.raises(UnreadableReport) as refused:
        parse_report("cobertura_xml", COBERTURA % totals)
    assert str(refused.value) == why


def cobertura(lines: bytes, root: bytes = b"", file: bytes = b'filename="a"') -> bytes:
    return b"<coverage %s><class %s><lines>%s</lines></class></coverage>" % (root, file, lines)


@pytest.mark.parametrize(
    ("data", "report"),
    [
        pytest.param(cobertura(b""), CoverageReport(), id="no lines"),
        pytest.param(cobertura(b'<line number="1" hits="0"/>'), CoverageReport(line=share(0, 1)), id="no branches"),
        pytest.param(
            cobertura(b'<line number="1" hits="0"/>', b'line-rate="0" branch-rate="0" branches-valid="0"'),
            CoverageReport(line=share(0, 1)),
            id="branches not measured",
        ),
        pytest.param(
            cobertura(
                b'<line number="1" hits="2" branch="true" condition-coverage="100% (2/2)"/>'
                b'<line number="2" hits="2" branch="true"/>'
            ),
            CoverageReport(line=share(2, 2)),
            id="branches that are not counted",
        ),
    ],
)
def test_cobertura_claims_no_figures_that_it_does_not_have(data: bytes, report: CoverageReport) -> None:
    assert parse_report("cobertura_xml", data) == report


@pytest.mark.parametrize(
    "data",
    [
        cobertura(b'<line number="1" hits="1"/>', file=b""),
        cobertura(b'<line hits="1"/>'),
        cobertura(b'<line number="1"/>'),
        cobertura(b'<line num="1" count="1" type="stmt"/>'),
        cobertura(b'<line number="1" hits="1" condition-coverage="100%"/>'),
        cobertura(b'<line number="1" hits="1" condition-coverage="100% (1)"/>'),
        cobertura(b'<line number="1" hits="1" condition-coverage="250% (5/2)"/>'),
        cobertura(b"", b'lines-valid="9" lines-covered="9"'),
    ],
)
def test_cobertura_that_leaves_something_out_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableReport):
        parse_report("cobertura_xml", data)


# --- JUnit ---------------------------------------------------------------------------------------

JUNIT = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="6" time="0.1">
<testcase classname="a" name="passes" time="0.001"/>
<testcase classname="a" name="fails"><failure message="assert 1 == 2">def test(): ...</failure></testcase>
<testcase classname="a" name="breaks"><error message="failed on setup">...</error></testcase>
<testcase classname="a" name="skipped"><skipped type="pytest.skip" message="no"/></testcase>
<testcase classname="a" name="xfails"><skipped type="pytest.xfail" message=""/></testcase>
<testcase classname="a" name="prints"><system-out>&lt;failure/&gt; <![CDATA[<error/>]]></system-out></testcase>
</testsuite></testsuites>"""


@pytest.mark.req("AOP-271")
def test_junit_counts_each_test_once() -> None:
    assert parse_report("junit_xml", JUNIT) == fates_of(6, failures=1, errors=1, skipped=2)


@pytest.mark.req("AOP-271")
@pytest.mark.parametrize(
    ("data", "report"),
    [
        pytest.param(b"<testsuite/>", fates_of(0), id="no tests"),
        pytest.param(b'<testsuites tests="5" failures="0"/>', fates_of(0), id="tests that are only claimed"),
        pytest.param(
            b'<testsuite failures="1" tests="1"><testcase name="a"/></testsuite>',
            fates_of(1, failures=1),
            id="a failure that only the total knows",
        ),
        pytest.param(
            b'<testsuite failures="0" errors="0"><testcase><failure/></testcase></testsuite>',
            fates_of(1, failures=1),
            id="a failure that the total denies",
        ),
        pytest.param(
            b'<testsuites><testsuite failures="1"><testsuite failures="1"/></testsuite>'
            b'<testsuite errors="2"/></testsuites>',
            fates_of(0, failures=1, errors=2),
            id="totals of nested suites",
        ),
        pytest.param(
            b"<testsuite><testcase><failure/><error/><skipped/></testcase></testsuite>",
            fates_of(1, errors=1),
            id="the worst of several outcomes",
        ),
        pytest.param(
            b'<testsuite name="g"><testcase status="notrun"/><testcase status="run"/></testsuite>',
            fates_of(2, skipped=1),
            id="a test that was not run",
        ),
    ],
)
def test_junit_believes_the_worse_of_cases_and_totals(data: bytes, report: measurements.Report) -> None:
    assert parse_report("junit_xml", data) == report


# --- XML that wants to hurt ----------------------------------------------------------------------

ROOTS = {"junit_xml": b"testsuites", "jacoco_xml": b"report", "cobertura_xml": b"coverage"}
BILLION_LAUGHS = b"""<!DOCTYPE %s [
<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>
<%s>&c;</%s>"""
STRANGER = b'<!DOCTYPE %s [<!ENTITY x SYSTEM "file:///etc/passwd">]><%s>&x;</%s>'
PARAMETER = b'<!DOCTYPE %s [<!ENTITY %% x SYSTEM "http://host.test/x.dtd"> %%x;]><%s a="%s"/>'
UNDECLARED = b'<!DOCTYPE %s SYSTEM "http://host.test/x.dtd"><%s>&secret;</%s>'
DEEP = b"<%s>" + b"<a>" * 100_000
HOSTILE = {
    "billion laughs": BILLION_LAUGHS,
    "external entity": STRANGER,
    "parameter entity": PARAMETER,
    "entity of a document type elsewhere": UNDECLARED,
}


@pytest.mark.hostile("G37")
@pytest.mark.parametrize("parser", ROOTS)
@pytest.mark.parametrize("document", HOSTILE.values(), ids=HOSTILE)
def test_a_document_that_brings_entities_is_refused(parser: str, document: bytes) -> None:
    with pytest.raises(UnreadableReport, match=r"it (declares its own document type|uses the entity `secret`)"):
        parse_report(parser, document % (ROOTS[parser], ROOTS[parser], ROOTS[parser]))


@pytest.mark.hostile("G37")
@pytest.mark.parametrize("parser", ROOTS)
def test_a_document_that_nests_too_deep_is_refused(parser: str) -> None:
    with pytest.raises(UnreadableReport, match="its elements lie more than 64 deep"):
        parse_report(parser, DEEP % ROOTS[parser])


@pytest.mark.hostile("G37")
@pytest.mark.parametrize("parser", ROOTS)
@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"not xml",
        b"<%s>",
        b"<%s></other>",
        b"<%s/><%s/>",
        b"<other/>",
        b'<?xml version="1.0" encoding="no-such-encoding"?><%s/>',
        b'<?xml version="1.0" encoding="utf-7"?><%s/>',
        b'<?xml version="1.0" encoding="zlib_codec"?><%s/>',
        b"<%s>\xff\xfe</%s>",
        b"<%s a='1' a='2'/>",
        b"<%s>\0</%s>",
    ],
)
def test_a_document_that_is_damaged_or_of_another_kind_is_refused(parser: str, document: bytes) -> None:
    with pytest.raises(UnreadableReport):
        parse_report(parser, document.replace(b"%s", ROOTS[parser]))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_a_document_in_another_encoding_is_read(encoding: str) -> None:
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    text = f'<?xml version="1.0" encoding="{name}"?><testsuite><testcase name="größe"/></testsuite>'
    assert parse_report("junit_xml", text.encode(encoding)) == fates_of(1)


@pytest.mark.hostile("G37")
@given(st.sampled_from([*ROOTS, "lcov"]), st.binary() | st.text("<>/=\"' a&;!DAEFNRS:0,1\n%[]-").map(str.encode))
def test_no_bytes_at_all_make_a_parser_fail_otherwise(parser: str, data: bytes) -> None:
    for document in (
        data,
        LCOV + data,
        b"<testsuite>" + data + b"</testsuite>",
        b"<report>" + data,
        b"<coverage " + data,
    ):
        with suppress(UnreadableReport):
            parse_report(parser, document)


# --- which parser --------------------------------------------------------------------------------


@pytest.mark.req("AOP-103", "AOP-271")
def test_the_table_of_parsers() -> None:
    assert sorted(PARSERS) == ["cobertura_xml", "jacoco_xml", "junit_xml", "lcov", "none"]
    assert parse_report("none", b"anything") == CoverageReport(line=None, branch=None)


@pytest.mark.req("AOP-272")
@pytest.mark.parametrize("name", ["custom", "clover", "", "LCOV"])
def test_a_parser_that_nobody_registered_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedParser) as refused:
        parse_report(name, LCOV, {"mine": lambda _: CoverageReport()})
    assert refused.value.facts == {
        "parser": name,
        "parsers": ["cobertura_xml", "jacoco_xml", "junit_xml", "lcov", "mine", "none"],
    }


@pytest.mark.req("AOP-103")
def test_a_plugin_reads_the_report_of_its_name_and_cannot_replace_a_parser() -> None:
    lenient = CoverageReport(line=share(1, 1), branch=share(1, 1))
    plugins = {"custom": lambda _data: lenient, "lcov": lambda _data: lenient}
    assert parse_report("custom", b"x", plugins) == lenient
    assert parse_report("lcov", LCOV, plugins) == CoverageReport(line=share(4, 6), branch=share(1, 4))


def test_a_report_of_more_than_64_mebibytes_is_refused() -> None:
    with pytest.raises(UnreadableReport, match="it is larger than 67108864 bytes"):
        parse_report("lcov", bytes(64 * 1024 * 1024 + 1))


# --- the judgement -------------------------------------------------------------------------------

POLICY = CoverageRules(
    minimums=CoverageShares(line=0.9, branch=0.9),
    targets=CoverageShares(line=1.0, branch=1.0),
    skip_unsupported_parser=False,
)
LAX = CoverageRules(
    minimums=CoverageShares(line=0.0, branch=0.0),
    targets=CoverageShares(line=0.5, branch=0.5),
    skip_unsupported_parser=False,
)


def judged(line: Ratio | None, branch: Ratio | None, **thresholds: float) -> CoverageVerdict:
    return judge_coverage(CoverageReport(line=line, branch=branch), Thresholds(**thresholds), POLICY)


@pytest.mark.req("AOP-104", "AOP-275")
def test_a_verdict_has_the_figures_the_minimums_and_whether_the_targets_are_reached() -> None:
    verdict = judged(share(95, 100), share(8, 8))
    assert verdict == CoverageVerdict(
        figures={
            "line": Figure(
                verdict=Verdict.PASS,
                covered=95,
                total=100,
                percent="95.00",
                minimum=0.9,
                target=1.0,
                target_reached=False,
            ),
            "branch": Figure(
                verdict=Verdict.PASS,
                covered=8,
                total=8,
                percent="100.00",
                minimum=0.9,
                target=1.0,
                target_reached=True,
            ),
        },
        problems=(),
    )
    assert msgspec.to_builtins(verdict.figures)["line"]["verdict"] == "pass"


@pytest.mark.req("AOP-273", "AOP-274")
def test_below_the_minimum_each_figure_fails_for_itself_with_a_sentence() -> None:
    verdict = judged(share(89_999, 100_000), share(9, 10))
    assert {name: figure.verdict for name, figure in verdict.figures.items()} == {
        "line": Verdict.FAIL,
        "branch": Verdict.PASS,
    }
    assert verdict.problems == ("The line coverage is 89.99 % (89999 of 100000), and at least 90 % is required.",)


@pytest.mark.req("AOP-274")
@pytest.mark.parametrize(
    ("minimum", "covered", "total", "passes"),
    [
        (0.9, 9, 10, True),
        (0.9, 899_999_999, 1_000_000_000, False),
        (0.29, 29, 100, True),
        (0.57, 57, 100, True),
        (0.07, 7, 100, True),
        (0.925, 37, 40, True),
        (0.925, 36, 39, False),
        (1.0, 10**15 - 1, 10**15, False),
        (1.0, 10**15, 10**15, True),
    ],
)
def test_a_share_is_compared_exactly(minimum: float, covered: int, total: int, passes: bool) -> None:  # noqa: FBT001 - a row of the table
    assert share(covered, total).reaches(minimum) is passes


@given(st.integers(0, 100), st.integers(1, 10**6))
def test_exactly_the_minimum_is_always_enough_and_one_less_never(per_cent: int, hundreds: int) -> None:
    minimum, total = per_cent / 100, hundreds * 100
    assert share(per_cent * hundreds, total).reaches(minimum)
    assert not share(per_cent * hundreds - 1, total).reaches(minimum)


@pytest.mark.req("AOP-274")
@pytest.mark.parametrize("missing", [None, share(0, 0)])
def test_no_branch_figures_fail_where_a_branch_minimum_is_set(missing: Ratio | None) -> None:
    verdict = judged(share(10, 10), missing)
    assert verdict.figures["branch"].verdict is Verdict.FAIL
    assert verdict.problems == ("The report has no branch coverage, and at least 90 % is required.",)


@pytest.mark.req("AOP-274")
@pytest.mark.parametrize("report", [None, CoverageReport(), fates_of(9)], ids=["none", "empty", "of tests"])
def test_a_report_without_figures_fails_both_minimums(report: measurements.Report | None) -> None:
    verdict = judge_coverage(report, Thresholds(), POLICY)
    assert verdict.problems == (
        "The report has no line coverage, and at least 90 % is required.",
        "The report has no branch coverage, and at least 90 % is required.",
    )


@pytest.mark.req("AOP-274")
def test_without_a_minimum_the_verdict_is_na_and_the_target_is_still_told() -> None:
    verdict = judge_coverage(CoverageReport(line=share(1, 2)), Thresholds(), LAX)
    assert [(figure.verdict, figure.target_reached) for figure in verdict.figures.values()] == [
        (Verdict.NA, True),
        (Verdict.NA, False),
    ]
    assert verdict.problems == ()


@pytest.mark.req("AOP-104")
def test_a_profile_may_demand_more_than_the_policy_and_not_less() -> None:
    more = judged(share(95, 100), share(95, 100), coverage_line_min=0.96, coverage_branch_min=0.96)
    less = judged(share(50, 100), share(50, 100), coverage_line_min=0.1, coverage_branch_min=0.1)
    assert [figure.minimum for figure in more.figures.values()] == [0.96, 0.96]
    assert [figure.minimum for figure in less.figures.values()] == [0.9, 0.9]
    assert (len(more.problems), len(less.problems)) == (2, 2)


# --- the tools themselves ------------------------------------------------------------------------


@pytest.mark.req("AOP-271")
def test_what_coverage_py_and_pytest_write_is_read(tmp_path: Path) -> None:
    (tmp_path / "sign.py").write_text(
        "def sign(n):\n    if n < 0:\n        return -1\n    return 1\n", encoding="utf-8"
    )
    (tmp_path / "test_sign.py").write_text(
        "import sign\n\ndef test_one():\n    assert sign.sign(3) == 1\n", encoding="utf-8"
    )
    (tmp_path / "rc").write_text("[run]\nbranch = true\n", encoding="utf-8")

    def run(*command: str) -> None:
        argv = [sys.executable, "-m", *command]
        environment = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
        subprocess.run(argv, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=300)

    test_run = ("pytest", "-q", "-p", "no:cacheprovider", "--junitxml=junit.xml", "test_sign.py")
    run("coverage", "run", "--rcfile=rc", "--include=sign.py", "-m", *test_run)
    run("coverage", "lcov", "--rcfile=rc", "-o", "coverage.lcov")
    run("coverage", "xml", "--rcfile=rc", "-o", "coverage.xml")

    expected = CoverageReport(line=share(3, 4), branch=share(1, 2))
    assert parse_report("lcov", (tmp_path / "coverage.lcov").read_bytes()) == expected
    assert parse_report("cobertura_xml", (tmp_path / "coverage.xml").read_bytes()) == expected
    assert parse_report("junit_xml", (tmp_path / "junit.xml").read_bytes()) == fates_of(1)
