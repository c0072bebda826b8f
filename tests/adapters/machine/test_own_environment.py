"""AOP's own environment: which folders are hidden from a project, and what is left of its variables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import aop
from aop.adapters.machine.own_environment import hidden_folders, is_developed_in, visible_paths, without_folders

CODE = Path(aop.__file__).parents[1]


def note(prefix: Path, content: str) -> None:
    """Install a package in an environment, with a note about its source."""
    folder = prefix / "lib/python3.11/site-packages/shop-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "direct_url.json").write_text(content)


def test_the_environment_of_aop_and_its_code_are_hidden_from_another_project(tmp_path: Path) -> None:
    assert hidden_folders(tmp_path) == (sys.prefix, str(CODE))


def test_an_environment_in_the_repository_is_the_projects_own(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(CODE.parent)
    assert sys.prefix not in hidden_folders(Path(sys.prefix).parent)
    assert str(CODE) not in hidden_folders(tmp_path / "link")


@pytest.mark.parametrize(
    ("content", "is_developed"),
    [
        ('{"url": "file://%s", "dir_info": {"editable": true}}', True),
        ('{"url": "file://%s/packages/a%%20b", "dir_info": {"editable": true}}', True),
        ('{"url": "file://%s", "dir_info": {}}', False),
        ('{"url": "file://%s-2", "dir_info": {"editable": true}}', False),
        ('{"url": "https://example.org%s", "dir_info": {"editable": true}}', False),
        ('["%s"]', False),
        ("%s", False),
    ],
)
def test_an_environment_is_the_projects_own_if_the_project_is_developed_in_it(
    tmp_path: Path, content: str, *, is_developed: bool
) -> None:
    note(tmp_path / "env", content % (tmp_path / "shop"))
    assert is_developed_in(str(tmp_path / "env"), tmp_path / "shop") is is_developed


def test_only_paths_into_hidden_folders_are_taken_out_of_variables(tmp_path: Path) -> None:
    own, link = tmp_path / "own", tmp_path / "link"
    (own / "bin").mkdir(parents=True)
    link.symlink_to(own / "bin")
    (own / "bin" / "python").symlink_to("/usr/bin/env")
    environ = {
        "PATH": f"{own}/bin:/usr/bin:{own}-2/bin:{link}:relative:{own}/../own/bin",
        "VIRTUAL_ENV": str(own),
        "PYTHONPATH": f"{own}/lib:{tmp_path}/mine",
        "__PYVENV_LAUNCHER__": f"{own}/bin/python",
        "UV_INDEX": f"https://example.org{own}",
        "EMPTY": "",
        "HOME": str(tmp_path),
    }
    assert without_folders(environ, (str(own),)) == {
        "PATH": f"/usr/bin:{own}-2/bin:relative",
        "PYTHONPATH": f"{tmp_path}/mine",
        "UV_INDEX": f"https://example.org{own}",
        "EMPTY": "",
        "HOME": str(tmp_path),
    }


def test_without_hidden_folders_a_path_stays_as_it_is() -> None:
    assert visible_paths("::/a:b:", ()) == "::/a:b:"
