"""Counts that may not fall: tests by report and by tree, files, migrations."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from aop.forge.builds.audit import counts
from aop.forge.builds.audit.counts import TreeCounts, counts_of, fallen, is_migration, muted_tests
from aop.forge.check.clauses import Code
from aop.forge.scan.file_facts import Language, SourceFacts
from aop.forge.scan.inventory import Inventory, SourceFile


def _code(files: Mapping[str, str], language: Language = "python") -> Code:
    sources = tuple(
        SourceFile(path=path, language=language, facts=SourceFacts(1), is_test="test" in path) for path in files
    )
    return Code(
        inventory=Inventory(sources=sources, paths=tuple(files)),
        paths=tuple(files),
        lines=lambda path: files[path].split("\n"),
    )


REAL = "def test_a():\n    assert f() == 1\n"
IN_CLASS = REAL.replace("\n", "\n    ")


@pytest.mark.parametrize(
    ("text", "tests"),
    [
        (REAL, 1),
        (f"class TestIt:\n    {IN_CLASS}", 1),
        ("async def test_a():\n    await f()\n", 1),
        ("def test_a():\n    pass\n", 0),
        ("def test_a():\n    ...\n", 0),
        ('def test_a():\n    """Says much."""\n', 0),
        ("def test_a():\n    assert True\n", 0),
        ("def test_a():\n    return\n    assert f()\n", 0),
        (f"import pytest\n\n@pytest.mark.skip\n{REAL}", 0),
        (f"import unittest\n\n@unittest.skip('later')\n{REAL}", 0),
        ("import pytest\n\ndef test_a():\n    pytest.skip('later')\n    assert f()\n", 0),
        (f"import pytest\n\npytest.skip('later', allow_module_level=True)\n{REAL}", 0),
        (f"import pytest\n\npytestmark = pytest.mark.skip\n{REAL}", 0),
        (f"from unittest import SkipTest\n\nraise SkipTest\n{REAL}", 0),
        (f"def setUpModule():\n    raise SkipTest('later')\n{REAL}", 0),
        (f"def load_tests(loader, tests, pattern):\n    return loader.suiteClass()\n{REAL}", 0),
        (f"class TestIt:\n    def setUp(self):\n        self.skipTest('later')\n    {IN_CLASS}", 0),
        (f"class TestIt:\n    __test__ = False\n    {IN_CLASS}", 0),
        (f"class TestIt:\n    def setUp(self):\n        self.x = 1\n        return\n    {IN_CLASS}", 1),
        ("def test_a(:\n", 0),
        (f"@x{'.a' * 400}\n{REAL}", 0),
        ("def helper():\n    assert f()\n", 0),
    ],
)
def test_a_test_counts_unless_it_is_skipped_or_checks_nothing(text: str, tests: int) -> None:
    assert counts.tests_in(_code({"tests/test_a.py": text})) == tests


def test_a_test_that_is_skipped_or_emptied_later_is_named() -> None:
    before = _code({"tests/test_a.py": f"{REAL}\n\nclass TestB:\n    def test_b(self):\n        assert f()\n"})
    emptied = REAL.replace("assert f() == 1", "pass")
    after = _code({"tests/test_a.py": f"{emptied}\n\n@skip\nclass TestB:\n    def test_b(self):\n        assert f()\n"})
    assert muted_tests(before, after) == ("tests/test_a.py::test_a", "tests/test_a.py::TestB.test_b")
    assert muted_tests(before, before) == muted_tests(after, before) == ()


def test_tests_of_other_languages_are_counted_by_their_lines() -> None:
    script = "test('one', () => {})\n  it('two', () => {})\nit.skip('three', () => {})\nxit('four', () => {})\n"
    assert counts.tests_in(_code({"a.test.js": script}, "javascript")) == 2
    assert counts.tests_in(_code({"a_test.go": "func TestA(t *testing.T) {\n}\nfunc helper() {}\n"}, "go")) == 1
    assert counts.tests_in(_code({"tests/a.rs": "#[test]\nfn a() {}\n#[tokio::test]\nfn b() {}\n"}, "rust")) == 2


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("app/migrations/0001_init.py", True),
        ("alembic/versions/1a2b.py", True),
        ("db/migrate/1.sql", True),
        ("app/migrations/__init__.py", False),
        ("docs/migrations.md", False),
    ],
)
def test_migrations_are_found_by_their_folder(path: str, is_one: bool) -> None:  # noqa: FBT001 - a table's column
    assert is_migration(path) is is_one


def test_each_count_that_fell_is_named() -> None:
    before = TreeCounts(tests=3, files=5, migrations=2)
    assert fallen(before, TreeCounts(tests=3, files=4, migrations=1), "the baseline") == (
        "The number of files fell from 5 to 4 since the baseline.",
        "The number of migrations fell from 2 to 1 since the baseline.",
    )
    assert fallen(before, before, "the baseline") == ()


def test_the_counts_of_a_tree() -> None:
    code = _code({"a.py": "", "tests/test_a.py": REAL, "app/migrations/1.sql": ""})
    assert counts_of(code) == TreeCounts(tests=1, files=3, migrations=1)
