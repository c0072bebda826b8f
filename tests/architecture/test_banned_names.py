"""Time, ids, chance, environment, processes and the network are handed in; tests use no mocks and no sleeps."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUFF = Path(sys.executable).with_name("ruff")

BANNED_IN_ROOMS = [
    "import asyncio\nstart = asyncio.create_subprocess_exec",
    "import datetime\nnow = datetime.datetime.now",
    "import http.client\nclient = http.client",
    "import os\nhome = os.environ",
    "import os\nhome = os.getenv",
    "import random\nnumber = random.random",
    "import secrets\ntoken = secrets.token_hex",
    "import socket\nopened = socket.socket",
    "import subprocess\nrun = subprocess.run",
    "import time\nnow = time.monotonic",
    "import time\nnow = time.time",
    "import urllib.request\nopened = urllib.request.urlopen",
    "import uuid\nnew = uuid.uuid4",
    "from datetime import datetime\nnow = datetime.now",
    "from time import time\nnow = time",
    "from unittest.mock import Mock\nmock = Mock",
]
INPUT_OUTPUT_CALLS = {
    "open", "input", "print", "eval", "exec", "cwd", "expanduser", "mkdir", "touch", "unlink", "lstat", "read_text",
    "read_bytes", "write_text", "write_bytes", "iterdir", "rglob", "is_file", "is_dir",
}  # fmt: skip
BANNED_IN_TESTS = {"monkeypatch.setattr", "time.sleep", "unittest.mock"}


@pytest.mark.parametrize("source", BANNED_IN_ROOMS)
@pytest.mark.parametrize("room", ["core", "kernel", "tickets"])
def test_a_room_may_not_reach_for(source: str, room: str) -> None:
    assert "TID251" in ruff_codes(f"src/aop/{room}/seeded.py", source)


@pytest.mark.parametrize("place", ["src/aop/adapters/seeded.py", "src/aop/wiring/seeded.py", "src/aop/cli/seeded.py"])
def test_the_outer_rooms_may_read_the_environment(place: str) -> None:
    assert "TID251" not in ruff_codes(place, "import os\nhome = os.environ")


def test_the_core_the_kernel_and_the_brains_call_nothing_that_reads_or_writes() -> None:
    found = [
        place for room in ("brains", "core", "kernel") for place in input_output_calls(ROOT / "src" / "aop" / room)
    ]
    assert found == []


def test_a_file_that_is_read_in_the_kernel_is_found(tmp_path: Path) -> None:
    (tmp_path / "seeded.py").write_text("from pathlib import Path\n\nTEXT = Path('a').read_text()\nFILE = open('a')\n")
    assert list(input_output_calls(tmp_path)) == ["seeded.py:3 read_text", "seeded.py:4 open"]


def test_no_test_mocks_patches_or_sleeps() -> None:
    assert list(mocked_in(ROOT / "tests")) == []


def test_a_mock_in_a_test_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_seeded.py").write_text(
        "from time import sleep\nimport unittest.mock\nfrom unittest import mock\n"
        "def test_it(monkeypatch): monkeypatch.setattr('a', 'b')\n"
    )
    assert sorted(mocked_in(tmp_path)) == [
        "test_seeded.py:1 time.sleep",
        "test_seeded.py:2 unittest.mock",
        "test_seeded.py:3 unittest.mock",
        "test_seeded.py:4 monkeypatch.setattr",
    ]


def ruff_codes(place: str, source: str) -> str:
    command = [str(RUFF), "check", "--select", "TID251", "--output-format", "concise", "--stdin-filename", place, "-"]
    return subprocess.run(
        command, input=source, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    ).stdout


def input_output_calls(folder: Path) -> Iterator[str]:
    for path, node in nodes_below(folder):
        match node:
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)) if called in INPUT_OUTPUT_CALLS:
                yield f"{path.relative_to(folder)}:{node.lineno} {called}"


def mocked_in(folder: Path) -> Iterator[str]:
    for path, node in nodes_below(folder, having=(b"setattr", b"sleep", b"mock")):
        for name in names_used(node):
            if name in BANNED_IN_TESTS:
                yield f"{path.relative_to(folder)}:{getattr(node, 'lineno', 0)} {name}"


def names_used(node: ast.AST) -> list[str]:
    """Return the dotted names that an import or an attribute stands for."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        case ast.Attribute():
            return [ast.unparse(node)]
        case _:
            return []


def nodes_below(folder: Path, having: Sequence[bytes] = (b"",)) -> Iterator[tuple[Path, ast.AST]]:
    """Return the nodes of all modules that have one of these words."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        if any(word in text for word in having):
            for node in ast.walk(ast.parse(text)):
                yield path, node
