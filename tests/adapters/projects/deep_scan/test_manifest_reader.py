"""Manifests and lock files of each ecosystem, and those that cannot be read."""

from __future__ import annotations

import pytest

from aop.adapters.projects.deep_scan.manifests.manifest_reader import read_lock, read_manifest


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "pyproject.toml",
            '[project]\ndependencies = [\n  "a>=1 ; python_version > \'3\'",\n  "B_c[x]==2",\n]\n'
            "[project.optional-dependencies]\ntest = ['d']\n",
            [("a", ">=1", "runtime", 3), ("B_c", "==2", "runtime", 4), ("d", "", "development", 7)],
        ),
        (
            "pyproject.toml",
            '[tool.poetry.dependencies]\npython = "^3.9"\na = "^1.2"\nb = {version = "*"}\n',
            [("a", "^1.2", "runtime", 3), ("b", "", "runtime", 4)],
        ),
        (
            "requirements-dev.txt",
            "# no\n-r other.txt\na==1.0 --hash=sha256:0\nhttps://x.org/y.whl\n",
            [("a", "==1.0", "development", 3)],
        ),
        (
            "setup.cfg",
            "[options]\ninstall_requires =\n    a>=1\n    b\n",
            [("a", ">=1", "runtime", 3), ("b", "", "runtime", 4)],
        ),
        (
            "package.json",
            '{\n "dependencies": {\n  "@x/y": "^1"\n },\n "devDependencies": {"z": "2"}\n}\n',
            [("@x/y", "^1", "runtime", 3), ("z", "2", "development", 5)],
        ),
        (
            "pom.xml",
            "<project xmlns='m'>\n<properties><v>1.2</v></properties>\n<dependencies>\n<dependency><groupId>g</groupId>"
            "<artifactId>a</artifactId><version>${v}</version><scope>test</scope></dependency>\n</dependencies></project>",
            [("g:a", "1.2", "development", 4)],
        ),
        (
            "build.gradle.kts",
            'dependencies {\n  implementation("g:a:1.2")\n  testImplementation("g:b")\n}\n',
            [("g:a", "1.2", "runtime", 2), ("g:b", "", "development", 3)],
        ),
        (
            "go.mod",
            "module m.org/x\ngo 1.21\nrequire (\n\ta.org/b v1.2.3\n\tc.org/d v0.1.0 // indirect\n)\n",
            [("a.org/b", "v1.2.3", "runtime", 4), ("c.org/d", "v0.1.0", "optional", 5)],
        ),
        (
            "Cargo.toml",
            '[dependencies]\na = "1"\nb = { version = "2", features = [] }\n',
            [("a", "1", "runtime", 2), ("b", "2", "runtime", 3)],
        ),
    ],
)
def test_a_manifest_asks_for_packages(path: str, text: str, expected: list[tuple[str, str, str, int]]) -> None:
    facts = read_manifest(path, text.encode())
    assert facts.problem == ""
    assert [(each.name, each.constraint, each.group, each.line) for each in facts.dependencies] == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("uv.lock", '[[package]]\nname = "A_b"\nversion = "1.0"\n', {"a-b": ("1.0",)}),
        (
            "Cargo.lock",
            '[[package]]\nname = "a"\nversion = "1"\n[[package]]\nname = "a"\nversion = "2"\n',
            {"a": ("1", "2")},
        ),
        ("Pipfile.lock", '{"default": {"a": {"version": "==1.0"}}}', {"a": ("1.0",)}),
        (
            "package-lock.json",
            '{"packages": {"": {}, "node_modules/@x/y": {"version": "1.0.0"},'
            ' "node_modules/z/node_modules/y": {"version": "2"}}}',
            {"@x/y": ("1.0.0",)},
        ),
        ("package-lock.json", '{"dependencies": {"a": {"version": "1.0.0"}}}', {"a": ("1.0.0",)}),
        ("yarn.lock", '# yarn\n"@x/y@^1.0.0", "@x/y@^1.1.0":\n  version "1.2.0"\n', {"@x/y": ("1.2.0",)}),
        (
            "pnpm-lock.yaml",
            "packages:\n\n  /@x/y@1.2.0:\n    resolution: {}\n  'z@2.0.0(a@1)':\n",
            {"@x/y": ("1.2.0",), "z": ("2.0.0",)},
        ),
        ("go.sum", "a.org/b v1.2.3 h1:x=\na.org/b v1.2.3/go.mod h1:y=\n", {"a.org/b": ("v1.2.3",)}),
    ],
)
def test_a_lock_file_pins_versions(path: str, text: str, expected: dict[str, tuple[str, ...]]) -> None:
    facts = read_lock(path, text.encode())
    assert (facts.problem, facts.versions) == ("", expected)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("pyproject.toml", b"\xff\xfe"),
        ("pyproject.toml", b"a = " + b"[" * 20_000),
        ("package.json", b"[]"),
        ("package.json", b"{" * 20_000),
        ("pom.xml", b'<!DOCTYPE x [<!ENTITY a "b">]><project/>'),
        ("pom.xml", b"<project>" * 50_000),
        ("setup.cfg", b"no section\n"),
        ("Cargo.toml", b"= = ="),
    ],
)
def test_a_manifest_that_cannot_be_read_has_a_problem_and_asks_for_nothing(path: str, content: bytes) -> None:
    facts = read_manifest(path, content)
    assert facts.problem
    assert facts.dependencies == ()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("uv.lock", b"package = 1\n[["),
        ("package-lock.json", b"nothing"),
        ("Pipfile.lock", b"[1]"),
        ("Cargo.lock", b"\xff"),
    ],
)
def test_a_lock_file_that_cannot_be_read_has_a_problem_and_pins_nothing(path: str, content: bytes) -> None:
    facts = read_lock(path, content)
    assert (bool(facts.problem), facts.versions) == (True, {})


def test_values_of_another_type_are_not_taken() -> None:
    assert read_manifest("package.json", b'{"dependencies": [1, 2], "scripts": 3}').dependencies == ()
    [odd] = read_manifest("package.json", b'{"dependencies": {"a": {"b": 1}}}').dependencies
    assert (odd.name, odd.constraint) == ("a", "")
