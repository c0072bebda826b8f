"""`make mutants` itself: a few mutants are killed, and one that changes nothing survives or is an error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.mutants import ROOT

FEW = (
    "paths/absolute",
    "paths/dotdot",
    "paths/fold",
    "gateway/actor",
    "tokens/expiry",
    "fences/old-supervisor",
)
OLD = "return f\"{number} {one if number == 1 else many or one + 's'}\""
TEST = "tests/core/text/test_counts.py::test_a_count_agrees_with_its_noun"
ROWS = {
    "killed": (OLD, 'return f"{number} {one}"', TEST),
    "survived": (OLD, f"{OLD}  # as before", TEST),
    "undefined-name": (OLD, "return undefined", TEST),
    "import-fails": ("def count(", "undefined()\n\n\ndef count(", TEST),
    "no-such-row": (OLD, 'return f"{number} {one}"', f"{TEST}[gone]"),
    "no-such-text": ("there is no such text", "", TEST),
}


def run(*words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    command = [sys.executable, "-m", "tests.mutants.run", "--json", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert ended.stdout, ended.stderr
    return ended.returncode, {each["id"]: each for each in json.loads(ended.stdout)["mutants"]}


@pytest.mark.slow
def test_a_few_mutants_of_the_list_are_killed() -> None:
    code, ends = run(*(f"--only={name}" for name in FEW))
    assert {f"{each['area']}/{each['id']}": each["verdict"] for each in ends.values()} == dict.fromkeys(FEW, "killed")
    assert code == 0


@pytest.mark.slow
def test_what_no_test_notices_survives_and_what_only_breaks_is_no_kill(tmp_path: Path) -> None:
    names = ("id", "old", "new", "tests")
    rows = [dict(zip(names, (name, old, new, [test]), strict=True)) for name, (old, new, test) in ROWS.items()]
    same = {"file": "core/text/counts.py", "breaks": "A number agrees with its noun"}
    tables = ["\n".join(f"{key} = {json.dumps(value)}" for key, value in {**row, **same}.items()) for row in rows]
    (tmp_path / "tried.toml").write_text("".join(f"[[mutant]]\n{table}\n" for table in tables))
    code, ends = run("--rows", str(tmp_path))
    assert {name: each["verdict"] for name, each in ends.items()} == {
        "killed": "killed",
        "survived": "survived",
        "undefined-name": "error",
        "import-fails": "error",
        "no-such-row": "error",
        "no-such-text": "error",
    }
    assert code == 1
    assert ends["killed"]["why"].startswith(TEST)
    assert "does not import" in ends["import-fails"]["why"]
    assert "NameError" in ends["undefined-name"]["why"]
    assert "`old` stands 0 times" in ends["no-such-text"]["why"]


def test_a_name_that_is_neither_a_mutant_nor_an_area_is_refused() -> None:
    command = [sys.executable, "-m", "tests.mutants.run", "--only", "no such area"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (2, "There is no mutant or area no such area.\n")
