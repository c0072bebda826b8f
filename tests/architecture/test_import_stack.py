"""Imports point down, and only the adapters reach the world: the contracts hold, and each of them can fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

POINT_DOWN = "Imports point down"
NO_DOUBLES = "Shipped code never imports the test doubles"
WORLD = "Only the adapters reach processes and the network"
NO_INPUT_OUTPUT = "The core, the kernel and the brains do no input or output"

SEEDED = {
    "the core imports the kernel": ("core/seeded.py", "import aop.kernel", POINT_DOWN),
    "the kernel imports an adapter": ("kernel/seeded.py", "from aop import adapters", POINT_DOWN),
    "the kernel imports an adapter inside a function": (
        "kernel/seeded.py",
        "def late() -> None:\n    import aop.adapters",
        POINT_DOWN,
    ),
    "the brains import their sibling, the kernel": ("brains/__init__.py", "import aop.kernel", POINT_DOWN),
    "a package is not in the stack": ("seeded/__init__.py", "", POINT_DOWN),
    "the web imports the doubles": ("web/__init__.py", "import aop.testing.seeded", NO_DOUBLES),
    "the kernel starts a process": ("kernel/seeded.py", "import subprocess", WORLD),
    "the kernel opens a socket": ("kernel/seeded.py", "from socket import socket", WORLD),
    "a capability has an HTTP client": ("tickets/__init__.py", "import httpx", WORLD),
    "the kernel opens a database": ("kernel/seeded.py", "import sqlite3", NO_INPUT_OUTPUT),
    "the brains ask a provider": ("brains/seeded.py", "import pydantic_ai", WORLD),
    "the core asks the system": ("core/seeded.py", "import os", NO_INPUT_OUTPUT),
}


def test_the_import_stack_holds() -> None:
    ended = lint_imports(ROOT)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.req("SCAF-04", "REV-03")
@pytest.mark.parametrize(("module", "source", "contract"), SEEDED.values(), ids=SEEDED)
def test_the_import_stack_breaks_when(module: str, source: str, contract: str, tmp_path: Path) -> None:
    package = skeleton(tmp_path)
    path = package / module
    path.parent.mkdir(exist_ok=True)
    path.parent.joinpath("__init__.py").touch()
    path.write_text(source)
    assert verdicts(lint_imports(tmp_path)) == {
        name: "BROKEN" if name == contract else "KEPT" for name in (POINT_DOWN, NO_DOUBLES, WORLD, NO_INPUT_OUTPUT)
    }


def test_an_adapter_may_reach_processes_and_the_network(tmp_path: Path) -> None:
    skeleton(tmp_path).joinpath("adapters", "seeded.py").write_text("import os, socket, sqlite3, subprocess, httpx")
    assert set(verdicts(lint_imports(tmp_path)).values()) == {"KEPT"}


def skeleton(folder: Path) -> Path:
    """Make the smallest project that the contracts of the real one fit."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    package = folder / "src" / "aop"
    for name in ("brains", "core", "kernel", "adapters", "testing"):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "testing" / "seeded.py").touch()
    return package


def lint_imports(project: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(project / "src"), "NO_COLOR": "1"}
    return subprocess.run(
        [str(LINT_IMPORTS), "--no-cache"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def verdicts(ended: subprocess.CompletedProcess[str]) -> dict[str, str]:
    lines = [line.rpartition(" ") for line in ended.stdout.splitlines()]
    return {name: verdict for name, _, verdict in lines if verdict in ("KEPT", "BROKEN")}
