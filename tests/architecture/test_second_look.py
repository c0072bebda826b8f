"""The second look: a test that is unsteady is named, and the third time it fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "second_look.py"
TESTS = """
import os
import pytest

def test_unsteady():
    assert "BUSY" not in os.environ

def test_steady():
    assert True

@pytest.mark.skipif("BUSY" not in os.environ, reason="needs what only the first run had")
def test_skipped():
    assert "LACKING" not in os.environ

@pytest.mark.skipif("BROKEN" not in os.environ, reason="only in a broken project")
@pytest.mark.parametrize("number", range(int(os.environ.get("BROKEN", "0"))))
def test_broken(number):
    assert False
"""


class Project:
    """A small project with tests, whose user has a cache of his own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = folder / "cache/aop-ci/unsteady.tsv"
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_it.py").write_text(TESTS)

    def second_look(self, **env: str) -> tuple[int, list[str]]:
        """Run the tests on a busy machine, then take a second look; return its exit code and what it says last."""
        assert self._run("-m", "pytest", "-q", BUSY="1", **env).returncode == 1
        looked = self._run(str(SCRIPT), **env)
        return looked.returncode, re.findall("^(?:Unsteady|[0-9]+ tests).*", looked.stdout, re.MULTILINE)

    def _run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            # Plugins would be half of the time.
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "XDG_CACHE_HOME": f"{self.folder}/cache", **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def named(times: int) -> str:
    return (
        "Unsteady, to be repaired: test_it.py::test_unsteady failed once, then passed 3 times alone"
        f" ({times} times so far)."
    )


def test_an_unsteady_test_is_named_and_fails_the_third_time(project: Project) -> None:
    assert project.second_look() == (0, [named(1)])
    assert project.kept.read_text() == "1\ttest_it.py::test_unsteady\n"
    project.kept.write_text("7\ttest_other.py::test_other\n2\ttest_it.py::test_unsteady\n")
    third = f"Unsteady 3 times is broken. Repair it, then remove its line from {project.kept}."
    assert project.second_look() == (1, [named(3), third])
    assert project.kept.read_text() == "3\ttest_it.py::test_unsteady\n7\ttest_other.py::test_other\n"


@pytest.mark.parametrize(
    ("broken", "said"), [(1, []), (3, ["4 tests failed; a second look is for 1 to 3."])], ids=["broken", "too many"]
)
def test_a_test_that_fails_alone_or_one_of_many_is_broken_and_not_counted(
    project: Project, broken: int, said: list[str]
) -> None:
    assert project.second_look(BROKEN=str(broken)) == (1, said)
    assert not project.kept.exists()


def test_a_test_that_is_skipped_alone_has_not_passed(project: Project) -> None:
    assert project.second_look(LACKING="1") == (1, [])
    assert not project.kept.exists()
