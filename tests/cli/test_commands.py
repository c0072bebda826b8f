"""`aop` as a real process: what each command prints on which stream, and its exit code."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from aop.cli.main import VERBS, load_verb
from aop.cli.screens.tables import width_of
from aop.cli.shell.examples import EXAMPLES
from aop.core.roles import Role
from aop.core.version import VERSION
from aop.kernel.contracts.schemas import tool_schemas
from aop.kernel.record.documents.features import Status
from aop.wiring.catalogue import CATALOGUE
from tests.kernel.tools.worlds import GATES, configured, copied, force, gates_of, patch_of, ready_repository, step
from tests.world import PATCH, Ran, World, files, git, make_repository, plan_for, run_aop

PROGRAM = [sys.executable, "-m", "aop.cli.main"]
SCHEMAS = {tool.name: tool_schemas(tool) for tool in CATALOGUE.values()}


def call(root: Path, tool: str, *words: str, **arguments: Any) -> Ran:
    return run_aop(root, "call", tool, json.dumps(arguments), *words)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that commands look at and do not change."""
    root = make_repository(tmp_path_factory.mktemp("cli") / "repo")
    world = World(root)
    world.plan()
    world.close()
    return root


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready_repository(tmp_path_factory.mktemp("template") / "repo")


@pytest.fixture
def ready(template: Path, tmp_path: Path) -> Path:
    """A repository with a feature that may be merged."""
    return copied(template, tmp_path / "repo")


def approved(root: Path) -> str:
    return run_aop(root, "approve", "one", "--yes").out.strip()


def test_the_version_is_one_line(tmp_path: Path) -> None:
    assert run_aop(tmp_path, "--version") == Ran(0, f"aop {VERSION}\n", "")


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_help_names_every_command(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = run_aop(tmp_path, *words)
    assert (ran.code, ran.err) == (0, "")
    assert [name for name in VERBS if f"\n  {name} " not in ran.out] == []


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_command_says_what_it_takes(tmp_path: Path, verb: str) -> None:
    ran = run_aop(tmp_path, verb, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"usage: aop {verb}")
    assert "--repo PATH" in ran.out
    examples = "examples:\n" + "".join(f"  {line}\n" for line in EXAMPLES[verb])
    # The actions of `forge` are many: each shows its own examples.
    pointer = "`aop forge ACTION --help` shows the arguments of an action, with examples.\n"
    assert ran.out.endswith(pointer if verb == "forge" else examples)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_example_is_something_that_the_command_takes(verb: str) -> None:
    for line in EXAMPLES[verb]:
        program, first, *words = shlex.split(line)
        assert (program, first) == ("aop", verb)
        _, parser = load_verb(verb, words)
        parser.parse_intermixed_args(words)


@pytest.mark.parametrize(
    "words",
    [
        ("frobnicate",),
        ("--frobnicate",),
        ("status", "--frobnicate"),
        ("approve",),
        ("merge",),
    ],
)
def test_words_that_aop_does_not_know_are_a_usage_error(repository: Path, words: tuple[str, ...]) -> None:
    ran = run_aop(repository, *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("usage: aop")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("words", [("status",), ("approve", "one", "--yes"), ("merge", "one")])
def test_outside_of_a_repository_nothing_works_and_nothing_is_made(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = run_aop(tmp_path, *words)
    assert (ran.code, ran.out) == (2, "")
    assert "[not_a_repository]" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("AOP-312")
def test_a_refusal_is_one_json_object_where_json_is_asked_for(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "status", "--json")
    assert (ran.code, ran.err, ran.json["ok"]) == (2, "", False)
    assert ran.json["error"]["code"] == "not_a_repository"


def without_ages(text: str) -> str:
    return re.sub(r"\d+ (s|min|h|d)\b", "AGE", text)


def test_the_repository_may_be_elsewhere_or_above(repository: Path, tmp_path: Path) -> None:
    named = run_aop(tmp_path, "status", "--repo", str(repository))
    below = run_aop(repository / "src", "status")
    in_worktree = run_aop(repository / ".worktrees/one", "status")
    assert {named.code, below.code, in_worktree.code} == {0}
    assert without_ages(named.out) == without_ages(below.out) == without_ages(in_worktree.out)
    assert named.out.splitlines()[3].startswith("one ")


def refuse_unlike(schema: Mapping[str, Any], ran: Ran) -> None:
    """Compare the answer with its tool's schema; the version of the output is added at the terminal."""
    answer = {name: value for name, value in ran.json.items() if name != "schema"}
    jsonschema.Draft202012Validator(schema).validate(answer)


class Caller:
    """Calls tools, each in a process of its own; every answer must be good and fit the schema of its tool."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.called: set[str] = set()

    def ok(self, tool: str, role: Role = Role.ORCHESTRATOR, **arguments: Any) -> Any:
        ran = call(self._root, tool, "--role", role, feature_id="one", **arguments)
        assert (ran.code, ran.json["ok"]) == (0, True), ran
        refuse_unlike(SCHEMAS[tool][1], ran)
        self.called.add(tool)
        return ran.json["data"]


def proven_feature(caller: Caller) -> None:
    caller.ok("feature.init")
    caller.ok("repo.ensure_worktree")
    caller.ok("plan.submit", Role.PLANNER, plan_json=plan_for("one"))
    revised = plan_for(
        "one", plan_version=2, revision_of=1, files=files(create=("src/new.txt",), modify=("src/a.txt",))
    )
    caller.ok("plan.update", Role.PLANNER, plan_json=revised, expected_plan_version=1)
    assert caller.ok("plan.get", Role.BUILDER)["plan"] == revised
    caller.ok("repo.apply_patch", Role.BUILDER, unified_diff=PATCH + patch_of("src/new.txt", "x"))
    assert caller.ok("gates.run", Role.BUILDER, mode="fast")["status"] == "qa"
    assert caller.ok("gates.run", Role.QA, mode="full")["status"] == "ready_to_merge"


@pytest.mark.req("AOP-149", "AOP-312")
def test_a_feature_goes_all_the_way_by_calls_alone_and_tools_keep_their_schemas(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    caller = Caller(root)
    proven_feature(caller)
    assert caller.ok("repo.read_file", Role.BUILDER, path="src/new.txt")["content"] == "x\n"
    assert caller.ok("repo.diff", Role.QA, options={"name_only": True})["text"] == "src/a.txt\nsrc/new.txt\n"
    assert caller.ok("evidence.latest", Role.QA)["latest"]["current"]
    for tool in sorted(SCHEMAS.keys() - caller.called):
        needed = SCHEMAS[tool][0]["required"]
        row = CATALOGUE[tool]
        if not row.mutates and Role.QA in row.roles and set(needed) <= {"feature_id"}:
            ran = call(root, tool, "--role", Role.QA, **dict.fromkeys(needed, "one"))
            assert (ran.code, ran.json["ok"]) == (0, True), ran
            refuse_unlike(SCHEMAS[tool][1], ran)
    status = caller.ok("repo.status")
    granted = caller.ok("feature.approve", tree=status["tree"], base=status["base_head"])
    merged = caller.ok("feature.ready_to_merge", user_approval_token=granted["token"], commit_message="Shout")
    assert git(root, "rev-parse", "main").strip() == merged["merge_commit"]
    assert git(root, "show", "main:src/new.txt") == "x\n"
    assert call(root, "feature.state_get", feature_id="one").json["data"]["front_matter"]["status"] == "merged"


def test_arguments_may_come_on_standard_input(repository: Path) -> None:
    ran = run_aop(repository, "call", "plan.get", "-", stdin='{"feature_id": "one"}')
    assert (ran.code, ran.json["data"]["plan_version"]) == (0, 1)


@pytest.mark.parametrize("text", ["{", "", '{"a": 1, "a": 2}', "[" * 100_000])
def test_what_is_not_json_is_a_usage_error(repository: Path, text: str) -> None:
    ran = run_aop(repository, "call", "report.dashboard", "-", stdin=text)
    assert (ran.code, ran.json["error"]["code"], ran.err) == (2, "invalid_arguments", "")


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        ((), "invalid_cli_args", 2),
        (("report.dashboard", "--role", "boss"), "invalid_cli_args", 2),
        (("report.dashboard", "{}", "more"), "invalid_cli_args", 2),
        (("report.dashboard", "--repo", "/"), "not_a_repository", 2),
        (("report.dashboard", "--repo", "broken"), "internal_error", 6),
    ],
)
def test_a_call_that_reaches_no_tool_is_answered_with_an_envelope_too(
    tmp_path: Path, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    root = make_repository(tmp_path / "broken")
    (root / ".aop").mkdir()
    (root / ".aop/record.db").write_text("not a database, but some text that is long enough to be read as one" * 20)
    ran = run_aop(tmp_path, "call", *words)
    assert (ran.code, ran.json["error"]["code"], ran.json["ok"], ran.err) == (exit_code, code, False, "")


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("no.such.tool", "{}"), "unknown_tool", 2),
        (("report.dashboard", "[]"), "invalid_arguments", 2),
        (("report.dashboard", '{"x": 1}'), "invalid_arguments", 2),
        (("feature.init", '{"feature_id": "-D"}'), None, 2),
        (("feature.state_get", '{"feature_id": "nobody"}'), "unknown_feature", 1),
        (("feature.init", '{"feature_id": "two"}', "--role", "builder"), "forbidden_tool_for_role", 1),
        (("feature.init", '{"feature_id": "one", "expected_version": 9}'), "version_conflict", 6),
        (("feature.ready_to_merge", '{"feature_id": "one"}'), "invalid_status_transition", 1),
        (("plan.get", '{"feature_id": "one"}', "--operation-id", "fine"), None, 0),
        (("feature.init", '{"feature_id": "one"}', "--operation-id", "not fine"), "invalid_arguments", 2),
        (("repo.read_file", '{"feature_id": "one", "path": "../x"}'), "path_out_of_bounds", 1),
    ],
)
def test_the_envelope_is_printed_and_its_error_is_the_exit_code(
    repository: Path, words: tuple[str, ...], code: str | None, exit_code: int
) -> None:
    ran = run_aop(repository, "call", *words)
    assert (ran.code, ran.json["ok"], ran.err) == (exit_code, exit_code == 0, "")
    if code is not None:
        assert ran.json["error"]["code"] == code
        assert ran.json["error"]["details"]["suggested_next_actions"]


def test_the_same_operation_runs_once_and_answers_twice(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    first, second = (call(root, "feature.init", "--operation-id", "op-1", feature_id="one") for _ in range(2))
    assert first == second
    assert first.json["data"]["created"] is True
    other = call(root, "feature.init", "--operation-id", "op-1", feature_id="two")
    assert (other.code, other.json["error"]["code"]) == (1, "idempotency_mismatch")


def test_a_call_says_on_stderr_what_it_is_doing(repository: Path) -> None:
    ran = call(repository, "gates.run", feature_id="one", mode="merge")
    assert (ran.code, ran.err) == (0, "one: merge gates, step 1 of 1: check\n")


def test_gates_that_fail_are_a_plain_failure(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", gates=gates_of(fast=step("exit 3")))
    world.plan()
    world.close()
    ran = call(world.root, "gates.run", feature_id="one", mode="fast")
    assert (ran.code, ran.json["error"]["code"], ran.json["evidence"]["exit_code"]) == (1, "gate_failed", 3)


def test_a_command_that_is_stopped_says_so_and_the_next_one_works(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", gates=gates_of(fast=step("echo $$; sleep 600")))
    world.plan()
    world.close()
    words = [*PROGRAM, "call", "gates.run", '{"feature_id": "one", "mode": "fast"}']
    with subprocess.Popen(words, cwd=world.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "one: fast gates, step 1 of 1: check\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    error = json.loads(out)["error"]
    assert (process.returncode, error["code"], error["message"], err) == (130, "interrupted", "Stopped.", "")
    state = call(world.root, "feature.state_get", feature_id="one").json["data"]["front_matter"]
    assert (state["status"], state["gates"]["fast"]) == ("building", "na")


INTERRUPTED = """
import runpy, sys
from aop.cli.shell import lean_imports, terminal
from aop.core.errors import Interrupted
# Whatever a refusal imports is there before.
terminal.Terminal(json=False).refused(Interrupted("Not yet."))
lean_imports.import_leanly = lambda: exec("raise KeyboardInterrupt")
sys.argv = ["aop", "status"]
runpy.run_module("aop.cli.main", run_name="__main__")
"""
"""A command that Ctrl-C stops while Python evaluates a text, as it does for each dataclass that is imported."""


def test_a_command_that_is_stopped_while_it_imports_has_the_same_exit_code(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    words = [sys.executable, "-m", "interrupted"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, "aop: Stopped. [interrupted]" in ran.stderr) == (130, True)


def test_the_status_has_a_line_for_each_feature(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    world.ready()
    world.init("a_longer_name")
    force(world, "a_longer_name", status_reason="Nobody has time.")
    world.close()

    ran = run_aop(world.root, "status", env={"COLUMNS": "140"})

    assert (ran.code, ran.err) == (0, "")
    gates = "plan:pass fast:pass full:pass"
    assert [line.split("  ") for line in re.sub("  +", "  ", without_ages(ran.out)).splitlines()] == [
        ["repo on main | no supervisor | 2 features: 1 planning, 1 ready_to_merge"],
        [""],
        ["FEATURE", "STATUS", "CHANGED", "GATES", "COST", "NOW"],
        ["a_longer_name", "planning", "AGE ago", "-", "Nobody has time.", "aop resume"],
        ["one", "ready_to_merge", "AGE ago", gates, "-", "Ready for review", "aop review one"],
    ]


def test_at_80_columns_the_status_fits_and_cuts_no_word(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    name = "add-payments-export-for-the-accountants-of-the-second-floor"
    world.init(name)
    force(
        world,
        name,
        status=Status.FAILED,
        status_reason="The 決済 \x1b[31mservice never answered, and nobody knows why.",
    )
    world.close()
    ran = run_aop(world.root, "status", env={"COLUMNS": "80"})
    assert max(map(width_of, ran.out.splitlines())) <= 80
    header, blank, titles, first, *others = (" ".join(line.split()) for line in without_ages(ran.out).splitlines())
    assert (header, blank) == ("repo on main | no supervisor | 1 feature: 1 failed", "")
    assert titles == "FEATURE STATUS CHANGED COST NOW"
    assert re.fullmatch(r"add-pay.*….*-floor failed AGE ago - The 決済 .*", first)
    told, command = " ".join([first, *others]).split(" - ")[1].split(" aop ")
    assert told == "The 決済 \\u{1b}[31mservice never answered, and nobody knows why."
    assert (command, others[-1]) == (f"retry {name}", f"aop retry {name}")


def test_one_feature_is_shown_in_full_with_the_next_command(ready: Path) -> None:
    ran = run_aop(ready, "status", "one", env={"COLUMNS": "80"})
    labels = {line[:10].strip(): line[10:] for line in ran.out.splitlines()}
    assert (ran.code, ran.err, labels["Feature"], labels["Next"]) == (0, "", "one", "aop review one")
    assert (labels["Plan 1"], labels["Changed"]) == ("Change the first file", "src/a.txt")
    assert (labels["Gates"], labels["Cost"]) == ("plan:pass fast:pass full:pass", "no turn yet")
    data = run_aop(ready, "status", "one", "--json").json["data"]
    assert (data["row"]["next_command"], data["state"]["feature_id"]) == ("aop review one", "one")


def test_the_status_has_colour_only_where_it_is_wanted(ready: Path) -> None:
    plain, coloured = run_aop(ready, "status"), run_aop(ready, "status", "--color", "always")
    assert "\x1b" not in plain.out
    assert "\x1b[32mready_to_merge\x1b[0m" in coloured.out


def test_the_status_is_the_dashboard_for_programs(repository: Path) -> None:
    ran = run_aop(repository, "status", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json == call(repository, "report.dashboard").json


def test_without_features_the_status_says_how_to_begin(tmp_path: Path) -> None:
    ran = run_aop(make_repository(tmp_path / "repo"), "status")
    assert (ran.code, ran.out) == (0, "repo on main | no supervisor | 0 features\n")
    assert ran.err == 'No features yet. Start with: aop fix "WHAT TO CHANGE"\n'


@pytest.mark.req("AOP-266")
def test_an_approval_prints_the_token_and_nothing_else_on_stdout(ready: Path) -> None:
    ran = run_aop(ready, "approve", "one", "--yes")
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert ran.out.startswith("aop1.")
    status = call(ready, "repo.status", feature_id="one").json["data"]
    for shown in (status["tree"], status["base_head"], "src/a.txt | 2 +-", "fast: pass", "full: pass"):
        assert shown in ran.err
    assert ran.out.strip() not in ran.err


def test_an_approval_can_be_one_json_object(ready: Path) -> None:
    ran = run_aop(ready, "approve", "one", "--yes", "--json")
    assert (ran.code, ran.json["ok"], ran.json["data"]["approved_by"]) == (0, True, "person:ada")


def test_without_a_terminal_nobody_can_be_asked(ready: Path) -> None:
    ran = run_aop(ready, "approve", "one", stdin="y\n")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(
        "aop: There is no terminal to ask on. [invalid_cli_args]\n  Pass `--yes` to answer yes in advance.\n"
    )
    assert approvals_of(ready) == 0


@pytest.mark.parametrize(
    ("typed", "code", "granted"), [("y\n", 0, 1), ("yes\n", 0, 1), ("n\n", 3, 0), ("\n", 3, 0), ("sure\n", 3, 0)]
)
def test_at_a_terminal_only_yes_is_yes(ready: Path, typed: str, code: int, granted: int) -> None:
    ran = at_terminal(ready, typed, "approve", "one")
    assert (ran.code, ran.out.startswith("aop1.")) == (code, bool(granted))
    assert "Approve this tree of one for one merge? [y/N] " in ran.err
    assert approvals_of(ready) == granted


def at_terminal(folder: Path, typed: str, *words: str) -> Ran:
    """Run `aop` with a terminal as its standard input, and type into it."""
    person, terminal = pty.openpty()
    try:
        with subprocess.Popen(
            [*PROGRAM, *words],
            cwd=folder,
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "USER": "ada"},
        ) as process:
            os.write(person, typed.encode())
            out, err = process.communicate(timeout=300)
    finally:
        os.close(person)
        os.close(terminal)
    return Ran(process.returncode, out, err)


def approvals_of(root: Path) -> int:
    with sqlite3.connect(root / ".aop/record.db") as record:
        count: int = record.execute("SELECT count(*) FROM documents WHERE kind = 'approval'").fetchone()[0]
    record.close()
    return count


@pytest.mark.parametrize(("feature", "code"), [("nobody", "unknown_feature"), ("one", "invalid_status_transition")])
def test_what_cannot_be_approved_is_refused(repository: Path, feature: str, code: str) -> None:
    ran = run_aop(repository, "approve", feature, "--yes")
    assert (ran.code, ran.out) == (1, "")
    assert f"[{code}]" in ran.err


@pytest.mark.parametrize("words", [(), ("--yes",)])
def test_nobody_is_asked_about_a_feature_that_cannot_be_approved(repository: Path, words: tuple[str, ...]) -> None:
    ran = at_terminal(repository, "y\n", "approve", "one", *words)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("aop: ")
    assert ran.err.splitlines()[0].endswith("[invalid_status_transition]")
    assert "[y/N]" not in ran.err


def test_nobody_is_asked_about_a_feature_whose_proof_is_out_of_date(ready: Path) -> None:
    (ready / GATES).write_text(gates_of(fast=step("true")))
    git(ready, "commit", "-qam", "Other gates")
    ran = at_terminal(ready, "y\n", "approve", "one")
    assert (ran.code, ran.out, approvals_of(ready)) == (3, "", 0)
    assert ran.err.startswith("aop: The feature `one` is not proven: ")
    assert ran.err.splitlines()[0].endswith("[evidence_stale]")


def test_a_person_is_told_what_is_not_part_of_the_feature(ready: Path) -> None:
    for name in ("notes.txt", "\x1b[2J\nGates    full: pass"):
        (ready / ".worktrees/one" / name).write_text("mine\n")
    ran = run_aop(ready, "approve", "one", "--yes")
    assert ran.code == 0
    forged = '"\\u{1b}[2J\\u{a}Gates    full: pass"'
    assert f"In the worktree, but not part of the feature: {forged}, notes.txt" in ran.err


def test_a_merge_prints_the_commit_and_nothing_else_on_stdout(ready: Path) -> None:
    ran = run_aop(ready, "merge", "one", "--token", approved(ready), "--strategy", "squash", "--message", "Shout")
    assert (ran.code, ran.out) == (0, git(ready, "rev-parse", "main"))
    assert "Merged one into main (squash)." in ran.err
    assert "The checkout shows `main` at " in ran.err
    assert git(ready, "status", "--porcelain") == ""
    assert git(ready, "log", "-1", "--format=%s", "main") == "Shout\n"


def test_a_merge_can_be_one_json_object(ready: Path) -> None:
    ran = run_aop(ready, "merge", "one", "--token", approved(ready), "--json")
    assert (ran.code, ran.json["data"]["status"]) == (0, "merged")


def without_token(_root: Path) -> tuple[str, ...]:
    return ()


def with_forged_token(_root: Path) -> tuple[str, ...]:
    return ("--token", "aop1.forged.token")


def with_other_gates(root: Path) -> tuple[str, ...]:
    token = approved(root)
    (root / GATES).write_text(gates_of(full=step("true")))
    git(root, "commit", "-qam", "Other gates")
    return ("--token", token)


def with_a_conflict(root: Path) -> tuple[str, ...]:
    (root / "src/a.txt").write_text("one\nzwei\nthree\n")
    git(root, "commit", "-qam", "Another second line")
    return ()


def with_a_strategy(root: Path) -> tuple[str, ...]:
    return ("--token", approved(root), "--strategy", "rebase")


def with_no_such_strategy(root: Path) -> tuple[str, ...]:
    return ("--token", approved(root), "--strategy", "octopus")


@pytest.mark.req("AOP-323")
@pytest.mark.parametrize(
    ("prepare", "code", "exit_code"),
    [
        (without_token, "user_approval_required", 4),
        (with_forged_token, "approval_invalid", 4),
        (with_other_gates, "evidence_stale", 3),
        (with_a_conflict, "merge_conflict", 1),
        (with_a_strategy, "strategy_not_allowed", 1),
        (with_no_such_strategy, "invalid_arguments", 2),
    ],
)
def test_a_merge_that_cannot_be_ends_with(
    ready: Path, prepare: Callable[[Path], tuple[str, ...]], code: str, exit_code: int
) -> None:
    words = prepare(ready)
    head = git(ready, "rev-parse", "main")
    ran = run_aop(ready, "merge", "one", *words)
    assert (ran.code, ran.out) == (exit_code, "")
    assert f"[{code}]\n  " in ran.err
    assert git(ready, "rev-parse", "main") == head


def test_a_base_that_moves_during_the_merge_is_for_another_try(tmp_path: Path) -> None:
    script = f"git --git-dir={tmp_path}/repo/.git update-ref refs/heads/main refs/heads/next"
    gates = gates_of(merge=step(script))
    ready = ready_repository(tmp_path / "repo", gates=gates, policy={"execution": {"sandbox": "off"}})
    git(ready, "branch", "next", git(ready, "commit-tree", "-p", "main", "-m", "Next", "main^{tree}").strip())
    ran = run_aop(ready, "merge", "one", "--token", approved(ready))
    assert (ran.code, ran.out) == (6, "")
    assert "[base_moved]" in ran.err
    assert git(ready, "rev-parse", "main") == git(ready, "rev-parse", "next")


def test_merge_gates_that_fail_name_their_log(tmp_path: Path) -> None:
    ready = ready_repository(tmp_path / "repo", gates=gates_of(merge=step("echo no; exit 1")))
    ran = run_aop(ready, "merge", "one", "--token", approved(ready))
    assert (ran.code, ran.out) == (1, "")
    log = ran.err.rpartition("  Log: ")[2].strip()
    assert (ready / log).read_text() == "no\n"


def broken(root: Path) -> Path:
    """Break the record as a bug would: a document that does not have its shape."""
    with sqlite3.connect(root / ".aop/record.db") as record:
        record.execute("UPDATE documents SET body = '{}' WHERE kind = 'feature'")
    record.close()
    return root


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    world = configured(tmp_path / "repo")
    world.init()
    world.close()
    return broken(world.root)


def test_a_breakage_is_a_reference_for_the_person_and_a_file_for_the_developer(faulty: Path) -> None:
    ran = run_aop(faulty, "status")
    assert (ran.code, ran.out) == (6, "")
    assert "[internal_error]" in ran.err
    assert "Traceback" not in ran.err
    (kept,) = (faulty / ".aop/faults").iterdir()
    assert kept.stem.removeprefix("aop-fault-") in ran.err
    assert "Traceback" in kept.read_text()
    assert "does not have its shape" in kept.read_text()


@pytest.mark.req("AOP-312")
def test_a_breakage_is_an_envelope_for_programs(faulty: Path) -> None:
    ran = run_aop(faulty, "status", "--json")
    assert (ran.code, ran.err, ran.json["error"]["code"]) == (6, "", "internal_error")
    assert ran.json["error"]["details"]["reference"]


@pytest.mark.req("AOP-269")
def test_what_is_kept_of_a_breakage_holds_no_secret(faulty: Path) -> None:
    with sqlite3.connect(faulty / ".aop/record.db") as record:
        record.execute("UPDATE documents SET body = '{\"version\": \"hunter-two-hunter\"}' WHERE kind = 'feature'")
    record.close()
    run_aop(faulty, "status", env={"DB_PASSWORD": "does not have its shape"})
    (kept,) = (faulty / ".aop/faults").iterdir()
    assert "does not have its shape" not in kept.read_text()


def test_a_reader_that_went_away_is_no_breakage(repository: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [*PROGRAM, "status"], cwd=repository, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(("role", "code"), [("qa", 0), ("system", 0), ("swe", 1), ("king", 2)])
def test_a_call_is_made_in_a_role_of_the_closed_list(repository: Path, role: str, code: int) -> None:
    assert run_aop(repository, "call", "gates.list", "--role", role).code == code


def test_options_may_stand_between_the_words(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    ran = run_aop(root, "call", "feature.state_get", "--role", "qa", '{"feature_id": "one"}')
    assert (ran.code, ran.json["error"]["code"]) == (1, "unknown_feature")
