"""Imports every module of a package under an audit hook, and prints as a JSON list what the imports touched.

    python -B import_watcher.py FOLDER PACKAGE

It runs in an interpreter of its own, because an audit hook cannot be taken off again.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

CODE_SUFFIXES = (".py", ".pyc", ".so")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
WORLD = (
    "fcntl.", "ftplib.", "http.", "os.chdir", "os.chmod", "os.exec", "os.fork", "os.kill", "os.link",
    "os.mkdir", "os.posix_spawn", "os.putenv", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.system",
    "os.truncate", "os.unsetenv", "shutil.", "signal.", "socket.", "sqlite3.connect", "subprocess.", "tempfile.",
    "urllib.", "webbrowser.",
)  # fmt: skip


class Watch:
    """What the module that is being imported reaches for."""

    def __init__(self) -> None:
        self.module = ""
        self.touched: list[str] = []

    def record(self, what: str) -> None:
        if self.module:
            self.touched.append(f"{self.module}: {what}")

    def on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not _is_loading_code(*arguments):
            self.record(f"open {arguments[0]!r}")
        elif event.startswith(WORLD):
            self.record(event)


def touched_by_imports(folder: Path, package: str) -> list[str]:
    """Import every module of the package, and return what each import reached for."""
    modules = modules_of(folder, package)
    for name in sorted({name for path in modules.values() for name in _imported_elsewhere(path, package)}):
        importlib.import_module(name)
    watch = Watch()
    _watch_what_has_no_audit_event(watch)
    sys.addaudithook(watch.on_event)
    for watch.module in modules:
        importlib.import_module(watch.module)
    watch.module = ""
    return watch.touched


def modules_of(folder: Path, package: str) -> dict[str, Path]:
    """Return every module of a package by its name, without importing any."""
    found = {}
    for path in sorted((folder / package).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imported_elsewhere(path: Path, package: str) -> set[str]:
    """Return what a module imports at import from outside the package: not its doing, so it is loaded before."""
    names: set[str] = set()
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name for name in names if name.partition(".")[0] != package}


def _is_loading_code(path: object, mode: object, flags: int) -> bool:
    return not flags & WRITING and isinstance(path, str) and path.endswith(CODE_SUFFIXES)


def _watch_what_has_no_audit_event(watch: Watch) -> None:
    read, start = type(os.environ).__getitem__, threading.Thread.start

    def read_recorded(environment: os._Environ[str], key: str) -> str:
        watch.record(f"os.environ[{key!r}]")
        return read(environment, key)

    def start_recorded(thread: threading.Thread) -> None:
        watch.record("Thread.start")
        start(thread)

    type(os.environ).__getitem__ = read_recorded  # type: ignore[method-assign]
    threading.Thread.start = start_recorded  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    print(json.dumps(touched_by_imports(Path(sys.argv[1]), sys.argv[2])))
