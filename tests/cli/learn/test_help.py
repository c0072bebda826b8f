"""`aop help`: the help of each command, and man pages from the same source."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from aop.cli.forge.forge import ACTIONS
from aop.cli.main import VERBS
from aop.cli.shell.exits import EXIT_WORDS
from tests.world import run_aop


@pytest.mark.parametrize("verb", ["merge", "config", "help"])
def test_help_of_a_command_is_that_of_its_option(tmp_path: Path, verb: str) -> None:
    shown, option = run_aop(tmp_path, "help", verb), run_aop(tmp_path, verb, "--help")
    assert (shown.code, shown.out, shown.err) == (0, option.out, "")


def test_help_of_an_action_is_that_of_its_option(tmp_path: Path) -> None:
    shown, option = run_aop(tmp_path, "help", "forge", "edit"), run_aop(tmp_path, "forge", "edit", "--help")
    assert (shown.code, shown.out, shown.err) == (0, option.out, "")
    assert "--expect N" in shown.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("forge", "edti"), "`aop forge` has no help on `edti`. Did you mean `edit`?"),
        (("merge", "edit"), "`aop merge` has no help on `edit`."),
    ],
    ids=["forge edti", "merge edit"],
)
def test_help_on_an_unknown_action_is_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = run_aop(tmp_path, "help", *words, "--json")
    assert (ran.code, ran.json["error"]["message"]) == (2, said)


def test_help_alone_lists_the_commands(tmp_path: Path) -> None:
    assert run_aop(tmp_path, "help").out == run_aop(tmp_path, "--help").out


def test_help_on_an_unknown_command_names_the_nearest(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "help", "mrege", "--json")
    assert (ran.code, ran.json["error"]["message"]) == (2, "There is no command `mrege`. Did you mean `merge`?")


def test_each_command_has_a_man_page_that_troff_reads_without_a_warning(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "help", "--man", "man", "--json")
    names = {"aop.1", *(f"aop-{verb}.1" for verb in VERBS), *(f"aop-forge-{action}.1" for action in ACTIONS)}
    assert {Path(path).name for path in ran.json["data"]["written"]} == names
    assert {path.name for path in (tmp_path / "man").iterdir()} == names
    for name in names:
        text = (tmp_path / "man" / name).read_text()
        sections = [line for line in text.splitlines() if line.startswith(".SH ")]
        assert sections[:3] == [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"]
        assert ".SH EXIT STATUS" in sections
    if shutil.which("groff"):
        pages = sorted(map(str, (tmp_path / "man").iterdir()))
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tascii", *pages], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "aop merge greeting" in done.stdout


def test_a_man_page_shows_the_options_and_examples_of_its_command(tmp_path: Path) -> None:
    run_aop(tmp_path, "help", "undo", "--man", ".")
    text = (tmp_path / "aop-undo.1").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["aop-undo.1"]
    assert ".TP\n\\fB\\-\\-to TREE\\fR\n" in text
    assert ".SH EXAMPLES\n.nf\naop undo greeting\naop undo greeting \\-\\-to 2\n.fi\n" in text


def test_the_documented_exit_codes_are_those_of_the_man_pages() -> None:
    text = (Path(__file__).parents[3] / "docs/command-line.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()] == [
        f"| {int(code)} | {words} |" for code, words in EXIT_WORDS.items()
    ]
