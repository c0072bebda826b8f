"""Kept mutants: one small change of the source each, the control that it takes out, and the tests that must notice.

They stand in `rows/*.toml`, one file for each area. What a row says is checked without running a test: its text stands
once in its file, the changed module compiles, the named tests exist, and one of them claims the requirement.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "aop"
ROWS = Path(__file__).parent / "rows"
KEYS = frozenset(("id", "file", "old", "new", "breaks", "tests"))
REQUIREMENT = re.compile(r"[A-Z]+-[0-9]+")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One row of a file of mutants."""

    area: str
    """The name of the file of rows."""
    id: str
    file: str
    """The changed file, below `src/aop`."""
    old: str
    new: str
    breaks: str
    """The control that is taken out, after the id of a requirement where one asks for it."""
    tests: tuple[str, ...]

    @property
    def module(self) -> str:
        return ".".join(("aop", *Path(self.file).with_suffix("").parts))

    @property
    def requirements(self) -> frozenset[str]:
        return frozenset(REQUIREMENT.findall(self.breaks))

    def changed(self, source: str) -> str:
        """Return the source with the mutation; one that has no place, or two, is refused."""
        if (found := source.count(self.old)) != 1:
            problem = f"{self.area}/{self.id}: `old` stands {found} times in {self.file}; update this row."
            raise ValueError(problem)
        return source.replace(self.old, self.new)


def read_mutants(folder: Path = ROWS) -> list[Mutant]:
    """Return the mutants of all areas, in the order of the files."""
    return [mutant for path in sorted(folder.glob("*.toml")) for mutant in _read(path)]


def _read(path: Path) -> Iterator[Mutant]:
    for row in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
        if row.keys() != KEYS:
            problem = f"{path.name}: {row.get('id', 'a row')} must have exactly the keys {', '.join(sorted(KEYS))}."
            raise ValueError(problem)
        yield Mutant(area=path.stem, **{**row, "tests": tuple(row["tests"])})


def problems(mutant: Mutant, root: Path = ROOT) -> Iterator[str]:
    """Return why a row no longer says what it did."""
    place = root / "src" / "aop" / mutant.file
    try:
        compile(mutant.changed(place.read_text(encoding="utf-8")), mutant.file, "exec")
    except (OSError, SyntaxError, ValueError) as problem:
        yield str(problem)
    claimed = set[str]()
    for test in mutant.tests:
        path, _colons, name = test.partition("::")
        tests = _claims(root / path) if (root / path).is_file() else {}
        if name.partition("[")[0] not in tests:
            yield f"{mutant.area}/{mutant.id}: there is no test `{test}`; update this row."
        claimed |= tests.get(name.partition("[")[0], set())
    for missing in sorted(mutant.requirements - claimed):
        yield f"{mutant.area}/{mutant.id}: none of its tests is marked with `{missing}`."


@cache
def _claims(path: Path) -> dict[str, set[str]]:
    """Return the tests of a file, each with the requirements that it, its rows or its module claims."""
    body = ast.parse(path.read_bytes()).body
    marks = [each for each in body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark"]
    return {
        node.name: _requirements_in([*marks, *node.decorator_list])
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def _requirements_in(nodes: Sequence[ast.AST]) -> set[str]:
    constants = [each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return {str(each.value) for each in constants if REQUIREMENT.fullmatch(str(each.value))}
