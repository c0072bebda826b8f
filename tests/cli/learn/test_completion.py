"""`aop completion`: commands, options, values and what the record holds, in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world import World, make_repository, run_aop

SECONDS = 60


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two features, an open question, and two projects."""
    made = make_repository(tmp_path_factory.mktemp("completion") / "repo")
    world = World(made)
    world.init("greeting")
    world.init("farewell")
    world.ok("forge.project_new", name="Shop")
    world.ok("forge.project_new", name="Blog")
    world.ok("inbox.ask", feature_id="greeting", gate="question", text="Which colour?")
    world.close()
    return made


def words(root: Path, *line: str) -> list[str]:
    ran = run_aop(root, "__complete", *line)
    assert (ran.code, ran.err) == (0, "")
    return [each.partition("\t")[0] for each in ran.out.splitlines()]


LINES = [
    (("me",), ["merge"]),
    (("evidence", ""), ["verify", "bundle"]),
    (("evidence", "verify", "gr"), ["greeting"]),
    (("review", ""), ["farewell", "greeting"]),
    (("review", "greeting", ""), []),
    (("logs", "--feature", "f"), ["farewell"]),
    (("logs", "--fol"), ["--follow"]),
    (("answer", ""), ["q1"]),
    (("merge", "greeting", "--strategy", "s"), ["squash"]),
    (("run", "--agent-provider", "c"), ["codex", "claude", "claude-acp", "copilot", "cursor", "cline", "custom"]),
    (("agents", "install", "g"), ["gemini", "gemini-acp", "goose"]),
    (("token", "bu"), ["builder"]),
    (("call", "report.d"), ["report.dashboard"]),
    (("config", "worktree.li"), ["worktree.link"]),
    (("help", "comp"), ["completion"]),
    (("completion", ""), ["bash", "fish", "zsh"]),
    (("forge", "hi"), ["history"]),
    (("forge", "show", ""), ["blog", "shop"]),
    (("forge", "history", "shop", "ph"), ["physics", "phases"]),
    (("forge", "edit", "s"), ["shop"]),
    (("forge", "edit", "shop", "ui", "--ex"), ["--expect"]),
    (("forge", "key", "r"), ["revoke"]),
    (("forge", "key", "new", "--scope", "k"), ["keys"]),
    (("forge", "key", "revoke", ""), []),
    (("nonsense", ""), []),
    (("run", "--file", ""), []),
]


@pytest.mark.parametrize(("line", "expected"), LINES, ids=[" ".join(line) for line, _ in LINES])
def test_a_word_is_completed_where_it_stands(root: Path, line: tuple[str, ...], expected: list[str]) -> None:
    assert words(root, *line) == expected


def test_outside_of_a_repository_nothing_is_offered_and_nothing_is_said(tmp_path: Path) -> None:
    assert words(tmp_path, "review", "") == []
    assert list(tmp_path.iterdir()) == []


def test_completing_leaves_no_trace(root: Path) -> None:
    before = run_aop(root, "logs", "--json").out
    words(root, "review", "")
    assert run_aop(root, "logs", "--json").out == before


def in_shell(shell: str, script: str, root: Path, tmp_path: Path) -> str:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "bin/aop"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m aop.cli.main "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    options = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *options, "-c", script],
        cwd=root, env=env, capture_output=True, text=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_bash_completes_a_feature(root: Path, tmp_path: Path) -> None:
    script = """
        source <(aop completion bash)
        COMP_WORDS=(aop review gr) COMP_CWORD=2
        _aop
        printf '%s\\n' "${COMPREPLY[@]}"
        complete -p aop
    """
    assert in_shell("bash", script, root, tmp_path) == "greeting\ncomplete -o default -F _aop aop\n"


def test_fish_completes_a_feature_and_shows_its_status(root: Path, tmp_path: Path) -> None:
    script = "aop completion fish | source; complete --do-complete 'aop review gr'"
    assert in_shell("fish", script, root, tmp_path) == "greeting\tplanning\n"


def test_zsh_completes_a_feature(root: Path, tmp_path: Path) -> None:
    # A terminal of its own, as completion in zsh happens only while a person types.
    script = """
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell 'PS1="" PS2=""; source <(aop completion zsh); print READY'
        zpty -r shell line '*READY*READY*'
        zpty -w -n shell $'aop review gr\\t\\C-a: \\n'
        zpty -w shell 'print -r -- "typed: ${history[$((HISTCMD-1))]}"; print DONE'
        zpty -r shell line '*DONE*DONE*'
        print -r -- "$line"
    """
    assert "aop review greeting" in in_shell("zsh", script, root, tmp_path)
