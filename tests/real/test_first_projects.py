"""`aop init` on small real projects from PyPI and npm: green in all modes, without a hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import REAL, alone_with
from tests.world import git, run_aop

pytestmark = pytest.mark.real

PROJECTS = REAL / "projects"
PYTHON = {
    "iniconfig": "2.3.1",
    "itsdangerous": "2.2.0",
    "python-slugify": "9.1.3",
    "humanize": "4.16.0",
    "markupsafe": "3.0.4",
}
"""Projects whose source distribution holds their tests. Their developers work in a `.venv`."""
NEEDS = {"itsdangerous": ("freezegun",), "humanize": ("freezegun",)}
NODE = {"concat-map": "0.0.2", "function-bind": "1.1.2", "minimist": "1.2.8"}
"""Packages that hold their tests. Their developers run `npm install`."""


def run(*words: str, cwd: Path) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False, timeout=380)
    assert done.returncode == 0, f"`{' '.join(words[:4])}`: {done.stderr[-300:]}"


def unpacked(archive: Path, root: Path) -> None:
    """Unpack a project and make it the first commit of a repository."""
    with tarfile.open(archive) as tar:
        top = tar.getnames()[0].split("/")[0]
        tar.extractall(root.parent / f"{root.name}.new", filter="data")
    (root.parent / f"{root.name}.new" / top).rename(root)
    shutil.rmtree(root.parent / f"{root.name}.new")
    ignore = root / ".gitignore"
    ignored = ignore.read_text() if ignore.exists() else ""
    ignore.write_text(f"{ignored}\n.venv/\nnode_modules/\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Begin")


@contextmanager
def prepared(name: str) -> Iterator[Path]:
    """Have a repository of a project, as its developers have it; it is kept for the next time."""
    with alone_with(PROJECTS / name) as root:
        if not (root / ".git/prepared").exists():
            shutil.rmtree(root, ignore_errors=True)
            if name in PYTHON:
                prepare_python(name, root)
            else:
                prepare_node(name, root)
            (root / ".git/prepared").touch()
        for left in ("agentic", ".aop"):
            shutil.rmtree(root / left, ignore_errors=True)
        yield root


def prepare_python(name: str, root: Path) -> None:
    fetched = PROJECTS / "archives"
    pinned = f"{name}=={PYTHON[name]}"
    # The environment of the tests has no pip where the Python that made it has one.
    pip = (f"{sys.base_prefix}/bin/python3", "-m", "pip")
    run(*pip, "download", "-q", "--no-binary", name, "--no-deps", "-d", str(fetched), pinned, cwd=PROJECTS)
    (archive,) = fetched.glob(f"{name.replace('-', '?')}-*.tar.gz")
    unpacked(archive, root)
    run("python3", "-m", "venv", ".venv", cwd=root)
    run(".venv/bin/python", "-m", "pip", "install", "-q", "-e", ".", "pytest", *NEEDS.get(name, ()), cwd=root)


def prepare_node(name: str, root: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is missing")
    fetched = PROJECTS / "archives"
    fetched.mkdir(exist_ok=True)
    run("npm", "pack", "--silent", f"{name}@{NODE[name]}", cwd=fetched)
    unpacked(fetched / f"{name}-{NODE[name]}.tgz", root)
    run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", cwd=root)


@pytest.mark.parametrize("name", [*PYTHON, *NODE])
def test_the_gates_of_a_real_project_are_green_after_init(name: str) -> None:
    with prepared(name) as root:
        ran = run_aop(root, "init", "--yes", "--json")
        assert ran.code == 0, ran.err
        report: Any = ran.json["data"]
        assert sorted(os.listdir(root / "agentic/orchestrator")) == ["agents.yaml", "gates.yaml", "policy.yaml"]
        assert {one["mode"]: one["result"] for one in report["gates"]} == {
            "fast": "pass",
            "full": "pass",
            "merge": "pass",
        }, ran.err
        assert run_aop(root, "doctor", "--gates").code == 0
