"""Checks of a scan: each decided by facts, with the places that decided it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from aop.core.text.counts import count
from aop.forge.scan.inventory import VENDORED, Inventory, ScanWarning
from aop.forge.scan.report import Architecture, Check, Metrics, PackageUse, Result, Severity

MOST_PLACES = 20
LARGE_FILE = 800

_README = re.compile(r"README(?:\.\w+)?", re.IGNORECASE)
_LICENSE = re.compile(r"(?:LICEN[CS]E|COPYING)(?:[.-][\w.-]+)?", re.IGNORECASE)
_PIPELINE = re.compile(
    r"\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.ya?ml|Jenkinsfile|\.circleci/config\.ya?ml|azure-pipelines\.ya?ml"
    r"|\.ci/.+|\.travis\.ya?ml"
)
_LINTERS = re.compile(
    r"(?:.*/)?(?:ruff\.toml|\.ruff\.toml|\.flake8|mypy\.ini|\.pylintrc|\.eslintrc[\w.]*|eslint\.config\.\w+|tsconfig\.json"
    r"|biome\.json|checkstyle\.xml|\.golangci\.ya?ml|clippy\.toml|rustfmt\.toml|\.pre-commit-config\.ya?ml)"
)
_LINT_PACKAGES = frozenset("ruff mypy flake8 pylint black pyright eslint typescript prettier @biomejs/biome".split())


class CheckSubject(Struct, frozen=True, kw_only=True):
    """All that a check may look at."""

    inventory: Inventory
    architecture: Architecture
    metrics: Metrics
    packages: tuple[PackageUse, ...]
    lies: tuple[ScanWarning, ...]


class CheckRow(Struct, frozen=True):
    """One check: its weight, what a failure endangers, and what to do about it."""

    code: str
    name: str
    weight: int
    area: str
    advice: str
    decide: Callable[[CheckSubject], tuple[Result, str, Iterable[str]] | None]
    """Returns None where the check has no object: it then says nothing."""


def run_checks(subject: CheckSubject) -> tuple[Check, ...]:
    """Return the result of each check that has an object."""
    found = []
    for row in ROWS:
        decided = row.decide(subject)
        if decided is not None:
            result, detail, places = decided
            shown = tuple(places)[:MOST_PLACES]
            found.append(Check(code=row.code, name=row.name, result=result, detail=detail, places=shown))
    return tuple(found)


def score_of(checks: Sequence[Check]) -> int:
    """Return the score from 0 to 100: the weights of what passes, half of them for a warning."""
    worth = {"pass": 1.0, "warn": 0.5, "fail": 0.0}
    weights = {row.code: row.weight for row in ROWS}
    total = sum(weights[check.code] for check in checks)
    return round(100 * sum(weights[check.code] * worth[check.result] for check in checks) / total) if total else 0


def severity_of(check: Check) -> Severity:
    """Return how much a check that does not pass matters, by its weight."""
    weight = next(row.weight for row in ROWS if row.code == check.code)
    if check.result == "fail":
        return "high" if weight >= 10 else "medium"
    return "medium" if weight >= 10 else "low"


def _sources_parse(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    sources = subject.inventory.sources
    if not sources:
        return None
    broken = [f"{each.path}:{each.facts.error_line}" for each in sources if each.facts.error_line]
    unread = [f"{each.path}:1" for each in sources if each.facts.problem]
    if not broken and not unread:
        return "pass", f"{_all(len(sources), 'source file')} parsed without an error.", ()
    result: Result = "fail" if len(broken) * 20 > len(sources) else "warn"
    said = f"{count(len(broken), 'file')} with a line that does not parse, {len(unread)} not read."
    return result, said, [*broken, *unread]


def _no_cycles(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    if not subject.metrics.imports:
        return None
    cycles = subject.architecture.cycles
    if not cycles:
        return "pass", f"No cycle among {count(subject.metrics.imports, 'import')} between files.", ()
    largest = max(cycle.files for cycle in cycles)
    result: Result = "fail" if largest > 10 else "warn"
    said = f"{count(len(cycles), 'cycle')} of imports, the largest of {count(largest, 'file')}."
    return result, said, [cycle.path[0] for cycle in cycles]


def _has_tests(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    metrics = subject.metrics
    if not metrics.source_files:
        return None
    if not metrics.test_files:
        return "fail", "No test file was found.", ()
    own = max(1, metrics.lines - metrics.test_lines)
    percent = round(100 * metrics.test_lines / own)
    result: Result = "pass" if percent >= 20 else "warn"
    said = f"{count(metrics.test_files, 'test file')}, {metrics.test_lines} lines: {percent} % of the other code."
    return result, said, ()


def _is_locked(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    # Maven has no lock file; a requirements file may be one itself.
    counted = [each for each in subject.packages if each.ecosystem != "maven" and each.group != "optional"]
    if not counted:
        return None
    loose = [each for each in counted if not each.locked and not each.constraint.startswith(("==", "v"))]
    if not loose:
        return "pass", f"{_all(len(counted), 'package')} pinned to one version.", ()
    result: Result = "fail" if len(loose) == len(counted) else "warn"
    said = f"{len(loose)} of {count(len(counted), 'package')} may change version with the next install."
    return result, said, [f"{each.file}:{each.line}" for each in loose]


def _locks_agree(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    if not subject.inventory.locks:
        return None
    if not subject.lies:
        return "pass", f"{_all(len(subject.inventory.locks), 'lock file')} as the manifests ask.", ()
    said = f"{count(len(subject.lies), 'package')} locked otherwise than asked for. {subject.lies[0].detail}"
    return "fail", said, [f"{lie.file}:{lie.line}" for lie in subject.lies]


def _no_secrets(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    searched = (*subject.inventory.sources, *subject.inventory.settings)
    if not searched:
        return None
    own = [each for each in searched if each.facts.secrets]
    places = [f"{each.path}:{secret.line}" for each in own for secret in each.facts.secrets]
    if not places:
        return "pass", "No source and no file with settings holds something that looks like a secret.", ()
    result: Result = "warn" if all(each.is_test for each in own) else "fail"
    return result, f"{count(len(places), 'line')} that {'looks' if len(places) == 1 else 'look'} like a secret.", places


def _is_described(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    found = next((path for path in subject.inventory.paths if _README.fullmatch(path)), "")
    return ("pass", f"`{found}` exists.", (f"{found}:1",)) if found else ("warn", "There is no README.", ())


def _is_licensed(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    found = next((path for path in subject.inventory.paths if _LICENSE.fullmatch(path)), "")
    return ("pass", f"`{found}` exists.", (f"{found}:1",)) if found else ("warn", "There is no licence file.", ())


def _has_pipeline(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    found = next((path for path in subject.inventory.paths if _PIPELINE.fullmatch(path)), "")
    if found:
        return "pass", f"`{found}` runs on each change.", (f"{found}:1",)
    return "warn", "No pipeline was found that checks each change.", ()


def _is_linted(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    if not subject.metrics.source_files:
        return None
    found = next((f"{path}:1" for path in subject.inventory.paths if _LINTERS.fullmatch(path)), "")
    used = next((f"{each.file}:{each.line}" for each in subject.packages if each.name.lower() in _LINT_PACKAGES), "")
    if found or used:
        return "pass", "A linter or a type checker is set up.", (found or used,)
    return "warn", "No linter and no type checker was found.", ()


def _functions_are_short(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    total = subject.metrics.functions
    if not total:
        return None
    long = sorted(
        (
            (fact.lines, f"{each.path}:{fact.line}")
            for each in subject.inventory.sources
            for fact in each.facts.long_functions
        ),
        reverse=True,
    )
    percent = 100 * len(long) / total
    result: Result = "pass" if percent <= 2 else "warn" if percent <= 10 else "fail"
    return result, f"{len(long)} of {count(total, 'function')} with 60 lines or more.", [place for _, place in long]


def _files_are_short(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    sources = subject.inventory.sources
    if not sources:
        return None
    long = sorted(((each.facts.lines, each.path) for each in sources if each.facts.lines > LARGE_FILE), reverse=True)
    percent = 100 * len(long) / len(sources)
    result: Result = "pass" if percent <= 2 else "warn" if percent <= 10 else "fail"
    said = f"{len(long)} of {count(len(sources), 'source file')} with more than {LARGE_FILE} lines."
    return result, said, [f"{path}:1" for _, path in long]


def _nothing_vendored(subject: CheckSubject) -> tuple[Result, str, Iterable[str]] | None:
    found = [each for each in subject.inventory.warnings if each.code == VENDORED]
    if not found:
        return "pass", "No folder with packages of others is in the repository.", ()
    return "warn", f"{count(len(found), 'folder')} with packages of others.", [f"{each.file}:1" for each in found]


def _all(number: int, noun: str) -> str:
    return f"All {count(number, noun)} are" if number != 1 else f"The only {noun} is"


ROWS: tuple[CheckRow, ...] = (
    CheckRow("S01", "sources parse", 10, "syntax", "Repair the lines that do not parse.", _sources_parse),
    CheckRow("S02", "no import cycles", 10, "structure", "Break the import cycles, the largest first.", _no_cycles),
    CheckRow(
        "S03", "tests exist", 20, "tests", "Write tests for the routes and the code that changes most.", _has_tests
    ),
    CheckRow("S04", "dependencies are locked", 10, "dependencies", "Commit a lock file for each manifest.", _is_locked),
    CheckRow("S05", "lock files agree with manifests", 10, "dependencies", "Write the lock files anew.", _locks_agree),
    CheckRow(
        "S06",
        "no secrets in the sources",
        15,
        "secrets",
        "Revoke the secrets, and take them out of the tree.",
        _no_secrets,
    ),
    CheckRow("S07", "a README exists", 3, "documentation", "Write a README: purpose, set-up, tests.", _is_described),
    CheckRow("S08", "a licence exists", 2, "documentation", "Add a licence file.", _is_licensed),
    CheckRow(
        "S09", "a pipeline exists", 6, "automation", "Have a pipeline run the tests on each change.", _has_pipeline
    ),
    CheckRow("S10", "a linter is set up", 4, "automation", "Set up a linter and a type checker.", _is_linted),
    CheckRow("S11", "functions are short", 5, "structure", "Divide the longest functions.", _functions_are_short),
    CheckRow("S12", "files are short", 3, "structure", "Divide the longest files.", _files_are_short),
    CheckRow(
        "S13", "no packages of others", 2, "dependencies", "Take vendored packages out of the tree.", _nothing_vendored
    ),
)
