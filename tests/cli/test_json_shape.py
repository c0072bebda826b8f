"""`--json`: every command prints one shape, with a result, a refusal, a wrong use, a fault or Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from aop.cli.main import VERBS
from aop.cli.shell.exits import exit_of
from aop.kernel.contracts.schemas import output_schema
from tests.kernel.tools.worlds import configured, gates_of, step
from tests.world import Ran, World, make_repository, run_aop

AOP = [sys.executable, "-m", "aop.cli.main"]
SHAPE = jsonschema.Draft202012Validator(output_schema())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A managed repository with one feature and one spec."""
    made = make_repository(tmp_path_factory.mktemp("shape") / "repo")
    (made / "greeting.md").write_text("# Greet\n\n- It must greet by name.\n")
    world = World(made)
    world.init("one")
    world.close()
    return made


def objects_of(ran: Ran) -> list[Any]:
    """Return what a command printed, each object held against the one shape."""
    text, found = ran.out, []
    while text := text.lstrip():
        value, end = json.JSONDecoder().raw_decode(text)
        SHAPE.validate(value)
        found.append(value)
        text = text[end:]
    return found


RESULTS = [
    ("agents",),
    ("agents", "show", "claude"),
    ("models", "prices"),
    ("call", "report.dashboard"),
    ("comment", "one", "Better."),
    ("comments", "one"),
    ("completion", "bash"),
    ("config",),
    ("config", "--environment"),
    ("config", "worktree.link"),
    ("delete", "one"),
    ("doctor",),
    ("evidence", "bundle", "one", "--output", "packed.tar.gz"),
    ("evidence", "verify"),
    ("gated", "status"),
    ("gc",),
    ("help",),
    ("help", "merge"),
    ("inbox",),
    ("init", "--yes"),
    ("mcp", "config", "claude"),
    ("new", "two", "Greet by name"),
    ("notify", "test"),
    ("outbound",),
    ("pause", "one"),
    ("rebase", "one"),
    ("redact", "greeting.md"),
    ("redo", "one"),
    ("replay",),
    ("review", "one"),
    ("run", "-fi", "greeting.md", "--dry-run", "--agent-provider", "custom"),
    ("status",),
    ("status", "one"),
    ("stop",),
    ("sync",),
    ("ticket", "runs"),
    ("token", "builder", "--feature", "one"),
    ("token", "list"),
    ("tools",),
    ("tools", "write", "--to", "contracts"),
    ("undo", "one"),
]


@pytest.mark.parametrize("words", RESULTS, ids=" ".join)
def test_a_result_is_one_object_that_is_ok_exactly_if_the_exit_code_is_0(root: Path, words: tuple[str, ...]) -> None:
    ran = run_aop(root, *words, "--json", env={"AOP_CUSTOM_AGENT": "true"})
    (printed,) = objects_of(ran)
    assert ("data" in printed, printed["ok"]) == (True, ran.code == 0), ran


REFUSALS = [
    ("add", "-fi", "greeting.md"),
    ("answer", "q99", "Yes"),
    ("approve", "one", "--yes"),
    ("brain", "test"),
    ("call", "no.such_tool"),
    ("comment", "one", "--delete", "9"),
    ("comments", "nope"),
    ("evidence", "verify", "nope"),
    ("fix", "Greet by name"),
    ("mcp",),
    ("merge", "one", "--token", "aop1.x"),
    ("reject", "nope", "Too large"),
    ("request-changes", "nope", "Smaller"),
    ("retry", "one"),
    ("review", "nope"),
    ("ticket", "show", "nope"),
]


@pytest.mark.parametrize("words", REFUSALS, ids=" ".join)
def test_a_refusal_is_one_object_whose_code_decides_the_exit_code(root: Path, words: tuple[str, ...]) -> None:
    ran = run_aop(root, *words, "--json")
    (printed,) = objects_of(ran)
    assert (printed["ok"], ran.code) == (False, exit_of(printed["error"]["code"])), ran


@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_use_of_each_command_is_one_object_with_an_error(root: Path, verb: str) -> None:
    ran = run_aop(root, verb, "--no-such-option", "--json")
    (printed,) = objects_of(ran)
    assert (ran.code, printed["error"]["code"], ran.err) == (2, "invalid_cli_args", "")


@pytest.mark.parametrize("words", [("nonsense",), ("--no-such-option",), ("--repo", "status")], ids=" ".join)
def test_a_line_without_a_command_is_one_object_with_an_error(root: Path, words: tuple[str, ...]) -> None:
    ran = run_aop(root, *words, "--json")
    (printed,) = objects_of(ran)
    assert (ran.code, printed["error"]["code"], ran.err) == (2, "invalid_cli_args", "")


def test_a_stream_is_one_object_on_each_line(root: Path) -> None:
    lines = run_aop(root, "logs", "--json").out.splitlines()
    printed = [json.loads(line) for line in lines]
    for each in printed:
        SHAPE.validate(each)
    assert {each["data"]["type"] for each in printed} == {"call", "event"}


def test_a_command_that_ctrl_c_stops_prints_one_object(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", gates=gates_of(fast=step("echo $$; sleep 600")))
    world.plan()
    world.close()
    words = [*AOP, "call", "gates.run", '{"feature_id": "one", "mode": "fast"}', "--json"]
    with subprocess.Popen(words, cwd=world.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "one: fast gates, step 1 of 1: check\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    (printed,) = objects_of(Ran(code=process.returncode, out=out, err=err))
    assert (process.returncode, printed["error"]["code"], err) == (130, "interrupted", "")


def test_a_fault_is_one_object_with_a_reference(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    program = (
        "import sys, aop.cli.main as main\n"
        "def broken(*_): raise ZeroDivisionError\n"
        "main._import_verb = broken\n"
        "sys.exit(main.main(['status', '--json']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=os.environ, capture_output=True, text=True, check=False
    )
    (printed,) = objects_of(Ran(code=ended.returncode, out=ended.stdout, err=ended.stderr))
    assert (ended.returncode, printed["error"]["code"]) == (6, "internal_error")
    assert printed["error"]["details"]["reference"]
