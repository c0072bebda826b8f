"""Wrong uses and strange environments: every command explains, with the right exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world import World, make_repository, run_aop

AOP = [sys.executable, "-m", "aop.cli.main"]
NOTE = "Größe → ✓"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A managed repository with a feature, and a note in more than ASCII."""
    made = make_repository(tmp_path_factory.mktemp("wrong") / "repo")
    world = World(made)
    world.init("one")
    world.ok("feature.log_append", feature_id="one", note=NOTE)
    world.close()
    return made


COMMANDS = [
    ("tools", "list", "--role", "builder"),
    ("token", "builder"),
    ("token", "list"),
    ("mcp", "config", "claude"),
    ("logs",),
    ("evidence", "verify"),
    ("evidence", "bundle", "one"),
    ("delete", "one"),
    ("status",),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_outside_of_a_repository_each_says_so_as_text_and_as_json(tmp_path: Path, words: tuple[str, ...]) -> None:
    text, data = run_aop(tmp_path, *words), run_aop(tmp_path, *words, "--json")
    assert (text.code, text.out) == (2, "")
    assert text.err.startswith("aop: `.` is not in a git repository with a work tree. [not_a_repository]\n")
    assert (data.code, data.json["error"]["code"], data.err) == (2, "not_a_repository", "")
    assert list(tmp_path.iterdir()) == []


MISUSED = [
    (("status", "one", "extra"), "unrecognized arguments: extra"),
    (("status", "--colour", "never"), "unrecognized arguments: --colour. Did you mean `--color`?"),
    (("status", "--color", "nevr"), "there is no `nevr`; choose from auto, always, never. Did you mean `never`?"),
    (("tools", "list", "--role", "planer"), "Did you mean `planner`?"),
    (("logs", "--since", "x"), "argument --since: invalid int value: 'x'"),
    (("evidence",), "the following arguments are required: action"),
    (("tools", "list", "--role", "boss"), "argument --role: there is no role `boss`; use one of"),
    (("nonsense",), "there is no command `nonsense`. See `aop --help`"),
    (("stauts",), "there is no command `stauts`. Did you mean `status`? See `aop --help`"),
    (("--repo", "status"), "options come after the command: `aop status --repo`"),
]


@pytest.mark.parametrize(("words", "said"), MISUSED, ids=[" ".join(words) for words, _ in MISUSED])
def test_a_usage_error_is_text_for_people_and_json_for_programs(root: Path, words: tuple[str, ...], said: str) -> None:
    text, data = run_aop(root, *words), run_aop(root, *words, "--json")
    assert (text.code, text.out) == (2, "")
    assert said in text.err
    assert (data.code, data.err) == (2, "")
    assert (data.json["ok"], data.json["error"]["code"]) == (False, "invalid_cli_args")
    assert said in data.json["error"]["message"]


UNKNOWN = [
    (("evidence", "verify", "nope"), 1, "unknown_feature"),
    (("evidence", "bundle", "nope"), 1, "unknown_feature"),
    (("delete", "nope"), 1, "unknown_feature"),
    (("token", "builder", "--feature", "nope"), 1, "unknown_feature"),
    (("delete", "../x"), 2, "invalid_feature_slug"),
    (("logs", "--since", "999"), 2, "invalid_cli_args"),
    (("logs", "--feature", "nope"), 1, "unknown_feature"),
]


@pytest.mark.parametrize(("words", "exit_code", "code"), UNKNOWN, ids=[" ".join(words) for words, _, _ in UNKNOWN])
def test_what_is_not_there_is_never_taken_for_fine(
    root: Path, words: tuple[str, ...], exit_code: int, code: str
) -> None:
    ran = run_aop(root, *words, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (exit_code, code)


MISSPELT = [
    (("status", "onee"), "one"),
    (("review", "onee"), "one"),
    (("retry", "onee", "--agent-provider", "custom"), "one"),
    (("logs", "--feature", "onee"), "one"),
    (("replay", "onee"), "one"),
    (("evidence", "verify", "onee"), "one"),
    (("token", "builder", "--feature", "onee"), "one"),
    (("token", "bilder"), "builder"),
    (("resume", "--agent-provider", "cluade"), "claude"),
    (("agents", "test", "cluade"), "claude"),
    (("brain", "test", "--model", "antropic:m"), "anthropic"),
    (("call", "report.dashbord"), "report.dashboard"),
]


@pytest.mark.parametrize(("words", "meant"), MISSPELT, ids=[" ".join(words) for words, _ in MISSPELT])
def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(
    root: Path, words: tuple[str, ...], meant: str
) -> None:
    ran = run_aop(root, *words, "--json", env={"AOP_CUSTOM_AGENT": "true"})
    assert f"Did you mean `{meant}`?" in ran.json["error"]["message"]
    assert ran.code != 0


def test_logs_that_have_nothing_to_show_say_so(root: Path) -> None:
    ran = run_aop(root, "logs", "--agent", "one")
    assert (ran.code, ran.out, ran.err) == (0, "", "No output of an agent for `one` yet.\n")


ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_a_terminal_that_knows_only_ascii_is_shown_the_rest_as_escapes(root: Path) -> None:
    ran = run_aop(root, "logs", "--feature", "one", env=ASCII)
    assert (ran.code, ran.err) == (0, "")
    assert "note=Gr\\xf6\\xdfe \\u2192 \\u2713" in ran.out


def test_json_is_utf8_whatever_the_terminal_knows(root: Path) -> None:
    ended = subprocess.run(
        [*AOP, "logs", "--json"], cwd=root, env={**os.environ, **ASCII}, capture_output=True, check=False, timeout=300
    )
    notes = [
        entry["event"]["payload"].get("note")
        for entry in (json.loads(line)["data"] for line in ended.stdout.decode("utf-8").splitlines())
        if entry["type"] == "event"
    ]
    assert (ended.returncode, NOTE in notes) == (0, True)


@pytest.mark.parametrize(("given", "code"), [(NOTE.encode(), 0), (b"\xff", 2)], ids=["UTF-8", "not UTF-8"])
def test_what_comes_on_standard_input_is_utf8_or_refused(root: Path, given: bytes, code: int) -> None:
    ended = subprocess.run(
        [*AOP, "call", "feature.log_append", "-"],
        cwd=root,
        env={**os.environ, **ASCII},
        input=b'{"feature_id": "one", "note": "' + given + b'"}',
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == code, ended.stderr
    if code == 0:
        assert json.loads(ended.stdout)["data"]["note"] == NOTE
    else:
        assert json.loads(ended.stdout)["error"]["message"] == "Standard input is not UTF-8."


@pytest.mark.parametrize("words", [("status",), ("status", "--json"), ("tools", "list"), ("logs", "--json")])
@pytest.mark.parametrize(
    ("redirected", "said"),
    [
        (">/dev/full", "aop: The output could not be written: No space left on device.\n"),
        ("| head -c 0", ""),
        (">&-", ""),
    ],
)
def test_an_output_that_takes_nothing_is_no_traceback(
    root: Path, words: tuple[str, ...], redirected: str, said: str
) -> None:
    line = f'"$0" -m aop.cli.main {" ".join(words)} {redirected}'
    ended = subprocess.run(
        ["sh", "-c", line, sys.executable], cwd=root, capture_output=True, text=True, check=False, timeout=300
    )
    assert (ended.returncode, ended.stderr) == (1 if said else 0, said)


def test_a_command_that_would_ask_without_a_standard_input_refuses(root: Path) -> None:
    ended = subprocess.run(
        ["sh", "-c", '"$0" -m aop.cli.main delete one <&-', sys.executable],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 2
    assert "aop: There is no terminal to ask on. [invalid_cli_args]\n" in ended.stderr


@pytest.mark.parametrize("words", [("status",), ("logs",), ("evidence", "verify"), ("mcp", "config", "codex")])
def test_no_home_and_no_user_are_needed(root: Path, words: tuple[str, ...]) -> None:
    bare = {"PATH": os.environ["PATH"]}
    ended = subprocess.run([*AOP, *words], cwd=root, env=bare, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr


def test_a_hint_names_a_command_to_a_person_and_the_tool_to_a_program(root: Path) -> None:
    assert "  Read the status with `aop status one`," in run_aop(root, "approve", "one").err
    hints = run_aop(root, "approve", "one", "--json").json["error"]["details"]["suggested_next_actions"]
    assert "`feature.state_get`" in hints[0]
