"""`aop evidence` and `aop logs`, as real processes."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from aop.core.roles import Role
from tests.kernel.tools.worlds import copied, ready_repository
from tests.world import World, run_aop

SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready_repository(tmp_path_factory.mktemp("template") / "repo")


@pytest.fixture
def repository(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "repo")


def test_an_intact_record_is_called_so_and_its_anchor_is_printed(repository: Path) -> None:
    ran = run_aop(repository, "evidence", "verify")
    assert ran.code == 0
    assert ran.err.startswith("Intact: 5 journal entries, 2 gate runs, 2 logs, 0 approvals, ")
    anchor = ran.out.strip()
    assert run_aop(repository, "evidence", "verify", "--anchor", anchor, "--json").json["data"]["entries"] == 5


def test_a_broken_record_has_an_exit_code_of_its_own_and_says_where(repository: Path) -> None:
    with sqlite3.connect(repository / ".aop/record.db") as connection:
        connection.execute("UPDATE journal SET actor = 'person:eve' WHERE seq = 3")
    connection.close()
    ran = run_aop(repository, "evidence", "verify")
    assert (ran.code, ran.out) == (4, "")
    assert "Entry 3 of the journal was changed after it was written. [evidence_broken]" in ran.err
    error = run_aop(repository, "evidence", "verify", "--json").json["error"]
    assert (error["code"], error["details"]["seq"], error["details"]["kind"]) == ("evidence_broken", 3, "changed")


@pytest.mark.parametrize(
    "words",
    [("verify", "--anchor", "5"), ("verify", "--anchor", "0:" + "a" * 64), ("bundle",), ("explode",), ()],
    ids=str,
)
def test_words_that_mean_nothing_are_refused(repository: Path, words: tuple[str, ...]) -> None:
    assert run_aop(repository, "evidence", *words).code == 2


def sums_hold(files: dict[str, bytes]) -> bool:
    lines = files["SHA256SUMS"].decode().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    return listed == {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items() if name != "SHA256SUMS"
    }


def test_a_bundle_holds_all_that_a_reviewer_needs(repository: Path) -> None:
    world = World(repository)
    world.ok("feature.log_append", feature_id="one", note="Ready.")
    token = world.approval()
    world.close()
    ran = run_aop(repository, "evidence", "bundle", "one", "--output", "out")
    assert (ran.code, ran.out) == (0, "out\n")
    folder = repository / "out"
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    names = {name for name in files if "/" not in name}
    assert names == {
        *("README.txt", "SHA256SUMS", "approvals.json", "diff.patch", "journal.jsonl", "plan.json"),
        *("review.html", "state.json", "summary.json", "verified.json"),
    }
    assert sums_hold(files)
    assert b"+TWO" in files["diff.patch"]
    assert json.loads(files["state.json"])["status"] == "ready_to_merge"
    assert json.loads(files["plan.json"])["feature_id"] == "one"
    assert len(json.loads(files["approvals.json"])) == 1
    events = [json.loads(line)["event"]["kind"] for line in files["journal.jsonl"].splitlines()]
    assert events[-2:] == ["note_added", "approval_granted"]
    assert sorted(name.split("/")[0] for name in files if "/" in name) == ["gates"] * 2 + ["logs"] * 2
    assert not any(token.encode() in content for content in files.values())


def test_the_same_evidence_is_packed_to_the_same_bytes(repository: Path) -> None:
    for name in ("a.tar.gz", "b.tar.gz"):
        assert run_aop(repository, "evidence", "bundle", "one", "--output", name).code == 0
    assert (repository / "a.tar.gz").read_bytes() == (repository / "b.tar.gz").read_bytes()
    with tarfile.open(repository / "a.tar.gz") as archive:
        members = archive.getmembers()
        files = {member.name.removeprefix("one-evidence/"): archive.extractfile(member) for member in members}
        assert sums_hold({name: file.read() for name, file in files.items() if file is not None})
    assert {(member.mtime, member.uid, member.uname, member.mode) for member in members} == {(0, 0, "", 0o644)}


def test_without_a_place_the_bundle_is_an_archive_here(repository: Path) -> None:
    ran = run_aop(repository, "evidence", "bundle", "one", "--json")
    assert ran.json["data"]["path"] == "one-evidence.tar.gz"
    assert (repository / "one-evidence.tar.gz").is_file()


@pytest.mark.parametrize("name", ["taken.tar.gz", "taken"])
def test_nothing_is_ever_overwritten(repository: Path, name: str) -> None:
    (repository / name).write_text("Mine.\n")
    ran = run_aop(repository, "evidence", "bundle", "one", "--output", name)
    assert (ran.code, (repository / name).read_text()) == (2, "Mine.\n")
    assert "already exists" in ran.err


@pytest.mark.hostile("K09")
def test_a_secret_is_in_no_file_of_a_bundle(repository: Path) -> None:
    ran = run_aop(repository, "evidence", "bundle", "one", "--output", "out", env={"MY_TOKEN": "three-known"})
    assert ran.code == 0
    (repository / "src/a.txt").write_text("x")
    secret = run_aop(repository, "evidence", "bundle", "one", "--output", "other", env={"MY_TOKEN": "Change the first"})
    assert secret.code == 0
    assert b"Change the first" in (repository / "out/plan.json").read_bytes()
    assert not any(b"Change the first" in path.read_bytes() for path in (repository / "other").rglob("*.json"))


def test_a_feature_that_does_not_exist_has_no_bundle(repository: Path) -> None:
    ran = run_aop(repository, "evidence", "bundle", "two")
    assert (ran.code, list(repository.glob("two*"))) == (1, [])


def lines_of(repository: Path, *words: str) -> list[dict[str, object]]:
    ran = run_aop(repository, "logs", "--json", *words)
    assert ran.code == 0
    return [json.loads(line)["data"] for line in ran.out.splitlines()]


def test_calls_are_there_with_who_tool_outcome_and_time(repository: Path) -> None:
    run_aop(repository, "call", "repo.apply_patch", '{"feature_id": "one", "unified_diff": "no"}', "--role", "builder")
    run_aop(repository, "call", f"no.{SECRET}", json.dumps({"feature_id": SECRET}), "--operation-id", "op-7")
    run_aop(repository, "call", "feature.log_append", '{"feature_id": "one", "note": "Hello."}')
    calls = [line for line in lines_of(repository) if line["type"] == "call"][-3:]
    keys = ("actor", "role", "tool", "feature_id", "outcome")
    assert [tuple(call[key] for key in keys) for call in calls] == [
        ("person:ada", "builder", "repo.apply_patch", "one", "invalid_status_transition"),
        ("person:ada", "orchestrator", "?", None, "unknown_tool"),
        ("person:ada", "orchestrator", "feature.log_append", "one", "ok"),
    ]
    assert all(isinstance(call["milliseconds"], float) and call["milliseconds"] >= 0 for call in calls)
    assert SECRET not in (repository / ".aop/calls.jsonl").read_text()
    (event,) = [line for line in lines_of(repository, "--since", "5") if line["type"] == "event"]
    # An entry is JSON, whose shape mypy does not know.
    assert event["event"]["operation_id"] == calls[-1]["operation_id"]  # type: ignore[index]


def test_looking_leaves_no_line_and_a_change_does(repository: Path) -> None:
    before = lines_of(repository)
    looks = (("status",), ("status", "one"), ("inbox",), ("watch",), ("review", "one"), ("review", "nope"), ("logs",))
    for words in looks:
        run_aop(repository, *words)
    run_aop(repository, "call", "repo.read_file", '{"feature_id": "one", "path": "src/a.txt"}')
    assert lines_of(repository) == before
    run_aop(repository, "call", "feature.log_append", '{"feature_id": "one", "note": "Hello."}')
    assert [line["type"] for line in lines_of(repository)[len(before) :]] == ["event", "call"]


def test_a_look_of_an_agent_is_there(repository: Path) -> None:
    world = World(repository)
    world.call_as_worker("repo.read_file", Role.BUILDER, "one", feature_id="one", path="src/a.txt")
    world.close()
    last = lines_of(repository)[-1]
    assert (last["actor"], last["tool"], last["outcome"]) == ("builder:one", "repo.read_file", "ok")


def test_a_feature_and_a_number_narrow_the_stream(repository: Path) -> None:
    run_aop(repository, "call", "feature.init", '{"feature_id": "two"}')
    two = lines_of(repository, "--feature", "two")
    assert [line["type"] for line in two] == ["event", "call"]
    assert lines_of(repository, "--since", "5") == two
    assert lines_of(repository, "--since", "6") == []
    assert run_aop(repository, "logs", "--since", "-1").code == 2
    assert run_aop(repository, "logs", "--feature", "../x").code == 2


def test_for_people_it_is_one_line_each_without_deception(repository: Path) -> None:
    note = json.dumps({"feature_id": "one", "note": "fine\u202e\x1b[31mred"})
    run_aop(repository, "call", "feature.log_append", note)
    text = run_aop(repository, "logs", "--since", "5").out
    event, call = text.splitlines()
    assert "#6 " in event
    assert event.endswith("person:ada  note_added  one  note=fine\\u{202e}\\u{1b}[31mred")
    assert "call    person:ada  feature.log_append  one  ok  " in call


def test_it_follows_what_happens_next(repository: Path) -> None:
    following = subprocess.Popen(
        [sys.executable, "-m", "aop.cli.main", "logs", "--follow", "--json", "--since", "5"],
        cwd=repository,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "USER": "ada"},
    )
    with following:
        run_aop(repository, "call", "feature.log_append", '{"feature_id": "one", "note": "First."}')
        assert following.stdout is not None
        first = [json.loads(following.stdout.readline())["data"] for _ in range(2)]
        run_aop(repository, "call", "feature.init", '{"feature_id": "One"}')
        second = json.loads(following.stdout.readline())["data"]
        following.terminate()
    assert [line["type"] for line in first] == ["event", "call"]
    assert (second["tool"], second["outcome"]) == ("feature.init", "invalid_feature_slug")
