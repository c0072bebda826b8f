"""What a deep scan costs beside reading the same blobs and parsing each of them once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, cast

from msgspec import Struct

from bench.agents import megabytes, tree_of
from bench.effort import Effort
from bench.mcp import AOP
from bench.measurements import Budget, Measurement
from bench.scenes import git, make_repository

SOURCES = Path(__file__).parents[1] / "src" / "aop"
MOST_MEMORY_MB = 300.0
EVERY_SECONDS = 0.2


class _Scanned(Struct, frozen=True):
    milliseconds: float
    megabytes: float


def deep_scan(effort: Effort) -> Iterator[Measurement]:
    """Measure a first scan of many files, and one after a single file changed."""
    files, root = effort.files[-1], effort.folder
    contents = _contents(files)
    make_repository(root, contents)
    subprocess.run([*AOP, "forge", "new", "Bench"], cwd=root, check=True, capture_output=True)
    floor = _floor(root)
    first = _scan(root)
    (root / next(iter(contents))).write_text("import os\n")
    git(root, "commit", "-qam", "Change one file")
    again = _scan(root)
    name = "git cat-file and one parse of each file"
    yield Measurement(
        name=f"forge scan of {files} files",
        ours=first.milliseconds,
        floor=floor,
        floor_name=name,
        budget=Budget("times", 1.3),
    )
    yield Measurement(
        name=f"forge scan of {files} files after one changed",
        ours=again.milliseconds,
        floor=floor,
        floor_name=name,
        budget=Budget("times", 0.1),
    )
    yield Measurement(
        name=f"memory of forge scan, {files} files",
        unit="MB",
        ours=max(first.megabytes, again.megabytes),
        budget=Budget("at most", MOST_MEMORY_MB),
    )


def _contents(files: int) -> Mapping[str, str]:
    """Return AOP's own sources, as often as needed; a last line makes each file a blob of its own."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCES.rglob("*.py"))}
    own = [(path.relative_to(SOURCES).as_posix(), text) for path, text in texts.items() if text.isascii()]
    return {
        f"part{number // len(own)}/{own[number % len(own)][0]}": f"{own[number % len(own)][1]}# {number}\n"
        for number in range(files)
    }


def _floor(root: Path) -> float:
    """Return the milliseconds that one process takes to read all blobs and to parse them."""
    # Its grammar is a part of the extra `forge`, which other measurements do without.
    package = import_module("tree_sitter")
    grammar = package.Language(import_module("tree_sitter_python").language())
    parser = package.Parser(grammar)
    began = time.perf_counter()
    oids = [line.split()[2] for line in git(root, "ls-tree", "-r", "HEAD").splitlines()]
    asked = root / ".git" / "asked"
    asked.write_bytes(b"\n".join(oids) + b"\n")
    with (
        asked.open("rb") as given,
        subprocess.Popen(
            ["git", "cat-file", "--batch", "--buffer"], cwd=root, stdin=given, stdout=subprocess.PIPE
        ) as process,
    ):
        answers = cast("IO[bytes]", process.stdout)
        for _ in oids:
            size = int(answers.readline().split()[2])
            parser.parse(answers.read(size + 1)[:-1])
    return (time.perf_counter() - began) * 1000


def _scan(root: Path) -> _Scanned:
    """Return the time of a scan as a process, and the most memory that it and its workers had together."""
    began, most = time.perf_counter(), 0.0
    with subprocess.Popen(
        [sys.executable, "-m", "aop.cli.main", "forge", "scan", "bench", "--json"],
        cwd=root,
        env=os.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None:
            most = max(most, sum(map(megabytes, tree_of([process.pid]))))
            try:
                process.wait(EVERY_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        took = (time.perf_counter() - began) * 1000
    if process.returncode:
        raise RuntimeError(f"aop forge scan ended with {process.returncode}.")
    return _Scanned(took, most)
