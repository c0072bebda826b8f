"""Imports point down, and only the adapters reach the world: the contracts hold, and each of them can fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

POINT_DOWN = "Imports point down"
NO_DOUBLES = "Shipped code never imports the test doubles"
WORLD = "Only the adapters reach processes and the network"
KERNEL = "The kernel: tools stand on rules, rules on the gateway, the gateway on the record"
ADAPTERS = "The outside world, one folder per system"
SERVERS = "The servers ask no model without the operator's word"
NO_INPUT_OUTPUT = "The core, the kernel and the brains do no input or output"

CONTRACTS = {
    contract["name"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
SEEDED = {
    "the core imports the kernel": ("core/seeded.py", "import aop.kernel", POINT_DOWN),
    "the kernel imports an adapter": ("kernel/gates/seeded.py", "from aop import adapters", POINT_DOWN),
    "the kernel imports an adapter inside a function": (
        "kernel/gates/seeded.py",
        "def late() -> None:\n    import aop.adapters",
        POINT_DOWN,
    ),
    "the brains import their sibling, the kernel": ("brains/__init__.py", "import aop.kernel", POINT_DOWN),
    "a package is not in the stack": ("seeded/__init__.py", "", POINT_DOWN),
    "the web imports the doubles": ("web/__init__.py", "import aop.testing.seeded", NO_DOUBLES),
    "a room of the kernel is not in its stack": ("kernel/seeded.py", "", KERNEL),
    "the record imports the gateway": ("kernel/record/port.py", "import aop.kernel.gateway", KERNEL),
    "files import git": (
        "adapters/files/exchange.py",
        "import aop.adapters.git",
        "The outside world, one folder per system",
    ),
    "the gated machine imports its session": (
        "gated/machine/seeded.py",
        "import aop.gated.session",
        "Gated: tools, one session, a pure machine",
    ),
    "the kernel starts a process": ("kernel/gates/seeded.py", "import subprocess", WORLD),
    "the kernel opens a socket": ("kernel/gates/seeded.py", "from socket import socket", WORLD),
    "a capability has an HTTP client": ("tickets/__init__.py", "import httpx", WORLD),
    "the kernel opens a database": ("kernel/gates/seeded.py", "import sqlite3", NO_INPUT_OUTPUT),
    "the brains ask a provider": ("brains/seeded.py", "import pydantic_ai", WORLD),
    "a server composes a model": ("mcpserver/stdio.py", "def late() -> None:\n    import aop.wiring.models", SERVERS),
    "the core asks the system": ("core/seeded.py", "import os", NO_INPUT_OUTPUT),
}


def test_the_import_stack_holds() -> None:
    ended = lint_imports(ROOT)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.req("AOP-017", "SCAF-04", "REV-03")
@pytest.mark.parametrize(("module", "source", "contract"), SEEDED.values(), ids=SEEDED)
def test_the_import_stack_breaks_when(module: str, source: str, contract: str, tmp_path: Path) -> None:
    package = skeleton(tmp_path)
    path = package / module
    path.parent.mkdir(exist_ok=True)
    path.parent.joinpath("__init__.py").touch()
    path.write_text(source)
    found = verdicts(lint_imports(tmp_path))
    assert {name for name, verdict in found.items() if verdict == "BROKEN"} == {contract}
    assert found.keys() == CONTRACTS


def test_an_adapter_may_reach_processes_and_the_network(tmp_path: Path) -> None:
    skeleton(tmp_path).joinpath("adapters", "machine", "seeded.py").write_text(
        "import os, socket, sqlite3, subprocess, httpx"
    )
    assert set(verdicts(lint_imports(tmp_path)).values()) == {"KEPT"}


def skeleton(folder: Path) -> Path:
    """Make a project of empty modules, in the same rooms as the real one."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    package = folder / "src" / "aop"
    for module in (ROOT / "src" / "aop").rglob("*.py"):
        empty = package / module.relative_to(ROOT / "src" / "aop")
        empty.parent.mkdir(parents=True, exist_ok=True)
        empty.touch()
    (package / "testing" / "seeded.py").touch()
    return package


def lint_imports(project: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(project / "src"), "NO_COLOR": "1", "COLUMNS": "200"}
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
