"""Program folders: third-party programs, installed beside the old and swapped in."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

SECONDS = 900


class InstallProblem(Exception):
    """A program could not be installed; the earlier one is unchanged."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def replace_folder(place: Path, fill: Callable[[Path], str]) -> str:
    """Fill a new folder and replace the old one; return what `fill` returned. Raises: InstallProblem."""
    new = place.with_name(f".{place.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        found = fill(new)
        shutil.rmtree(place, ignore_errors=True)
        os.rename(new, place)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return found


def npm_install(folder: Path, package: str, environ: Mapping[str, str]) -> None:
    """Install one package with npm. Raises: InstallProblem."""
    npm = shutil.which("npm", path=environ.get("PATH", ""))
    if npm is None:
        raise InstallProblem("`npm` is not on the PATH.", hint="Install Node.js 20 or newer and try again.")
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    run_installer("npm", [npm, "install", "--prefix", str(folder), *options, package], package, environ)


def run_installer(name: str, words: Sequence[str], package: str, environ: Mapping[str, str]) -> None:
    """Run an installer for one package. Raises: InstallProblem."""
    try:
        ran = subprocess.run(
            words,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            env=dict(environ),
        )
    except subprocess.TimeoutExpired as error:
        raise InstallProblem(f"{name} did not install `{package}` in {SECONDS} seconds.") from error
    except OSError as error:
        raise InstallProblem(f"{name} cannot be started: {error.strerror}.") from error
    if ran.returncode:
        said = (ran.stderr.strip().splitlines() or ["nothing"])[0][:200]
        raise InstallProblem(f"{name} could not install `{package}`: {said}")
