"""Third-party programs, as `make real` installs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from aop.adapters.files.locks import locked_file

REAL = Path(os.environ.get("AOP_REAL") or Path(__file__).parents[2] / ".real")
BIN = REAL / "node_modules" / ".bin"

Run = Callable[..., subprocess.CompletedProcess[str]]


@contextmanager
def alone_with(place: Path) -> Iterator[Path]:
    """Keep other workers away from a place that all tests share."""
    with locked_file(Path(f"{place}.lock")):
        yield place


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs one of them with a home of its own, and nothing of this machine's environment."""
    if not (BIN / "conformance").exists():
        pytest.skip("The programs are not installed: `make real` does that, where there is `npm`.")
    home = tmp_path / "home"
    home.mkdir()
    base = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home), "TMPDIR": str(tmp_path)}

    def run(
        program: str, *words: str, env: Mapping[str, str] | None = None, cwd: Path = tmp_path
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / program), *words],
            cwd=cwd,
            env={**base, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )

    return run
