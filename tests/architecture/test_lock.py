"""The lock is complete, hashed, and says nothing of the machine that wrote it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8")
PINNED = re.compile(r"^([a-z0-9-]+)==([^ ;]+)[^\n]*\\\n    --hash=sha256:[0-9a-f]{64}", re.MULTILINE)


def test_the_lock_names_no_host_and_no_index() -> None:
    assert [line for line in LOCK.splitlines() if "://" in line or line.startswith("-")] == []


def test_every_line_that_is_no_comment_is_a_pin_or_its_hash() -> None:
    lines = [line for line in LOCK.splitlines() if not line.lstrip().startswith(("#", "--hash=sha256:"))]
    assert len(lines) == len(PINNED.findall(LOCK))


def test_the_lock_holds_every_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [line for lines in project["optional-dependencies"].values() for line in lines] + project["dependencies"]
    pinned = {name for name, _ in PINNED.findall(LOCK)}
    assert {re.split(r"[^A-Za-z0-9-]", line)[0] for line in declared} - pinned == set()
