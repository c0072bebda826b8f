"""Counts that may not fall: tests, files and migrations of a tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from aop.forge.builds.documents import CountedBy
from aop.forge.check.clauses import Code
from aop.forge.scan.file_facts import Language
from aop.kernel.gates.base.python_sources import parse_python
from aop.kernel.record.documents.gate_runs import GateRun

_MIGRATION = re.compile(
    r"(?:.*/)?(?:migrations|migrate|alembic/versions|db/changelog)/(?:.*/)?[^/]+\.(?:py|sql|js|ts|xml|ya?ml|rb|up\.sql)"
)
_TEST_LINES: Mapping[Language, re.Pattern[str]] = {
    "javascript": re.compile(r"\s*(?:it|test)(?:\.only|\.each\(.*\))?\s*\("),
    "typescript": re.compile(r"\s*(?:it|test)(?:\.only|\.each\(.*\))?\s*\("),
    "go": re.compile(r"func Test\w*\("),
    "rust": re.compile(r"\s*#\[(?:\w+::)?test\b"),
    "java": re.compile(r"\s*@(?:Test|ParameterizedTest)\b"),
}

_SET_UP = frozenset(
    (
        "setUp",
        "asyncSetUp",
        "setUpClass",
        "setUpModule",
        "setup_method",
        "setup_class",
        "setup_function",
        "setup_module",
    )
)


class CountedTests(Struct, frozen=True, kw_only=True):
    """The number of tests, and how it is known."""

    tests: int
    counted_by: CountedBy
    """`report` for tests that ran, `tree` for tests that stand in its files."""

    def __str__(self) -> str:
        where = "the test report" if self.counted_by == "report" else "the files of the tree, as the run left no report"
        return f"{self.tests}, by {where}"


class TreeCounts(Struct, frozen=True, kw_only=True):
    """The counts of one tree."""

    tests: int
    """Tests in its files that are neither skipped nor empty."""
    files: int
    migrations: int


def tests_of(run: GateRun | None, code: Code) -> CountedTests:
    """Return the tests that a run reports; without a report, those that stand in the tree."""
    ran = run.tests.get("ran") if run is not None else None
    if isinstance(ran, int):
        return CountedTests(tests=ran, counted_by="report")
    return CountedTests(tests=tests_in(code), counted_by="tree")


def counts_of(code: Code) -> TreeCounts:
    """Return the counts of a tree."""
    return TreeCounts(
        tests=tests_in(code), files=len(code.inventory.paths), migrations=sum(map(is_migration, code.inventory.paths))
    )


def is_migration(path: str) -> bool:
    """Tell whether a file changes the tables of a database."""
    return _MIGRATION.fullmatch(path) is not None and not path.endswith("/__init__.py")


def fallen(before: TreeCounts, now: TreeCounts, since: str) -> tuple[str, ...]:
    """Return the counts of files and migrations that fell; those of tests are judged with the verification."""
    names: Sequence[tuple[str, Callable[[TreeCounts], int]]] = (
        ("files", lambda counts: counts.files),
        ("migrations", lambda counts: counts.migrations),
    )
    return tuple(
        f"The number of {name} fell from {of(before)} to {of(now)} since {since}."
        for name, of in names
        if of(now) < of(before)
    )


def tests_in(code: Code) -> int:
    """Return how many tests stand in the files of a tree; one that is skipped, or checks nothing, is not counted."""
    return sum(
        _tests_of_file(source.language, code.lines(source.path) or ())
        for source in code.inventory.sources
        if source.is_test
    )


def muted_tests(before: Code, now: Code) -> tuple[str, ...]:
    """Return the Python tests of a tree that stand in a later one by their name, and are skipped or empty there."""
    after = _named_tests(now)
    return tuple(name for name, is_real in _named_tests(before).items() if is_real and after.get(name) is False)


def _named_tests(code: Code) -> dict[str, bool]:
    """Return the Python tests of a tree by file and name; False for one that is skipped or checks nothing."""
    return {
        f"{source.path}::{name}": is_real
        for source in code.inventory.sources
        if source.is_test and source.language == "python"
        for name, is_real in _python_tests(code.lines(source.path) or ())
    }


def _tests_of_file(language: Language, lines: Sequence[str]) -> int:
    if language == "python":
        return sum(is_real for _, is_real in _python_tests(lines))
    pattern = _TEST_LINES.get(language)
    return 0 if pattern is None else sum(pattern.match(line) is not None for line in lines)


def _python_tests(lines: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the tests of a file by name, and whether each checks something; none of a file that cannot be read."""
    try:
        return _tests_of_module(parse_python("\n".join(lines)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # An expression can be parsed although it is nested too deeply to be written out again.
        return []


def _tests_of_module(module: ast.Module) -> list[tuple[str, bool]]:
    runs = not any(map(_skips_all, module.body))
    tests = [*_tests_of_body(module.body, "", runs=runs)]
    for each in module.body:
        if isinstance(each, ast.ClassDef):
            is_run = runs and not _is_skipped(each) and not any(map(_skips_all, each.body))
            tests += _tests_of_body(each.body, f"{each.name}.", runs=is_run)
    return tests


def _tests_of_body(body: Sequence[ast.stmt], prefix: str, *, runs: bool) -> Iterator[tuple[str, bool]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield f"{prefix}{node.name}", runs and _is_real_test(node)


def _is_real_test(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return (
        not _is_skipped(node)
        and not all(_does_nothing(statement) for statement in node.body)
        and not _skips_itself(node.body[0])
    )


def _is_skipped(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any("skip" in name or "xfail" in name for each in node.decorator_list for name in (ast.unparse(each),))


def _skips_all(statement: ast.stmt) -> bool:
    """Tell whether a statement of a module or a class keeps its tests from running."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in _SET_UP:
            return any(_skips_itself(each) for each in statement.body if not isinstance(each, ast.Return))
        case ast.FunctionDef(name="load_tests") | ast.Assign(targets=[ast.Name(id="__test__" | "__unittest_skip__")]):
            return True
        case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
            return "skip" in ast.unparse(value) or "xfail" in ast.unparse(value)
        case ast.Expr() | ast.Raise():
            return _skips_itself(statement)
        case _:
            return False


def _does_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.Assert(test=ast.Constant()):
            return True
        case ast.Return(value=value):
            return value is None or isinstance(value, ast.Constant)
        case _:
            return False


def _skips_itself(statement: ast.stmt) -> bool:
    match statement:
        case (
            ast.Expr(value=ast.Call(func=called))
            | ast.Raise(exc=ast.Call(func=called))
            | ast.Raise(exc=(ast.Name() | ast.Attribute()) as called)
        ):
            return "skip" in ast.unparse(called).lower()
        case ast.Return():
            return True
        case _:
            return False
