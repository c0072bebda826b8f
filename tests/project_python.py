"""A project's Python for tests: a virtual environment with pytest, and without AOP."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import venv
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

PACKAGES = ("coverage", "iniconfig", "packaging", "pluggy", "pygments", "pytest", "pytest-cov")


@cache
def project_programs() -> str:
    """Return the folder for the PATH whose `python3` has pytest and pytest-cov."""
    folder = Path(tempfile.mkdtemp(prefix="aop-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in PACKAGES:
        for file in distribution(name).files or ():
            source, place = Path(str(file.locate())), packages / file
            # Scripts lie outside, and start the Python of their own environment.
            if ".." not in file.parts and source.is_file():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, place)
    return str(folder / "bin")
