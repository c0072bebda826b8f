"""The stack of a repository: by its manifests, and by imports where no manifest names a framework."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from aop.forge.scan.file_facts import Dependency, ImportFact, Language, ManifestFacts, SourceFacts
from aop.forge.scan.findings.assembly import report_of
from aop.forge.scan.inventory import Inventory, SourceFile
from aop.forge.scan.report import StackPart

SUFFIXES: Mapping[Language, str] = {"python": "py", "typescript": "ts", "go": "go"}


def parts(part: str, language: Language, *imports: str, asked_for: str = "", tests: bool = False) -> list[StackPart]:
    facts = SourceFacts(lines=9, imports=tuple(ImportFact(3 + n, name) for n, name in enumerate(imports)))
    path = f"{'tests' if tests else 'app'}/main.{SUFFIXES[language]}"
    needed = (Dependency(name=asked_for, constraint="==1.0", ecosystem="python", line=2),) if asked_for else ()
    inventory = Inventory(
        commit="c" * 40,
        sources=(SourceFile(path=path, language=language, facts=facts, is_test=tests),),
        manifests={"pyproject.toml": ManifestFacts(ecosystem="python", dependencies=needed)} if asked_for else {},
        paths=(path,),
    )
    return list(getattr(report_of(inventory, name="shop").stack_profile, part))


def part(name: str, file: str, line: int, version: str = "unknown") -> StackPart:
    return StackPart(name=name, version=version, file=file, line=line)


@pytest.mark.parametrize(
    ("kind", "language", "imported", "name"),
    [
        ("backend", "python", "flask.views", "flask"),
        ("backend", "typescript", "@nestjs/core", "@nestjs/core"),
        ("frontend", "typescript", "react", "react"),
        ("database", "go", "gorm.io/gorm", "gorm.io/gorm"),
    ],
)
def test_a_framework_that_only_an_import_shows_is_named_with_its_place(
    kind: str, language: Language, imported: str, name: str
) -> None:
    assert parts(kind, language, "os", imported) == [part(name, f"app/main.{SUFFIXES[language]}", 4)]


def test_a_manifest_that_names_it_says_more() -> None:
    assert parts("backend", "python", "flask", asked_for="Flask") == [part("Flask", "pyproject.toml", 2, "==1.0")]
    asked_for = "psycopg2-binary"
    assert parts("database", "python", "psycopg2", asked_for=asked_for) == [
        part(asked_for, "pyproject.toml", 2, "==1.0")
    ]


def test_what_only_tests_import_is_a_part_of_testing_alone() -> None:
    assert parts("backend", "python", "flask", tests=True) == []
    assert parts("testing", "python", "pytest", tests=True) == [part("pytest", "tests/main.py", 3)]
