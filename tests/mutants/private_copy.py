"""A private copy of the repository with an environment of its own, in which every process finds the copy's source."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.mutants import ROOT, Mutant
from tests.mutants.trial import TOLD, Outcome

ENVIRONMENT = ".venv"


class PrivateCopy:
    """A copy in which one mutation at a time is tried."""

    def __init__(self, place: Path) -> None:
        self.root = place
        self.python = place / ENVIRONMENT / "bin" / "python"
        shutil.rmtree(place, ignore_errors=True)
        for name in _own_files():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name, follow_symlinks=False)
        _copy_environment(ROOT / ENVIRONMENT, place / ENVIRONMENT, source=place / "src")

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Have the mutation in the source of this copy."""
        place = self.root / "src" / "aop" / mutant.file
        source = place.read_text(encoding="utf-8")
        changed = mutant.changed(source)
        try:
            _write(place, changed)
            yield
        finally:
            _write(place, source)

    def outcome(self, module: str, tests: Sequence[str], *, seconds: float) -> Outcome:
        """Run tests on the source of this copy, in a process that is ended when it takes too long."""
        process = subprocess.Popen(
            [self.python, "-m", "tests.mutants.trial", module, *tests],
            cwd=self.root,
            env={name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Outcome(broken=[f"not done after {seconds:.0f} s"])
        told = [line for line in printed.splitlines() if line.startswith(TOLD)]
        if not told:
            return Outcome(broken=[f"the run ended with {process.returncode}: {printed[-300:]}"])
        return Outcome(**json.loads(told[-1].removeprefix(TOLD)))

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def _write(place: Path, source: str) -> None:
    """Write a source and forget what was compiled: two texts of one length in one second look the same to Python."""
    place.write_text(source, encoding="utf-8")
    for compiled in (place.parent / "__pycache__").glob(f"{place.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


def _own_files() -> list[str]:
    """Return the files of the repository as they are now, new ones included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def _copy_environment(outer: Path, inner: Path, *, source: Path) -> None:
    """Link to everything that is installed, except to what leads to the source and to the outer environment."""
    (packages,) = outer.glob("lib/python*/site-packages")
    below = inner / packages.relative_to(outer)
    below.mkdir(parents=True)
    for entry in packages.iterdir():
        (below / entry.name).symlink_to(entry)
    (below / "aop.pth").unlink()
    (below / "aop.pth").write_text(f"{source}\n", encoding="utf-8")
    shutil.copy2(outer / "pyvenv.cfg", inner / "pyvenv.cfg")
    (inner / "bin").mkdir()
    for program in (outer / "bin").iterdir():
        _copy_program(program, inner / "bin" / program.name)


def _copy_program(program: Path, place: Path) -> None:
    here = os.fsencode(program.parent / "python")
    if program.is_symlink():
        place.symlink_to(program.readlink())
    elif program.read_bytes()[:200].startswith(b"#!" + here):
        place.write_bytes(program.read_bytes().replace(here, os.fsencode(place.parent / "python"), 1))
        place.chmod(0o755)
    else:
        place.symlink_to(program)
