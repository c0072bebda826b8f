"""XML reports of JUnit, JaCoCo and Cobertura, read as untrusted input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol
from xml.parsers import expat

from aop.kernel.gates.reports.measurements import (
    CoverageReport,
    Ratio,
    ReportedTest,
    TestReport,
    UnreadableReport,
    count_in,
    ratio_of,
    share_of,
)

DEEPEST_ELEMENT = 64
LONGEST_REASON = 500


class _Reader(Protocol):
    def start(self, path: list[str], attributes: dict[str, str]) -> None:
        """Take the beginning of the element that the path, from the root, leads to."""

    def end(self, path: list[str]) -> None:
        """Take its end."""


def _read_xml(data: bytes, roots: tuple[str, ...], reader: _Reader, text: Callable[[str], None] | None = None) -> None:
    """Feed a document to a reader: nothing is fetched, no entity is declared, and depth is bounded."""
    path: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if not path and name not in roots:
            raise UnreadableReport(f"its root is `{name[:40]}`, not `{'` or `'.join(roots)}`")
        if len(path) >= DEEPEST_ELEMENT:
            raise UnreadableReport(f"its elements lie more than {DEEPEST_ELEMENT} deep")
        path.append(name)
        reader.start(path, attributes)

    def end(_name: str) -> None:
        reader.end(path)
        path.pop()

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = _refuse_internal_subset
    parser.SkippedEntityHandler = _refuse_entity
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise UnreadableReport(f"it is not well-formed XML: {error}") from error


def _refuse_internal_subset(_name: str, _system: str | None, _public: str | None, internal: int) -> None:
    # JaCoCo and Cobertura name their DTD, which is never read; only a subset in the file itself can declare entities.
    if internal:
        raise UnreadableReport("it declares its own document type")


def _refuse_entity(name: str, _is_parameter: int) -> None:
    raise UnreadableReport(f"it uses the entity `{name[:40]}`")


class _Rollup:
    """Adds figures up from the leaves to the root; what an element states itself counts instead of its children's."""

    def __init__(self) -> None:
        self.total: dict[str, int] = {}
        self._open: list[tuple[dict[str, int], dict[str, int]]] = []

    def enter(self) -> None:
        self._open.append(({}, {}))

    def state(self, key: str, figure: int) -> None:
        self._open[-1][0][key] = figure

    def leave(self) -> None:
        stated, summed = self._open.pop()
        into = self._open[-1][1] if self._open else self.total
        for key, figure in (summed | stated).items():
            into[key] = into.get(key, 0) + figure


# Classes and methods are left out: their source files count the same lines.
_SUMMED = ("report", "group", "package", "sourcefile")


class _Jacoco:
    def __init__(self) -> None:
        self.counters = _Rollup()

    def start(self, path: list[str], attributes: dict[str, str]) -> None:
        if path[-1] in _SUMMED:
            self.counters.enter()
        elif path[-1] == "counter" and path[-2] in _SUMMED:
            for side in ("covered", "missed"):
                self.counters.state(f"{attributes.get('type')} {side}", count_in(attributes.get(side, ""), side))

    def end(self, path: list[str]) -> None:
        if path[-1] in _SUMMED:
            self.counters.leave()

    def ratio(self, counter: str) -> Ratio | None:
        covered, missed = (self.counters.total.get(f"{counter} {side}", 0) for side in ("covered", "missed"))
        return ratio_of(covered, covered + missed)


def read_jacoco(data: bytes) -> CoverageReport:
    """Return the figures of a whole JaCoCo report. Raises: UnreadableReport."""
    reader = _Jacoco()
    _read_xml(data, ("report",), reader)
    return CoverageReport(line=reader.ratio("LINE"), branch=reader.ratio("BRANCH"))


_SUITES = ("testsuites", "testsuite")
_OUTCOMES: Mapping[str, Literal["errors", "failures", "skipped"]] = {
    "error": "errors",
    "failure": "failures",
    "skipped": "skipped",
}
"""From bad to better: a case is counted once."""
_NOT_RUN = ("notrun", "disabled", "skipped")


class _Junit:
    def __init__(self) -> None:
        self.stated = _Rollup()
        self.counted = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        self.cases: list[ReportedTest] = []
        self._outcomes: set[str] = set()
        self._name, self._reason = "", ""
        self._is_in_failure = False

    def start(self, path: list[str], attributes: dict[str, str]) -> None:
        name = path[-1]
        if name in _SUITES:
            self.stated.enter()
            for key in _OUTCOMES.values():
                if key in attributes:
                    self.stated.state(key, count_in(attributes[key], key))
        elif name == "testcase":
            self._outcomes = {"skipped"} if attributes.get("status") in _NOT_RUN else set()
            self._name = ".".join(filter(None, [attributes.get("classname"), attributes.get("name")]))
            self._reason = ""
        elif name in _OUTCOMES and path[-2] == "testcase":
            self._outcomes.add(_OUTCOMES[name])
            self._is_in_failure = name != "skipped"
            if self._is_in_failure:
                self.text(": ".join(filter(None, [attributes.get("type"), attributes.get("message")])) + "\n")

    def text(self, part: str) -> None:
        """Take the words of a failure, up to a limit."""
        if self._is_in_failure and len(self._reason) < LONGEST_REASON:
            self._reason = (self._reason + part)[:LONGEST_REASON].lstrip()

    def end(self, path: list[str]) -> None:
        if path[-1] in _SUITES:
            self.stated.leave()
        elif path[-1] == "testcase":
            self.counted["tests"] += 1
            worst = next((outcome for outcome in _OUTCOMES.values() if outcome in self._outcomes), None)
            if worst is not None:
                self.counted[worst] += 1
            case = ReportedTest(
                name=self._name,
                passed=worst is None,
                ran=worst != "skipped",
                outcome=worst or "passed",
                reason=self._reason.strip(),
            )
            self.cases.append(case)
        elif path[-1] in _OUTCOMES:
            self._is_in_failure = False


def read_junit(data: bytes) -> TestReport:
    """Count the tests of a JUnit report. Raises: UnreadableReport."""
    reader = _Junit()
    _read_xml(data, _SUITES, reader)
    # Where the cases and the totals disagree, the worse one is believed.
    return TestReport(**{key: max(count, reader.stated.total.get(key, 0)) for key, count in reader.counted.items()})


def cases_in_junit(data: bytes) -> list[ReportedTest]:
    """Return every test of a JUnit report by name, and whether it passed. Raises: UnreadableReport."""
    reader = _Junit()
    _read_xml(data, _SUITES, reader, reader.text)
    return reader.cases


class _Cobertura:
    def __init__(self) -> None:
        self.root: dict[str, str] = {}
        self.lines: dict[tuple[str, int], bool] = {}
        self.branches: dict[tuple[str, int], tuple[int, int]] = {}
        self.all_branches_counted = True
        self._file: str | None = None

    def start(self, path: list[str], attributes: dict[str, str]) -> None:
        if len(path) == 1:
            self.root = attributes
        elif path[-1] == "class":
            self._file = attributes.get("filename")
            if self._file is None:
                raise UnreadableReport("a class does not say in which file it is")
        elif path[-1] == "line" and self._file is not None:
            self._take_line(self._file, attributes)

    def end(self, path: list[str]) -> None:
        if path[-1] == "class":
            self._file = None

    def _take_line(self, file: str, attributes: dict[str, str]) -> None:
        # The lines of a method stand in its class as well, and a file may hold several classes.
        line = (file, count_in(attributes.get("number", ""), "line number"))
        self.lines[line] = count_in(attributes.get("hits", ""), "hits") > 0 or self.lines.get(line, False)
        conditions = attributes.get("condition-coverage")
        if conditions is not None:
            covered, total = _conditions(conditions)
            known_covered, known_total = self.branches.get(line, (0, 0))
            self.branches[line] = (max(covered, known_covered), max(total, known_total))
        elif attributes.get("branch", "").lower() == "true":
            self.all_branches_counted = False

    def branch_ratio(self) -> Ratio | None:
        pairs = self.branches.values()
        return ratio_of(sum(covered for covered, _ in pairs), sum(total for _, total in pairs))


def _conditions(text: str) -> tuple[int, int]:
    """Read `50% (1/2)`."""
    _, _, counts = text.rstrip(") ").partition("(")
    covered, total = (count_in(count, "condition-coverage") for count in (counts + "/").split("/")[:2])
    if covered > total:
        raise UnreadableReport(f"it counts {covered} covered of {total}")
    return covered, total


def read_cobertura(data: bytes) -> CoverageReport:
    """Return the figures that the lines of a Cobertura report add up to. Raises: UnreadableReport."""
    reader = _Cobertura()
    _read_xml(data, ("coverage",), reader)
    line, branch = share_of(reader.lines.values()), reader.branch_ratio()
    _check_against_totals(line, reader.root, counts=("lines-covered", "lines-valid"), rate="line-rate")
    if reader.all_branches_counted:
        _check_against_totals(branch, reader.root, counts=("branches-covered", "branches-valid"), rate="branch-rate")
    return CoverageReport(line=line, branch=branch if reader.all_branches_counted else None)


def _check_against_totals(ratio: Ratio | None, root: Mapping[str, str], *, counts: tuple[str, str], rate: str) -> None:
    """Refuse totals that contradict the lines by more than 1 %: tools count a line of two classes once or twice."""
    if set(counts) <= set(root):
        covered, total = (count_in(root[name], name) for name in counts)
        stated = ratio_of(covered, total)
    elif rate in root and ratio is not None:
        stated = Ratio(covered=_millionths(root[rate], rate), total=10**6)
    else:
        return
    apart = (ratio is None) != (stated is None)
    if ratio is not None and stated is not None:
        difference = abs(ratio.covered * stated.total - stated.covered * ratio.total)
        apart = difference * 100 > ratio.total * stated.total
    if apart:
        raise UnreadableReport(f"its `{rate}` contradicts its lines")


def _millionths(text: str, what: str) -> int:
    try:
        return round(float(text) * 10**6)
    except (ValueError, OverflowError) as error:
        raise UnreadableReport(f"`{text[:40]}` is not a rate ({what})") from error
