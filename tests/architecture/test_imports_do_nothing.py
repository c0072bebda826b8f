"""Importing a module defines names; it reads no file, no environment, and starts nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WATCHER = Path(__file__).with_name("import_watcher.py")

SEEDED = {
    "reads a file": ("open('/etc/hostname').close()", "open '/etc/hostname'"),
    "writes a file": ("open('/dev/null', 'w').close()", "open '/dev/null'"),
    "reads the environment": ("import os\nHOME = os.environ.get('HOME')", "os.environ['HOME']"),
    "changes the environment": ("import os\nos.environ['SEEDED'] = '1'", "os.putenv"),
    "opens a socket": ("import socket\nsocket.socket().close()", "socket.__new__"),
    "opens a database": ("import sqlite3\nsqlite3.connect(':memory:').close()", "sqlite3.connect"),
    "starts a process": ("import subprocess\nsubprocess.run(['true'])", "subprocess.Popen"),
    "starts a thread": ("import threading\nthreading.Thread(target=print).start()", "Thread.start"),
}


def test_importing_every_module_touches_nothing() -> None:
    assert touched(ROOT / "src", "aop") == []


@pytest.mark.parametrize(("source", "what"), SEEDED.values(), ids=SEEDED)
def test_the_watcher_catches_a_module_that(source: str, what: str, tmp_path: Path) -> None:
    seed(tmp_path, source)
    assert f"seeded.culprit: {what}" in touched(tmp_path, "seeded")


def test_a_module_that_only_defines_names_touches_nothing(tmp_path: Path) -> None:
    seed(tmp_path, "import re\nimport subprocess\nWORD = re.compile('[a-z]+')\ndef start(): subprocess.run(['true'])")
    assert touched(tmp_path, "seeded") == []


def seed(folder: Path, source: str) -> None:
    package = folder / "seeded"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "culprit.py").write_text(source)


def touched(folder: Path, package: str) -> list[str]:
    command = [sys.executable, "-B", str(WATCHER), str(folder), package]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    lines: list[str] = json.loads(ended.stdout)
    return lines
