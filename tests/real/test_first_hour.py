"""The first hour on two real projects, from the wheel in an empty environment to a merged change."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.real.conftest import alone_with
from tests.real.first_hour import (
    ROOT,
    Terminal,
    Work,
    console_lines,
    environment,
    installed_aop,
    with_console,
)
from tests.real.test_first_projects import prepared

pytestmark = pytest.mark.real

PAGE = ROOT / "docs" / "first-hour.md"

PYTHON = Work(
    sentence="Add is_base64 to itsdangerous.encoding: it tells whether a text can be decoded",
    plan={
        "summary": "A predicate for texts that base64_decode accepts",
        "allowed_areas": ["src", "tests"],
        "files": {
            "create": [],
            "modify": ["src/itsdangerous/encoding.py", "tests/test_itsdangerous/test_encoding.py"],
            "delete": [],
        },
        "acceptance_criteria": ["`is_base64` is true for what base64_encode returns, and false for other texts"],
    },
    edits=(
        (
            "src/itsdangerous/encoding.py",
            "",
            "\n\ndef is_base64(string: str | bytes) -> bool:\n"
            "    try:\n        base64_decode(string)\n    except BadData:\n        return False\n    return True\n",
        ),
        (
            "tests/test_itsdangerous/test_encoding.py",
            "",
            "\n\ndef test_is_base64():\n"
            "    from itsdangerous.encoding import is_base64\n\n"
            '    assert is_base64(base64_encode("infinite"))\n    assert not is_base64("12345")\n',
        ),
    ),
    request=("Say in a docstring what it returns", "--file", "src/itsdangerous/encoding.py", "--lines", "57-62"),
    on_request=(
        (
            "src/itsdangerous/encoding.py",
            "def is_base64(string: str | bytes) -> bool:\n",
            "def is_base64(string: str | bytes) -> bool:\n"
            '    """Tell whether :func:`base64_decode` accepts a string."""\n',
        ),
    ),
)

NODE = Work(
    sentence="Test that concatMap keeps what is not an array",
    plan={
        "summary": "A test with texts and numbers",
        "allowed_areas": ["test"],
        "files": {"create": ["test/plain.js"], "modify": [], "delete": []},
        "acceptance_criteria": ["A text and a number are kept as they are"],
    },
    edits=(
        (
            "test/plain.js",
            "",
            "'use strict';\n\nvar concatMap = require('../');\nvar test = require('tape');\n\n"
            "test('keeps what is not an array', function (t) {\n\tt.plan(1);\n"
            "\tt.deepEqual(concatMap([1, 2], String), ['1', '2']);\n});\n",
        ),
    ),
    request=("Try a number too", "--file", "test/plain.js"),
    on_request=(
        (
            "test/plain.js",
            "\tt.plan(1);\n",
            "\tt.plan(2);\n\tt.deepEqual(concatMap([1, 2], Number), [1, 2]);\n",
        ),
    ),
)


@pytest.fixture(scope="session")
def aop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install AOP from its wheel, once for all workers of this run."""
    own = tmp_path_factory.getbasetemp()
    with alone_with((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "aop") as folder:
        program = folder / "tool/bin/aop"
        return program if program.exists() else installed_aop(folder)


@pytest.mark.timeout(900)
def test_a_python_project_from_the_wheel_to_a_merged_change(tmp_path: Path, aop: Path) -> None:
    shell = _first_hour(tmp_path, "itsdangerous", PYTHON, aop)
    if os.environ.get("AOP_WRITE_PAGE"):
        PAGE.write_text(with_console(PAGE.read_text(), shell.lines))
    assert console_lines(PAGE.read_text()) == shell.lines


@pytest.mark.timeout(900)
def test_a_node_project_from_the_wheel_to_a_merged_change(tmp_path: Path, aop: Path) -> None:
    _first_hour(tmp_path, "concat-map", NODE, aop)


def _first_hour(folder: Path, name: str, work: Work, aop: Path) -> Terminal:
    project = folder / name
    with prepared(name) as kept:
        shutil.copytree(kept, project, symlinks=True)
    shell = Terminal(project, environment(folder, aop, work))
    shell.types("aop", "init", "--yes", "--commit")
    shell.asks("aop", "doctor", "--gates")
    shell.types("aop", "fix", work.sentence, "--wait")
    feature = json.loads(shell.asks("aop", "status", "--json"))["data"]["features"][0]["feature_id"]
    shell.types("aop", "status")
    shell.types("aop", "review", feature)
    shell.types("aop", "request-changes", feature, *work.request)
    shell.types("aop", "resume", "--wait")
    shell.types("aop", "merge", feature, "--yes", "--message", work.sentence)
    shell.types("git", "log", "--oneline", "--first-parent")
    # The spec is the person's, to commit or to delete.
    assert shell.asks("git", "status", "--porcelain") == "?? agentic/features/\n"
    assert shell.asks("git", "stash", "list") == ""
    changed = shell.asks("git", "diff", "--name-only", "HEAD~1", "HEAD").split()
    assert changed == [*work.plan["files"]["create"], *work.plan["files"]["modify"]]
    shell.types("aop", "evidence", "verify")
    return shell
