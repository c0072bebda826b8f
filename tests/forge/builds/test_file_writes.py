"""Workspace of a build: reading and writing through the gateway, as callers with tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.forge.builds.documents import BuildCycle
from tests.forge.broker.shelves import Agent
from tests.forge.builds.begun import begun, worktree_of
from tests.kernel.tools.worlds import configured, state_of
from tests.world import World, git

PAGE = "def greet(name):\n    return f'Hello, {name}'\n"
STEERED = {"package.json": '{"name": "shop"}\n', "Makefile": "test:\n\ttrue\n", "vendor/lib.txt": "theirs\n"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = configured(tmp_path / "repo", policy={"protected_areas": ["vendor"]}, files=STEERED)
    yield made
    made.close()


@pytest.fixture(scope="module")
def begun_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A coder in a build that no test changes."""
    root = tmp_path_factory.mktemp("begun") / "repo"
    made = configured(root, policy={"protected_areas": ["vendor"]}, files=STEERED)
    yield coder(made, begun(made))
    made.close()


@pytest.fixture
def build(world: World) -> str:
    return begun(world)


def coder(world: World, build: str, role: Role = Role.CODER) -> Agent:
    return Agent(world, role, project="shop", build=build)


def events_of(world: World, build: str, kind: str) -> list[Any]:
    with world.app.record.read() as view:
        return [dict(entry.event.payload) for entry in view.journal(feature_id=FeatureId(build), kinds=(kind,))]


@pytest.mark.req("FORGE-024", "FORGE-027")
def test_what_is_written_is_in_the_tree_the_worktree_and_the_next_read(world: World, build: str) -> None:
    agent, before = coder(world, build), state_of(world, build)
    written = agent.ok("write_file", path="src/shop/page.py", content=PAGE)
    after = state_of(world, build)
    assert written == {
        "build_id": build,
        "path": "src/shop/page.py",
        "changed": True,
        "created": True,
        "bytes": len(PAGE),
        "tree": after.tree,
        "version": after.version,
    }
    read = agent.ok("read_file", path="src/shop/page.py")
    assert (read["content"], read["sha256"]) == (PAGE, hashlib.sha256(PAGE.encode()).hexdigest())
    assert (worktree_of(world, build) / "src/shop/page.py").read_text() == PAGE
    assert git(world.root, "status", "--porcelain") == ""
    assert events_of(world, build, "patch_applied") == [{"tree": after.tree, "before": before.tree, "files": 1}]
    assert events_of(world, build, "file_generated") == [
        {"build_id": build, "path": "src/shop/page.py", "phase": 0, "change": "create"}
    ]


def test_the_same_content_again_changes_nothing(world: World, build: str) -> None:
    agent = coder(world, build)
    first = agent.ok("write_file", path="src/page.py", content=PAGE)
    again = agent.ok("write_file", path="src/page.py", content=PAGE)
    assert again == {**first, "changed": False, "created": False}
    assert len(events_of(world, build, "file_generated")) == 1


def test_a_call_that_is_sent_twice_with_one_operation_id_is_one_change(world: World, build: str) -> None:
    agent = coder(world, build)
    arguments = {"path": "src/page.py", "content": PAGE}
    answers = [
        world.app.gateway.call(agent.principal, "write_file", arguments, operation_id="op-1").data for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert len(events_of(world, build, "file_generated")) == 1


@pytest.mark.req("FORGE-028")
def test_edits_replace_texts_that_occur_once(world: World, build: str) -> None:
    agent = coder(world, build)
    edits = [{"old": "two\n", "new": "TWO\n"}, {"old": "TWO\nthree", "new": "2\n3"}]
    assert agent.ok("edit_file", path="src/a.txt", edits=edits)["changed"]
    assert agent.ok("read_file", file_path="src/a.txt")["content"] == "one\n2\n3\n"


@pytest.mark.req("FORGE-103")
def test_a_fixer_changes_no_file_that_no_finding_cites(world: World, build: str) -> None:
    edits = [{"old": "two\n", "new": "TWO\n"}]
    assert coder(world, build, Role.FIXER).code("edit_file", path="src/a.txt", edits=edits) == "file_not_cited"
    assert coder(world, build).ok("read_file", file_path="src/a.txt")["content"] == "one\ntwo\nthree\n"


@pytest.mark.parametrize(("old", "found"), [("four", 0), ("e", 2)])
def test_an_edit_that_fits_nowhere_or_twice_changes_nothing(world: World, build: str, old: str, found: int) -> None:
    agent, before = coder(world, build), state_of(world, build)
    error = agent.call(
        "edit_file", path="src/a.txt", edits=[{"old": "one", "new": "1"}, {"old": old, "new": "x"}]
    ).error
    assert error is not None
    assert (error["code"], error["details"]["edit"], error["details"]["found"]) == ("patch_does_not_apply", 2, found)
    assert state_of(world, build) == before


@pytest.mark.req("FORGE-044")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../outside.txt", "path_out_of_bounds"),
        ("/etc/passwd", "path_out_of_bounds"),
        (".git/hooks/pre-commit", "path_out_of_bounds"),
        (".GIT/config", "path_out_of_bounds"),
        ("src/../README.md", "path_out_of_bounds"),
        ("src//a.txt", "path_out_of_bounds"),
        ("a*.txt", "path_out_of_bounds"),
        ("agentic/orchestrator/policy.yaml", "protected_path"),
        ("Agentic/notes.md", "protected_path"),
        (".aop/record.db", "protected_path"),
        ("Forge/Contracts/stack.md", "protected_path"),
        ("forge/notes.md", "protected_path"),
        (".gitignore", "protected_path"),
        ("vendor/lib.txt", "protected_path"),
        ("vendor/conftest.py", "protected_path"),
        ("package.json", "protected_path"),
        ("src/pytest.py", "protected_path"),
        ("node_modules/left-pad/index.js", "protected_path"),
        ("SRC/new.py", "path_out_of_bounds"),
        ("src/a.txt/below.txt", "invalid_patch"),
        ("src", "invalid_patch"),
    ],
)
def test_a_path_that_no_build_may_write_is_refused(begun_once: Agent, path: str, code: str) -> None:
    before = begun_once.world.fingerprint()
    error = begun_once.call("write_file", path=path, content="x\n").error
    assert error is not None
    assert error["code"] == code
    assert begun_once.world.fingerprint() == before


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("key = 'AKIAIOSFODNN7ABCDEFG'\n", "secret_detected"),
        ("x" * (600 * 1024), "invalid_arguments"),
        ("a\0b", "invalid_patch"),
    ],
    ids=["secret", "600 KB", "binary"],
)
def test_a_content_that_no_build_may_write_is_refused(begun_once: Agent, content: str, code: str) -> None:
    before = begun_once.world.fingerprint()
    error = begun_once.call("write_file", path="src/new.py", content=content).error
    assert error is not None
    assert (error["code"], "AKIA" in str(error)) == (code, False)
    assert begun_once.world.fingerprint() == before


def test_a_link_of_the_baseline_is_neither_written_nor_written_through(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    (world.root / "link").symlink_to("src")
    git(world.root, "add", "link")
    git(world.root, "commit", "-qm", "Link")
    agent = coder(world, begun(world))
    codes = [agent.call("write_file", path=path, content="x\n").error for path in ("link", "link/a.txt")]
    world.close()
    assert [error and error["code"] for error in codes] == ["invalid_patch", "invalid_patch"]


def test_a_file_that_steers_tests_is_created_where_the_baseline_lacks_it(world: World, build: str) -> None:
    agent = coder(world, build)
    written = [
        agent.ok("write_file", path=path, content="\n")["created"] for path in ("conftest.py", "web/package.json")
    ]
    assert written == [True, True]
    assert agent.ok("write_file", path="conftest.py", content="import os\n")["changed"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"status": "sealed"}, "build_ended"),
        ({"status": "abandoned"}, "build_ended"),
        ({"hold": "paused"}, "build_on_hold"),
    ],
)
def test_a_build_that_is_not_open_is_read_and_not_written(
    world: World, build: str, change: dict[str, str], code: str
) -> None:
    with world.app.record.write() as tx:
        cycle = tx.get(BuildCycle, build)
        assert cycle is not None
        tx.put(msgspec.structs.replace(cycle, version=2, **change), build)
    agent = coder(world, build)
    error = agent.call("write_file", path="src/new.py", content="x\n").error
    assert error is not None
    assert (error["code"], agent.ok("read_file", path="src/a.txt")["exists"]) == (code, True)


@pytest.mark.req("FORGE-043", "FORGE-045")
def test_the_worktree_shows_contracts_and_scratchpad_and_git_never_sees_them(world: World, build: str) -> None:
    agent, other = coder(world, build), begun(world, "other")
    agent.ok("forge_scratchpad", operation="write", key="plan", value="first the page")
    shown = worktree_of(world, build) / "Forge"
    names = sorted(path.relative_to(shown).as_posix() for path in shown.rglob("*") if path.is_file())
    assert names == [
        ".gitignore",
        ".scratchpad.json",
        "Contracts/blueprint.md",
        "Contracts/boundaries.json",
        "Contracts/builder_directive.md",
        "Contracts/manifesto.md",
        "Contracts/phases.md",
        "Contracts/physics.yaml",
        "Contracts/schema.md",
        "Contracts/stack.md",
        "Contracts/ui.md",
    ]
    assert msgspec.json.decode((shown / ".scratchpad.json").read_bytes()) == {"plan": "first the page"}
    assert (worktree_of(world, other) / "Forge/.scratchpad.json").read_text() == "{}\n"
    assert git(worktree_of(world, build), "status", "--porcelain") == ""
    assert agent.ok("list_directory", path="Forge")["entries"] == [".gitignore", ".scratchpad.json", "Contracts/"]
    assert (
        agent.ok("read_file", path="Forge/Contracts/stack.md")["content"] == (shown / "Contracts/stack.md").read_text()
    )
    assert "Forge/" in agent.ok("list_directory")["entries"]


@pytest.mark.req("FORGE-042")
def test_notes_that_were_changed_on_disk_are_written_again_from_the_record(world: World, build: str) -> None:
    agent, pad = coder(world, build), worktree_of(world, build) / "Forge/.scratchpad.json"
    agent.ok("forge_scratchpad", operation="write", key="plan", value="one")
    pad.write_text("{}")
    (pad.parent / "more.txt").write_text("not of the record")
    agent.ok("forge_scratchpad", operation="append", key="plan", value=" two")
    assert msgspec.json.decode(pad.read_bytes()) == {"plan": "one two"}
    assert not (pad.parent / "more.txt").exists()


@pytest.mark.req("FORGE-025", "FORGE-026")
def test_folders_are_listed_and_code_is_found_in_both_spellings(world: World, build: str) -> None:
    agent = coder(world, build, Role.SCOUT)
    found = {"matches": [{"path": "src/a.txt", "line": 2, "text": "two"}], "truncated": False, "next_call": ""}
    assert agent.ok("list_directory", path="src") == {"path": "src", "entries": ["a.txt", "b.txt"], "next_call": ""}
    assert agent.ok("search_code", query="two", paths=["src"]) == found
    assert agent.ok("search_code", pattern="^tw.$", glob="*.txt") == found
    assert agent.ok("search_code", query="two", glob="src/*.md")["matches"] == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {}),
        ("read_file", {"path": "src/a.txt", "file_path": "src/a.txt"}),
        ("search_code", {}),
        ("search_code", {"query": "two", "pattern": "two"}),
        ("search_code", {"query": "two", "paths": ["src"], "glob": "*.txt"}),
        ("search_code", {"query": "two", "glob": "a**/b"}),
    ],
)
def test_two_spellings_at_once_or_none_are_refused(begun_once: Agent, tool: str, arguments: dict[str, Any]) -> None:
    error = begun_once.call(tool, **arguments).error
    assert error is not None
    assert error["code"] == "invalid_arguments"


def test_a_long_file_and_many_matches_are_cut_at_the_limits_of_a_build(world: World, build: str) -> None:
    agent = coder(world, build)
    agent.ok("write_file", path="src/long.txt", content="line\n" * 20_000)
    read = agent.ok("read_file", path="src/long.txt")
    found = agent.ok("search_code", query="line")
    assert (len(read["content"]), read["truncated"], len(found["matches"]), found["truncated"]) == (
        51_200,
        True,
        50,
        True,
    )


def test_a_token_reaches_the_workspace_of_its_own_build_alone(world: World, build: str) -> None:
    other = begun(world, "other")
    coder(world, build).ok("write_file", path="src/mine.py", content=PAGE)
    reader = Agent(world, Role.CODER, project="other", build=other)
    error = reader.call("read_file", path="src/mine.py").error
    assert error is not None
    assert (error["code"], (worktree_of(world, other) / "src/mine.py").exists()) == ("file_not_found", False)


@pytest.mark.parametrize(("build_id", "code"), [(None, "no_build_in_session"), ("shop-b2", "build_not_begun")])
def test_a_token_without_a_begun_build_has_no_workspace(
    world: World, build: str, build_id: str | None, code: str
) -> None:
    world.ok("forge.pin", project_id="shop")
    error = Agent(world, Role.CODER, project="shop", build=build_id).call("read_file", path="src/a.txt").error
    assert (build, error and error["code"]) == ("shop-b1", code)
