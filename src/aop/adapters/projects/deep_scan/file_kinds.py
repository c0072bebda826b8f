"""Kinds of files: the language, manifest or lock file that a path stands for."""

from __future__ import annotations

import re

from aop.forge.scan.file_facts import Language

LARGEST_SOURCE = 1 << 20
LARGEST_MANIFEST = 1 << 20
LARGEST_LOCK = 32 << 20
LARGEST_SETTINGS = 256 << 10

_SUFFIXES: dict[str, Language] = {
    "py": "python",
    "pyi": "python",
    "js": "javascript",
    "jsx": "javascript",
    "mjs": "javascript",
    "cjs": "javascript",
    "ts": "typescript",
    "tsx": "typescript",
    "mts": "typescript",
    "cts": "typescript",
    "java": "java",
    "go": "go",
    "rs": "rust",
    "sql": "sql",
    "prisma": "prisma",
}
MANIFESTS = frozenset(
    "pyproject.toml setup.cfg package.json pom.xml build.gradle build.gradle.kts go.mod Cargo.toml Pipfile".split()
)
LOCKS = frozenset(
    "uv.lock poetry.lock pdm.lock Pipfile.lock package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml go.sum"
    " Cargo.lock".split()
)
VENDORED = frozenset("node_modules vendor third_party bower_components site-packages .venv venv dist-packages".split())
"""Folders with the code of others: counted, not read."""

_SETTINGS = frozenset("yaml yml toml json ini cfg conf properties xml tfvars".split())
_ENV = re.compile(r"(?:.*/)?(?:\.env(?:\.[\w.-]+)?|\.envrc|[\w.-]+\.env|\.npmrc|\.pypirc|\.netrc)")
_EXAMPLE = re.compile(r"\b(?:example|sample|template|dist|defaults?)\b", re.IGNORECASE)
_REQUIREMENTS = re.compile(r"(?:.*/)?(?:requirements[^/]*|requirements/[^/]+)\.(?:txt|in)")
_TEST_FILE = re.compile(
    r"(?:.*/)?(?:tests?|__tests__|spec|specs|testdata)/.*|(?:.*/)?(?:test_[^/]*|[^/]*_test|conftest)\.\w+"
    r"|(?:.*/)?[^/]*\.(?:test|spec)\.\w+|(?:.*/)?src/test/.*|(?:.*/)?[^/]*Tests?\.java"
)


def language_of(path: str) -> Language | None:
    """Return the language of a source file; None for every other file."""
    return _SUFFIXES.get(path.rpartition("/")[2].rpartition(".")[2])


def settings_in(path: str) -> Language | None:
    """Return the kind of a file with settings; None for every other file, and for examples of an environment."""
    name = path.rpartition("/")[2]
    if _ENV.fullmatch(path):
        return "settings" if _EXAMPLE.search(name) else "env"
    return "settings" if name.rpartition(".")[2] in _SETTINGS else None


def is_vendored(path: str) -> bool:
    """Tell whether a file is code of others that was put into the repository."""
    return not VENDORED.isdisjoint(path.split("/")[:-1])


def is_test(path: str) -> bool:
    """Tell whether a file belongs to the tests."""
    return _TEST_FILE.fullmatch(path) is not None


def is_manifest(path: str) -> bool:
    """Tell whether a file says which packages the project needs."""
    if path.endswith((".txt", ".in")):
        return _REQUIREMENTS.fullmatch(path) is not None
    return path.rpartition("/")[2] in MANIFESTS


def is_lock(path: str) -> bool:
    """Tell whether a file pins the packages of a manifest."""
    return path.rpartition("/")[2] in LOCKS
